//! A user of another namespace creates objects with the names, the labels and the UIDs of the objects of a set. The set does not change, and
//! Grove changes no object of that user.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Duration;

use e2e::audit::AuditLog;
use e2e::compute_domains::CRD_FILE;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, test_cluster};
use futures::{StreamExt, future, stream};
use grove_api_types::labels::{POD_CLIQUE, POD_GANG};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::audit_log::ObjectRef;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::compute_domains::configuration;
use super::kills::Numbers;

/// Group, version and kind, and the spec of an object that a user may create.
type Kind = (&'static str, &'static str, &'static str, fn(&mut Random) -> Value);

/// The kinds that services watch or write. An autoscaler of Kubernetes changes with the time, so the set has none.
const KINDS: [Kind; 9] = [
    ("", "v1", "Pod", |_| pod_spec()),
    ("", "v1", "Service", |_| json!({ "ports": [{ "port": 80 }] })),
    ("grove.io", "v1alpha1", "PodClique", clique_spec),
    (
        "grove.io",
        "v1alpha1",
        "PodCliqueScalingGroup",
        |_| json!({ "replicas": 1, "minAvailable": 1, "cliqueNames": ["prefill"] }),
    ),
    ("scheduler.grove.io", "v1alpha1", "PodGang", |_| json!({ "podgroups": [] })),
    ("resource.k8s.io", "v1", "ResourceClaim", |_| json!({})),
    ("scheduling.k8s.io", "v1alpha2", "PodGroup", |_| json!({ "schedulingPolicy": { "gang": { "minCount": 1 } } })),
    (
        "resource.nvidia.com",
        "v1beta1",
        "ComputeDomain",
        |_| json!({ "channel": { "resourceClaimTemplate": { "name": "t" } } }),
    ),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", |random| {
        let target = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "llm-0-prefill" });
        json!({ "scaleTargetRef": target, "maxReplicas": 1 + random.below(3) })
    }),
];
/// Creates in flight.
const CONCURRENCY: usize = 16;
/// The number of objects of the short series that the API server accepts.
const SHORT_SERIES: usize = 300;
/// One of so many objects has the name of an object of the set. A name is used once at a time, so more of them would be rejected.
const KNOWN_NAMES: usize = 8;
/// The time without writes after which the services have reacted to everything.
const QUIET: Duration = Duration::from_secs(2);

fn pod_spec() -> Value {
    json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] })
}

/// The minimum is the default one. Grove creates the pods of a clique with valid labels, although no set has it.
fn clique_spec(random: &mut Random) -> Value {
    json!({ "roleName": "r", "replicas": random.below(3), "podSpec": pod_spec() })
}

/// What the user knows about the objects of the attacked set.
struct Known {
    names: Vec<String>,
    labels: Vec<(String, String)>,
    owners: Vec<Value>,
}

/// The objects of a namespace by kind and name, each with its UID and its resource version.
type Versions = BTreeMap<(String, String), (Option<String>, Option<String>)>;

fn api(client: &Client, ns: &Namespace, (group, version, kind, _): Kind) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), &ns.name, &resource)
}

async fn objects(client: &Client, ns: &Namespace) -> Vec<DynamicObject> {
    let mut all = Vec::new();
    for kind in KINDS {
        let mut list = api(client, ns, kind).list(&ListParams::default()).await.expect("a list").items;
        // The items of a list may have no types.
        for object in &mut list {
            object.types = Some(types(kind));
        }
        all.extend(list);
    }
    all
}

fn types((group, version, kind, _): Kind) -> TypeMeta {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    TypeMeta { api_version, kind: kind.to_owned() }
}

fn versions(objects: &[DynamicObject]) -> Versions {
    let kind = |object: &DynamicObject| object.types.clone().unwrap_or_default().kind;
    let version =
        |object: &DynamicObject| ((kind(object), object.name_any()), (object.uid(), object.resource_version()));
    objects.iter().map(version).collect()
}

