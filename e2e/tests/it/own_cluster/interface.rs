//! The annotations by which services communicate. The test plays a pcs-controller of a later version: while that of this commit is stopped, it
//! writes one value of a later version on each object. The other services are those of this commit.

use std::fmt::Debug;

use e2e::native_gangs::{named_pod_group, pod_groups};
use e2e::poll::poll_until;
use e2e::resource_claims::claim_names;
use e2e::{Namespace, NamespaceState, TestCluster, events};
use grove_api_types::labels::{
    PACK_AFFINITY, PART_OF, POD_CLIQUE, POD_GROUP, POD_GROUP_SPEC, POD_INDEX, RESOURCE_CLAIMS, SCALE, SCHEDULER_NAME,
};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{ClusterTopologyBinding, PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");
/// The account of the writer. The webhooks exempt it, as they exempt a pcs-controller of another version.
const WRITER: &str = "system:serviceaccount:grove-system:pcs-controller";
const TOPOLOGY: &str = "e2e-interface";
const KEY: &str = "kubernetes.io/hostname";
/// A gang that must be on one node, and its cliques.
const GANG: &str = "packed-0";
const PACKED: &str = "packed-0-a";
const DELETED: &str = "packed-0-b";
/// A clique with a claim. The cluster has no devices, so its pods stay pending.
const SHARED: &str = "shared-0-work";
const CLAIM: &str = "shared-0-work-all-gpus";

/// A gang with values of a later version that belong to no clique alone, and its cliques.
const SCALED_GANG: &str = "scaled-0";
const LOST: &str = "scaled-0-a";
const NAMED: &str = "scaled-0-b";

fn set(name: &str, cliques: &[Value], fields: &Value) -> Value {
    let mut template = json!({ "cliques": cliques });
    json_patch::merge(&mut template, fields);
    json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": name },
        "spec": { "replicas": 1, "template": template } })
}