impl Known {
    fn of(set: &PodCliqueSet, objects: &[DynamicObject]) -> Self {
        let owner = |api_version: &str, kind: &str, name: String, uid: Option<String>| json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid });
        let of_object = |object: &DynamicObject| {
            let types = object.types.clone().unwrap_or_default();
            owner(&types.api_version, &types.kind, object.name_any(), object.uid())
        };
        let owners = objects.iter().map(of_object).chain([owner(
            "grove.io/v1alpha1",
            "PodCliqueSet",
            set.name_any(),
            set.uid(),
        )]);
        let labels: BTreeSet<_> = objects.iter().flat_map(|object| object.labels().clone()).collect();
        Self {
            names: objects.iter().map(ResourceExt::name_any).collect(),
            labels: labels.into_iter().collect(),
            owners: owners.collect(),
        }
    }

    /// A random object of the user.
    fn object(&self, kind: Kind, random: &mut Random) -> DynamicObject {
        let (_, _, _, spec) = kind;
        let mut owner = random.pick(&self.owners).clone();
        owner["controller"] = json!(random.below(4) > 0);
        if random.below(2) == 0 {
            // The garbage collector does not know the version, so it deletes nothing.
            owner["apiVersion"] = json!("grove.io/v9");
        }
        let owners = if random.below(8) == 0 { json!([]) } else { json!([owner]) };
        let count = random.below(self.labels.len() + 1);
        let labels: Map<String, Value> =
            (0..count).map(|_| random.pick(&self.labels)).map(|(key, value)| (key.clone(), json!(value))).collect();
        let mut metadata = json!({ "ownerReferences": owners, "labels": labels });
        if random.below(KNOWN_NAMES) == 0 {
            metadata["name"] = json!(random.pick(&self.names));
        } else {
            metadata["generateName"] = json!("foreign-");
        }
        let object = serde_json::from_value(json!({ "metadata": metadata, "spec": spec(random) }));
        DynamicObject { types: Some(types(kind)), ..object.expect("an object") }
    }
}

struct Random(Numbers);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.0.next().expect("an endless sequence");
        usize::try_from(number % u64::try_from(limit).expect("a small number")).expect("a small number")
    }

    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// Creates random objects, and deletes half of them, until the API server has accepted this many. Returns them.
async fn attack(client: &Client, attacker: &Namespace, known: &Known, count: usize) -> Vec<DynamicObject> {
    let mut random = Random(Numbers(1));
    let steps = iter::repeat_with(|| {
        let kind = *random.pick(&KINDS);
        (kind, known.object(kind, &mut random), random.below(2) == 0)
    });
    let accepted = stream::iter(steps).map(|(kind, object, is_deleted)| async move {
        let api = api(client, attacker, kind);
        // The name may be in use.
        let created = api.create(&PostParams::default(), &object).await.ok()?;
        if is_deleted {
            // The garbage collector may be faster.
            _ = api.delete(&created.name_any(), &DeleteParams::default()).await;
        }
        Some(DynamicObject { types: object.types, ..created })
    });
    let accepted = accepted.buffer_unordered(CONCURRENCY).filter_map(future::ready);
    accepted.take(count).collect().await
}

/// The objects of the user that Grove may change, because they belong to a `PodClique` of the user: pods without a controller that have its
/// label, which it adopts, and the gang that it names, which gets references to its pods.
struct OfOwnCliques {
    pods: BTreeSet<String>,
    gangs: BTreeSet<String>,
}

impl OfOwnCliques {
    fn among(accepted: &[DynamicObject]) -> Self {
        let of_kind = |kind: &'static str| accepted.iter().filter(move |object| is_of_kind(object, kind));
        let label = |object: &DynamicObject, key: &str| object.labels().get(key).cloned();
        let cliques: BTreeSet<_> = of_kind("PodClique").map(ResourceExt::name_any).collect();
        let has_controller = |object: &&DynamicObject| {
            object.owner_references().iter().any(|reference| reference.controller == Some(true))
        };
        let is_of_clique =
            |pod: &&DynamicObject| label(pod, POD_CLIQUE).is_some_and(|clique| cliques.contains(&clique));
        let pods = of_kind("Pod").filter(|pod| !has_controller(pod)).filter(is_of_clique);
        Self {
            pods: pods.map(ResourceExt::name_any).collect(),
            gangs: of_kind("PodClique").filter_map(|clique| label(clique, POD_GANG)).collect(),
        }
    }

    fn contains(&self, object: &ObjectRef) -> bool {
        match object.resource.as_str() {
            "pods" => self.pods.contains(&object.name),
            "podgangs" => self.gangs.contains(&object.name),
            _ => false,
        }
    }
}

fn is_of_kind(object: &DynamicObject, kind: &str) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == kind)
}