fn clique(name: &str, replicas: i32) -> Value {
    let pod_spec = json!({ "nodeSelector": { "type": "kwok" },
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    json!({ "name": name, "spec": { "roleName": name, "replicas": replicas, "minAvailable": replicas, "podSpec": pod_spec } })
}

fn packed_set() -> Value {
    let constraint = json!({ "topologyName": TOPOLOGY, "pack": { "required": "host" } });
    set("packed", &[clique("a", 2), clique("b", 1)], &json!({ "topologyConstraint": constraint }))
}

fn shared_set() -> Value {
    let request = json!({ "name": "gpu", "exactly": { "deviceClassName": "gpu.nvidia.com", "count": 1 } });
    let template = json!({ "name": "gpus", "templateSpec": { "spec": { "devices": { "requests": [request] } } } });
    let mut work = clique("work", 2);
    work["resourceSharing"] = json!([{ "name": "gpus", "scope": "AllReplicas" }]);
    set("shared", &[work], &json!({ "resourceClaimTemplates": [template] }))
}

fn scaled_set() -> Value {
    set("scaled", &[clique("a", 1), clique("b", 2)], &json!({}))
}

/// The values of one version.
struct Values {
    record: String,
    affinity: String,
    claims: String,
}

impl Values {
    fn of(state: &NamespaceState) -> Self {
        Self {
            record: state.gangs[GANG].annotations()[POD_GROUP_SPEC].clone(),
            affinity: state.cliques[PACKED].annotations()[PACK_AFFINITY].clone(),
            claims: state.cliques[SHARED].annotations()[RESOURCE_CLAIMS].clone(),
        }
    }

    fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let changed = |value: &str| {
            let changed = change(value);
            assert_ne!(changed, value, "the value has no version");
            changed
        };
        Self { record: changed(&self.record), affinity: changed(&self.affinity), claims: changed(&self.claims) }
    }
}

struct Fixture {
    ns: Namespace,
    writer: Client,
}

impl Fixture {
    async fn create(cluster: &TestCluster) -> Self {
        let client = cluster.client().await;
        let levels = json!({ "levels": [{ "domain": "host", "key": KEY }] });
        let topology = ClusterTopologyBinding::new(TOPOLOGY, serde_json::from_value(levels).expect("a spec"));
        let created = Api::all(client.clone()).create(&PostParams::default(), &topology).await;
        created.expect("the topology is created");
        let ns = Namespace::create(&client, "e2e-interface").await;
        Self { ns, writer: cluster.client_as(WRITER, &[]).await }
    }

    /// Creates both sets, and returns the values of this version.
    async fn create_sets(&self) -> Values {
        let sets = self.ns.api::<PodCliqueSet>();
        for set in [packed_set(), shared_set(), scaled_set()] {
            let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
            // The webhook server may not know the topology yet.
            poll_until(async || sets.create(&PostParams::default(), &set).await.ok()).await;
        }
        self.ns.wait_for_ready_pods("packed", 3).await;
        self.ns.wait_for_ready_pods("scaled", 3).await;
        let state = self.wait_for_pods(SHARED, 2).await;
        assert_packed(&state);
        assert_shared(&state);
        Values::of(&state)
    }

    /// Writes an annotation as pcs-controller does.
    async fn write<K>(&self, name: &str, key: &str, value: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let objects = Api::<K>::namespaced(self.writer.clone(), &self.ns.name);
        let patched = objects.patch(name, &PatchParams::default(), &annotation(key, value)).await;
        assert_eq!(patched.expect("the object is patched").annotations()[key], value);
    }

    async fn write_all(&self, values: &Values) {
        self.write::<PodGang>(GANG, POD_GROUP_SPEC, &values.record).await;
        self.write::<PodClique>(PACKED, PACK_AFFINITY, &values.affinity).await;
        self.write::<PodClique>(SHARED, RESOURCE_CLAIMS, &values.claims).await;
    }

    /// Waits until the clique has exactly this many pods, and its status counts them: the reconcile after the last change of a pod has ended.
    async fn wait_for_pods(&self, clique: &str, count: usize) -> NamespaceState {
        let replicas = i32::try_from(count).ok();
        let has_pods = |state: &NamespaceState| {
            let status = state.cliques.get(clique).and_then(|clique| clique.status.as_ref());
            pods_of(state, clique).len() == count && status.is_some_and(|status| status.replicas == replicas)
        };
        self.ns.wait_for(&format!("{clique} has {count} pods"), has_pods).await
    }

    /// Deletes the pod with the index 1. The deleted pod has no successor.
    async fn delete_pod(&self, clique: &str) {
        let state = self.wait_for_pods(clique, 2).await;
        let pods = pods_of(&state, clique);
        let index = |pod: &Pod| pod.labels().get(POD_INDEX).is_some_and(|index| index == "1");
        let (deleted, other): (Vec<&Pod>, Vec<&Pod>) = pods.into_iter().partition(|pod| index(pod));
        self.ns.delete_object::<Pod>(&deleted[0].name_any()).await;
        let after = self.wait_for_pods(clique, 1).await;
        assert_eq!(pods_of(&after, clique)[0].uid(), other[0].uid(), "{after}");
    }

    /// Deletes one of the two pods of the clique, and waits for its successor, which has the claim.
    async fn delete_and_replace_pod(&self, clique: &str) {
        let state = self.wait_for_pods(clique, 2).await;
        let deleted = pods_of(&state, clique)[0].name_any();
        self.ns.delete_object::<Pod>(&deleted).await;
        let is_replaced =
            |state: &NamespaceState| pods_of(state, clique).len() == 2 && !state.pods.contains_key(&deleted);
        assert_shared(&self.ns.wait_for("the pod is replaced", is_replaced).await);
    }

    async fn wait_for_gang_scheduling(&self, gang: &str, reason: &str, text: &str) -> NamespaceState {
        let holds = |state: &NamespaceState| {
            let mut conditions =
                state.gangs.get(gang).into_iter().flat_map(|gang| &gang.status).flat_map(|it| &it.conditions);
            conditions.any(|condition| {
                condition.type_ == "GangScheduling" && condition.reason == reason && condition.message.contains(text)
            })
        };
        self.ns.wait_for(&format!("{gang} has GangScheduling with {reason}: {text}"), holds).await
    }

    /// The `PodGroup` of the gang.
    async fn pod_group(&self) -> DynamicObject {
        let state = self.ns.wait_for("the gang exists", |state| named_pod_group(state, GANG).is_some()).await;
        let name = named_pod_group(&state, GANG).expect("a name").to_owned();
        pod_groups(&self.ns.client, &self.ns.name).get(&name).await.expect("the PodGroup exists")
    }

    /// Deletes the Service of a set. pcs-controller creates it again with the next reconcile of the set, which also compares all other children.
    async fn wait_for_reconcile(&self, service: &str) {
        let uid = |state: &NamespaceState| state.services.get(service).and_then(ResourceExt::uid);
        let before = uid(&self.ns.wait_for("the Service exists", |state| uid(state).is_some()).await);
        self.ns.delete_object::<Service>(service).await;
        let is_recreated = |state: &NamespaceState| uid(state).is_some() && uid(state) != before;
        self.ns.wait_for(&format!("{service} is created again"), is_recreated).await;
    }
}

fn annotation(key: &str, value: impl Into<Value>) -> Patch<Value> {
    let value = value.into();
    Patch::Merge(json!({ "metadata": { "annotations": { key: value } } }))
}

/// The pods of a clique that are not terminating.
fn pods_of<'a>(state: &'a NamespaceState, clique: &str) -> Vec<&'a Pod> {
    let is_of_clique = |pod: &&Pod| pod.labels().get(POD_CLIQUE).is_some_and(|name| name == clique);
    state.active_pods().filter(is_of_clique).collect()
}