/// The writes of Grove to objects of the namespace that others created, except for events, for the status of Grove's own kinds, and for what
/// belongs to cliques of the user.
fn writes_to_foreign_objects(log: &AuditLog, ns: &Namespace, of_own_cliques: &OfOwnCliques) -> Vec<String> {
    let mut created = BTreeSet::new();
    let mut foreign = Vec::new();
    for event in log.events() {
        let Some(object) = event.object_ref.clone().filter(|object| object.namespace == ns.name) else { continue };
        let Some(account) = event.service_account().filter(|_| event.is_write()) else { continue };
        let key = (object.resource.clone(), object.name.clone());
        let is_own_status = object.subresource == "status" && object.api_group.ends_with("grove.io");
        if event.verb == "create" && event.is_accepted() {
            created.insert(key);
        } else if object.resource != "events"
            && !is_own_status
            && !created.contains(&key)
            && !of_own_cliques.contains(&object)
        {
            foreign
                .push(format!("{} {} {} {} ({account})", event.verb, object.resource, object.subresource, object.name));
        }
    }
    foreign
}

async fn foreign_objects(name: &str, count: usize) {
    let config = configuration(name, true);
    let flags = ["--config", &config, "--crd", CRD_FILE, "--native-gangs"];
    let cluster = TestCluster::with_own_services(name, &flags).await;
    let client = cluster.client().await;
    let (target, attacker) =
        (Namespace::create(&client, "e2e-attacked").await, Namespace::create(&client, "e2e-attacker").await);
    let set = settled_set(&cluster, &target).await;
    let before = objects(&client, &target).await;

    let known = Known::of(&set, &before);
    let accepted = attack(&client, &attacker, &known, count).await;
    assert_has_each_kind(&accepted);
    cluster.audit_log().wait_until_quiet(QUIET).await;
    assert_eq!(versions(&objects(&client, &target).await), versions(&before), "the objects of the set are unchanged");
    let of_own_cliques = OfOwnCliques::among(&accepted);
    let writes = writes_to_foreign_objects(&cluster.audit_log(), &attacker, &of_own_cliques);
    assert!(writes.is_empty(), "Grove wrote to objects of the user:\n{}", writes.join("\n"));
    the_set_still_works(&target).await;
    cluster.down().await;
}

fn assert_has_each_kind(accepted: &[DynamicObject]) {
    for (_, _, kind, _) in KINDS {
        let count = accepted.iter().filter(|object| is_of_kind(object, kind)).count();
        println!("{count} objects of kind {kind}");
        assert!(count > 0, "no {kind} was accepted");
    }
}

async fn settled_set(cluster: &TestCluster, ns: &Namespace) -> PodCliqueSet {
    let set = ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
    let is_settled = |state: &NamespaceState| fixtures::three_cliques_are_ready(state, 2) && state.status_is_current();
    ns.wait_for("the set is ready", is_settled).await;
    cluster.audit_log().wait_until_quiet(QUIET).await;
    set
}

/// Grove reconciles each object of the set: it replaces pods, and deletes and creates other objects.
async fn the_set_still_works(ns: &Namespace) {
    let before = ns.wait_for("the set is ready", |state| fixtures::three_cliques_are_ready(state, 2)).await;
    for pod in before.pods.values() {
        ns.delete_object::<Pod>(&pod.name_any()).await;
    }
    let is_new = |pod: &Pod| before.pods.values().all(|other| other.uid() != pod.uid());
    ns.wait_for("all pods are replaced", |state| {
        fixtures::three_cliques_are_ready(state, 2) && state.pods.values().all(is_new)
    })
    .await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.wait_for("the set is scaled in", |state| fixtures::three_cliques_are_ready(state, 1)).await;
    ns.delete_object::<Service>("llm-0").await;
    ns.wait_for("the Service is created again", |state| state.services.contains_key("llm-0")).await;
    ns.delete_object::<PodCliqueSet>("llm").await;
    ns.wait_for("nothing is left", NamespaceState::is_empty).await;
}

/// Takes long: it creates hundreds of random objects, and then a set passes through its whole life.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_another_namespace_change_nothing_and_stay_unchanged() {
    foreign_objects("foreign-objects", SHORT_SERIES).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak foreign-objects`"]
async fn many_foreign_objects_change_nothing() {
    foreign_objects("soak-foreign-objects", test_cluster::required_number("GROVE_SOAK_OBJECTS")).await;
}