/// All pods of the gang have the required affinity, and are on one node.
fn assert_packed(state: &NamespaceState) {
    let mut nodes: Vec<_> = state.pods_of("packed").map(|pod| json!(pod.spec)["nodeName"].clone()).collect();
    nodes.dedup();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    for pod in state.pods_of("packed") {
        let terms = &json!(pod.spec)["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(terms[0]["topologyKey"], KEY, "{terms}");
    }
}

/// All pods of the clique refer to its claim.
fn assert_shared(state: &NamespaceState) {
    for pod in pods_of(state, SHARED) {
        assert_eq!(claim_names(pod), [CLAIM]);
    }
}

/// pcs-controller is stopped. webhook-server denies the value of a user.
async fn later_versions_are_reported(fixture: &Fixture, later: &Values) {
    let ns = &fixture.ns;
    let patch = annotation(RESOURCE_CLAIMS, later.claims.as_str());
    let denied = ns.api::<PodClique>().patch(SHARED, &PatchParams::default(), &patch).await.expect_err("a denial");
    assert!(denied.to_string().contains("grove.io/resource-claims has version 2"), "{denied}");

    fixture.write_all(later).await;
    let [of_packed, of_shared, of_gang] = [
        "annotation grove.io/pack-affinity has version 2",
        "annotation grove.io/resource-claims has version 2",
        "annotation grove.io/pod-group-spec has version 2",
    ];
    ns.wait_for_condition(PACKED, "Available", "MinimumReplicasAvailable", of_packed).await;
    ns.wait_for_condition(SHARED, "ResourceClaimsCreated", "ResourceClaimsInvalid", of_shared).await;
    let state = fixture.wait_for_gang_scheduling(GANG, "UnreadableAnnotation", of_gang).await;
    for clique in [PACKED, SHARED] {
        let errors = state.cliques[clique].status.iter().flat_map(|status| &status.last_errors);
        assert_eq!(
            errors.map(|error| error.code.as_str()).collect::<Vec<_>>(),
            ["ERR_UNREADABLE_ANNOTATION"],
            "{clique}"
        );
    }
    for (name, text) in [(PACKED, of_packed), (SHARED, of_shared), (GANG, of_gang)] {
        events::wait_for_note(ns, name, "UnreadableAnnotation", text).await;
    }
}

/// pcs-controller is stopped. Nothing is created that depends on the values, and nothing is repaired.
async fn nothing_depends_on_later_versions(fixture: &Fixture) {
    let (ns, group) = (&fixture.ns, fixture.pod_group().await);
    let edited = Patch::Merge(json!({ "metadata": { "labels": { PART_OF: "edited" } } }));
    let groups = pod_groups(&ns.client, &ns.name);
    groups.patch(&group.name_any(), &PatchParams::default(), &edited).await.expect("the PodGroup is patched");
    for clique in [PACKED, SHARED] {
        fixture.delete_pod(clique).await;
    }
    ns.wait_for_condition(PACKED, "Available", "UnreadableAnnotation", "grove.io/pack-affinity").await;
    ns.delete_object::<PodClique>(DELETED).await;
    ns.wait_for("the clique is deleted", |state| !state.cliques.contains_key(DELETED)).await;
    let after = fixture.pod_group().await;
    assert_eq!((after.uid(), &after.data["spec"]), (group.uid(), &group.data["spec"]));
    assert_eq!(after.labels()[PART_OF], "edited", "topology-controller would restore the label");
}

/// pcs-controller is stopped. The scheduler of a gang and the `PodGroup` of a clique are unknown, and so is the scale of a deleted clique.
async fn unknown_names_are_reported(fixture: &Fixture) {
    let ns = &fixture.ns;
    fixture.write::<PodGang>(SCALED_GANG, SCALE, r#"{"v":2}"#).await;
    fixture.write::<PodClique>(NAMED, POD_GROUP, "scaled-0-v2-1").await;
    let gangs = Api::<PodGang>::namespaced(fixture.writer.clone(), &ns.name);
    let label = Patch::Merge(json!({ "metadata": { "labels": { SCHEDULER_NAME: "next-scheduler" } } }));
    gangs.patch(SCALED_GANG, &PatchParams::default(), &label).await.expect("the gang is patched");
    let of_scheduler = r#"label grove.io/scheduler-name names "next-scheduler""#;
    fixture.wait_for_gang_scheduling(SCALED_GANG, "SchedulerUnknown", of_scheduler).await;
    let of_pod_group = "annotation grove.io/pod-group cannot be decoded";
    ns.wait_for_condition(NAMED, "Available", "MinimumReplicasAvailable", of_pod_group).await;
    for (name, reason, text) in
        [(SCALED_GANG, "SchedulerUnknown", of_scheduler), (NAMED, "UnreadableAnnotation", of_pod_group)]
    {
        events::wait_for_note(ns, name, reason, text).await;
    }
    fixture.delete_pod(NAMED).await;
    ns.delete_object::<PodClique>(LOST).await;
    ns.wait_for("the clique is deleted", |state| !state.cliques.contains_key(LOST)).await;
}

/// pcs-controller runs again. It creates no clique of which a later version has recorded the scale, until an administrator removes the record.
async fn a_set_waits_for_its_recorded_scale(fixture: &Fixture) {
    let ns = &fixture.ns;
    let text = "annotation grove.io/scale has version 2";
    let state = ns.wait_for_condition("scaled", "Available", "UnreadableAnnotation", text).await;
    assert!(!state.cliques.contains_key(LOST), "{state}");
    let removed = annotation(SCALE, Value::Null);
    let gangs = ns.api::<PodGang>();
    gangs.patch(SCALED_GANG, &PatchParams::default(), &removed).await.expect("the gang is patched");
    ns.wait_for_ready_pods("scaled", 3).await;
    fixture.wait_for_gang_scheduling(SCALED_GANG, "DefaultScheduler", "").await;
}

/// pcs-controller runs again. It replaces the claims, which follow from the set. It retains the record, and the affinity that follows from it.
async fn the_writer_retains_the_record(fixture: &Fixture, (values, later): (&Values, &Values)) {
    let text = "annotation grove.io/pod-group-spec has version 2";
    fixture.ns.wait_for_condition("packed", "Available", "UnreadableAnnotation", text).await;
    let state = fixture.wait_for_pods(SHARED, 2).await;
    assert_shared(&state);
    fixture.wait_for_reconcile(GANG).await;
    let state = fixture.wait_for_pods(PACKED, 1).await;
    let current = Values::of(&state);
    assert_eq!((&current.record, &current.affinity), (&later.record, &later.affinity));
    assert_eq!(current.claims, values.claims);
    assert!(!state.cliques.contains_key(DELETED), "{state}");
}

/// An administrator corrects the record.
async fn a_correct_record_is_used(fixture: &Fixture, values: &Values) {
    let state = fixture.wait_for_pods(PACKED, 1).await;
    let uid = pods_of(&state, PACKED)[0].uid();
    let patched = annotation(POD_GROUP_SPEC, values.record.as_str());
    let gangs = fixture.ns.api::<PodGang>();
    gangs.patch(GANG, &PatchParams::default(), &patched).await.expect("the gang is patched");
    fixture.wait_for_gang_scheduling(GANG, "DefaultScheduler", "").await;
    let state = fixture.ns.wait_for_ready_pods("packed", 3).await;
    assert_packed(&state);
    assert!(pods_of(&state, PACKED).iter().any(|pod| pod.uid() == uid), "{state}");
    assert_eq!(Values::of(&state).affinity, values.affinity);
    let (groups, name) = (pod_groups(&fixture.ns.client, &fixture.ns.name), fixture.pod_group().await.name_any());
    let is_restored = |group: &DynamicObject| group.labels().get(PART_OF).is_some_and(|set| set == "packed");
    poll_until(async || groups.get(&name).await.ok().filter(is_restored)).await;
    let has_no_error = |state: &NamespaceState| {
        [PACKED, SHARED].iter().all(|clique| {
            state
                .cliques
                .get(*clique)
                .and_then(|clique| clique.status.as_ref())
                .is_some_and(|it| it.last_errors.is_empty())
        })
    };
    fixture.ns.wait_for("the cliques have no error", has_no_error).await;
}

/// A pcs-controller of before the versions has written the values. They are used, and not rewritten.
async fn values_without_version_stay(fixture: &Fixture, older: &Values) {
    let before = fixture.ns.wait_for_ready_pods("packed", 3).await;
    for service in [GANG, "shared-0"] {
        fixture.wait_for_reconcile(service).await;
    }
    let state = fixture.ns.wait_for_ready_pods("packed", 3).await;
    let current = Values::of(&state);
    assert_eq!((&current.record, &current.affinity, &current.claims), (&older.record, &older.affinity, &older.claims));
    let uids = |state: &NamespaceState| state.pods.values().map(ResourceExt::uid).collect::<Vec<_>>();
    assert_eq!(uids(&state), uids(&before), "no pod is replaced");
    fixture.delete_and_replace_pod(SHARED).await;
}

/// Each service of this commit runs beside a writer of a later version, and then beside one of before the versions. It takes about 30 s,
/// because pcs-controller is stopped and started twice.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_later_version_fail_closed() {
    let flags = ["--nodes", "4", "--config", CONFIGURATION, "--native-gangs"];
    let cluster = TestCluster::with_own_services("interface", &flags).await;
    let fixture = Fixture::create(&cluster).await;
    let values = fixture.create_sets().await;
    let later = values.map(|value| value.replacen(r#""v":1"#, r#""v":2"#, 1));
    let older = values.map(|value| value.replacen(r#""v":1,"#, "", 1));
    // On the heap: this is a large future.
    let while_stopped = Box::pin(async {
        later_versions_are_reported(&fixture, &later).await;
        nothing_depends_on_later_versions(&fixture).await;
        unknown_names_are_reported(&fixture).await;
    });
    cluster.during_stop("pcs-controller", while_stopped).await;
    the_writer_retains_the_record(&fixture, (&values, &later)).await;
    a_set_waits_for_its_recorded_scale(&fixture).await;
    a_correct_record_is_used(&fixture, &values).await;
    cluster.during_stop("pcs-controller", fixture.write_all(&older)).await;
    values_without_version_stay(&fixture, &older).await;
    cluster.down().await;
}
