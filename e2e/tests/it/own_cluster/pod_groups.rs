//! The `PodGroup`s of schedulers with an API of their own. The tests install the CRDs of KAI and of Volcano, and bind pods in place of these
//! schedulers. In the middle of each case, topology-controller is killed and started again.

use std::collections::BTreeMap;

use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster, events};
use grove_api_types::labels::{GENERATION_HASH, SCALE};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

mod backends;

use backends::{Backend, KAI, VOLCANO, backend, map};

const CONTROLLER: &str = "topology-controller";
/// The services also work with the policies that limit them.
const CONTROLLER_POLICY: &str = include_str!("../../../../deploy/components/controller-policy/policies.yaml");

/// A set with the standalone clique `f` and the scaling group `g` of the cliques `p` and `d`. Only the cliques name the queue.
fn set(name: &str, backend: &Backend) -> String {
    let Backend { scheduler, queue, cliques_with_queue, .. } = backend;
    let clique = |name: &str, replicas: i32, min_available: i32| {
        let metadata = if cliques_with_queue.contains(&name) { *queue } else { "labels: {}" };
        format!(
            "
    - name: {name}
      {metadata}
      spec:
        roleName: {name}
        replicas: {replicas}
        minAvailable: {min_available}
        podSpec:
          schedulerName: {scheduler}
          containers: [{{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: {{cpu: 10m}}}}}}]"
        )
    };
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    priorityClassName: high
    cliques:{}{}{}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [p, d], replicas: 1, minAvailable: 1}}
",
        clique("f", 2, 1),
        clique("p", 1, 1),
        clique("d", 3, 2)
    )
}

struct Fixture<'a> {
    backend: &'a Backend,
    cluster: &'a TestCluster,
    ns: Namespace,
    pod_groups: Api<DynamicObject>,
}

impl<'a> Fixture<'a> {
    async fn create(backend: &'a Backend, cluster: &'a TestCluster) -> Self {
        let client = cluster.client().await;
        let kind = GroupVersionKind::gvk(backend.group, backend.version, "PodGroup");
        // The tests of two backends may use the same control plane, one after the other.
        let namespace = format!("e2e-pod-groups-{}", backend.scheduler);
        let pod_groups = Api::namespaced_with(client.clone(), &namespace, &ApiResource::from_gvk(&kind));
        Self { backend, cluster, ns: Namespace::create(&client, &namespace).await, pod_groups }
    }

    async fn create_set(&self) {
        self.apply(self.backend.objects).await;
        let set: PodCliqueSet = serde_saphyr::from_str(&set("llm", self.backend)).expect("a set");
        // webhook-server sees a new queue a moment later.
        let sets = self.ns.api::<PodCliqueSet>();
        poll_until(async || sets.create(&PostParams::default(), &set).await.ok()).await;
    }

    async fn apply(&self, manifests: &str) {
        if manifests.is_empty() {
            return;
        }
        let apply = ["apply", "--server-side", "--filename=-"];
        // The API server serves a new kind a moment after it stored the CRD.
        poll_until(async || kubectl_on(self.cluster, &apply, manifests).await.ok()).await;
    }

    /// Waits until exactly these `PodGroup`s exist, each with the spec, the labels and the annotations of its gang.
    async fn wait_for_pod_groups(&self, gangs: &[&str]) -> BTreeMap<String, DynamicObject> {
        let what = format!("the gangs {gangs:?}");
        let state = self.ns.wait_for(&what, |state| state.gangs.keys().eq(gangs)).await;
        let found = poll_until(async || {
            let all = self.pod_groups.list(&ListParams::default()).await.ok()?.items;
            let by_name: BTreeMap<_, _> = all.into_iter().map(|group| (group.name_any(), group)).collect();
            let is_expected = |gang: &&str| {
                by_name.get(*gang).is_some_and(|group| group.data["spec"] == (self.backend.spec)(&state.gangs[*gang]))
            };
            (by_name.keys().eq(gangs) && gangs.iter().all(is_expected)).then_some(by_name)
        });
        let found = found.await;
        for (name, group) in &found {
            let gang = &state.gangs[name];
            let owners: Vec<_> = group.owner_references().iter().map(|owner| (&*owner.kind, &*owner.uid)).collect();
            assert_eq!(owners, [("PodGang", gang.metadata.uid.as_deref().expect("a uid"))], "{name}");
            let copied = gang.labels().iter().filter(|(key, _)| *key != GENERATION_HASH);
            let missing: Vec<_> = copied.filter(|(key, value)| group.labels().get(*key) != Some(*value)).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
            assert!(gang.labels().contains_key(GENERATION_HASH) && !group.labels().contains_key(GENERATION_HASH));
            let mut annotations = gang.annotations().clone();
            annotations.remove(SCALE);
            assert_eq!(annotations, map(self.backend.gang_annotations), "{name}");
            let annotations = if self.backend.copies_annotations { self.backend.gang_annotations } else { &[] };
            assert_eq!(group.annotations(), &map(annotations), "{name}");
        }
        found
    }

    /// Waits until the gang has this condition `GangScheduling`.
    async fn wait_for_condition(&self, gang: &str, status: &str, reason: &str) -> String {
        let what = format!("the gang {gang} has GangScheduling={status} {reason}");
        let message = |state: &NamespaceState| {
            let status_of_gang = state.gangs.get(gang)?.status.as_ref()?;
            let condition = status_of_gang.conditions.iter().find(|condition| condition.type_ == "GangScheduling")?;
            (condition.status == status && condition.reason == reason).then(|| condition.message.clone())
        };
        let state = self.ns.wait_for(&what, |state| message(state).is_some()).await;
        message(&state).expect("the condition")
    }

    /// Stops topology-controller, runs `change`, and starts topology-controller again.
    async fn while_down(&self, change: impl Future<Output = ()>) {
        self.cluster.stop(CONTROLLER).await;
        change.await;
        self.cluster.start_again().await;
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let patched = self.pod_groups.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the PodGroup is patched");
    }

    async fn the_crd_is_applied_late(&self) {
        self.create_set().await;
        let message = self.wait_for_condition("llm-0", "False", "PodGroupsNotServed").await;
        assert!(message.contains(&format!("podgroups.{}", self.backend.group)), "{message}");
        self.change(self.backend.is_crd_applied_while_down, self.apply(self.backend.crds)).await;
        self.wait_for_condition("llm-0", "True", self.backend.reason).await;
    }

    /// The group scales 1 → 3 → 1.
    async fn gangs_come_and_go(&self) {
        self.wait_for_pod_groups(&["llm-0"]).await;
        self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
        self.while_down(self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 3)).await;
        self.wait_for_pod_groups(&["llm-0", "llm-0-g-0", "llm-0-g-1"]).await;
        self.while_down(self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 1)).await;
        self.wait_for_pod_groups(&["llm-0"]).await;
        // Without the garbage collector, only topology-controller deletes the PodGroup of a deleted gang.
        self.cluster.kill("kube-controller-manager").await;
        self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
        self.wait_for_pod_groups(&["llm-0", "llm-0-g-0"]).await;
        self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 1).await;
        self.wait_for_pod_groups(&["llm-0"]).await;
        self.cluster.start_again().await;
    }

    /// Runs `change` while topology-controller runs, or while it is down.
    async fn change(&self, is_down: bool, change: impl Future<Output = ()>) {
        if is_down {
            self.while_down(change).await;
        } else {
            change.await;
        }
    }

    async fn delete(&self, name: &str) {
        self.pod_groups.delete(name, &DeleteParams::default()).await.expect("the PodGroup is deleted");
    }

    /// Edits and deletions are undone, while running and while topology-controller is down.
    async fn edits_and_deletions_are_undone(&self) {
        for is_down in [false, true] {
            let edit = json!({ "spec": (self.backend.edit)() });
            self.change(is_down, self.patch("llm-0", &edit)).await;
            self.wait_for_pod_groups(&["llm-0"]).await;
            // An orphan with the labels of the set is adopted.
            let orphan = json!({ "metadata": { "ownerReferences": null } });
            self.change(is_down, self.patch("llm-0", &orphan)).await;
            let is_owned = |group: &DynamicObject| !group.owner_references().is_empty();
            poll_until(async || self.pod_groups.get("llm-0").await.ok().filter(is_owned)).await;
            let groups = self.wait_for_pod_groups(&["llm-0"]).await;
            let uid = groups["llm-0"].uid();
            self.change(is_down, self.delete("llm-0")).await;
            let is_new = |group: &DynamicObject| group.uid() != uid;
            poll_until(async || self.pod_groups.get("llm-0").await.ok().filter(is_new)).await;
            self.wait_for_pod_groups(&["llm-0"]).await;
        }
    }

    /// A user scales a clique to zero. The scheduler would wait for its pods, and evict those of the other cliques.
    async fn a_clique_at_zero_is_not_demanded(&self) {
        let (clique, gang) = ("llm-0-f", "llm-0");
        for is_down in [false, true] {
            self.change(is_down, self.ns.scale::<PodClique>(clique, 0)).await;
            let mut wanted = self.ns.api::<PodGang>().get(gang).await.expect("the gang");
            wanted.spec.podgroups.retain(|group| group.name != clique);
            let expected = (self.backend.spec)(&wanted);
            poll_until(async || {
                let group = self.pod_groups.get(gang).await.ok()?;
                (group.data["spec"] == expected).then_some(())
            })
            .await;
            self.change(is_down, self.ns.scale::<PodClique>(clique, 2)).await;
            self.wait_for_pod_groups(&[gang]).await;
        }
    }

    /// The fields that the scheduler writes stay.
    async fn fields_of_the_scheduler_stay(&self) {
        let own = (self.backend.own_fields)();
        self.patch("llm-0", &json!({ "spec": own })).await;
        // The restored edit shows that topology-controller has seen the write of the scheduler before it.
        self.patch("llm-0", &json!({ "spec": { "priorityClassName": "low" } })).await;
        let restored = poll_until(async || {
            let group = self.pod_groups.get("llm-0").await.ok()?;
            (group.data["spec"]["priorityClassName"] == "high").then_some(group)
        });
        let restored = restored.await;
        for (field, value) in own.as_object().expect("fields") {
            assert_eq!(&restored.data["spec"][field], value, "{field}");
        }
        // A new object has the desired value of each field.
        self.delete("llm-0").await;
        self.wait_for_pod_groups(&["llm-0"]).await;
    }

    /// A condition and an event report the conflict. A user removes the condition. The controller restores it, and the second warning
    /// updates the event.
    async fn a_name_conflict_is_reported(&self, gang: &str) {
        let message = self.wait_for_condition(gang, "False", "NameConflict").await;
        assert!(message.contains(&format!("PodGroup {gang}")), "{message}");
        events::wait_for(&self.ns, gang, "PodGroupCreateOrUpdateFailed").await;
        let no_conditions = Patch::Merge(json!({ "status": { "conditions": [] } }));
        let gangs = self.ns.api::<PodGang>();
        gangs.patch_status(gang, &PatchParams::default(), &no_conditions).await.expect("the status is patched");
        self.wait_for_condition(gang, "False", "NameConflict").await;
    }

    /// The controller does not modify a foreign object, reports it, and creates its own when the name is free.
    async fn a_foreign_object_stays(&self) {
        let api_version = format!("{}/{}", self.backend.group, self.backend.version);
        let foreign = json!({ "apiVersion": api_version, "kind": "PodGroup", "metadata": { "name": "other-0" },
            "spec": { "minMember": 5 } });
        let foreign: DynamicObject = serde_json::from_value(foreign).expect("an object");
        let foreign = self.pod_groups.create(&PostParams::default(), &foreign).await.expect("it is created");
        self.ns.create_yaml::<PodCliqueSet>(&set("other", self.backend)).await;
        self.a_name_conflict_is_reported("other-0").await;
        self.while_down(async {}).await;
        self.cluster.wait_for_readiness(CONTROLLER, "ok").await;
        let live = self.pod_groups.get("other-0").await.expect("the foreign object");
        assert_eq!((live.uid(), live.resource_version()), (foreign.uid(), foreign.resource_version()));
        self.delete("other-0").await;
        self.wait_for_pod_groups(&["llm-0", "other-0"]).await;
        self.ns.delete_object::<PodCliqueSet>("other").await;
        self.wait_for_pod_groups(&["llm-0"]).await;
    }

    /// A CRD that is deleted is reported, ends no process, and stalls no other watch. When it is back, the `PodGroup`s are back.
    async fn the_crd_is_deleted_and_created_again(&self) {
        let pid = self.cluster.pid(CONTROLLER);
        let crd = format!("podgroups.{}", self.backend.group);
        kubectl_on(self.cluster, &["delete", "crd", &crd], "").await.expect("the CRD is deleted");
        self.wait_for_condition("llm-0", "False", "PodGroupsNotServed").await;
        // The watches of gangs and cliques continue: the condition of a new gang reports the cause.
        self.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
        self.wait_for_condition("llm-0-g-0", "False", "PodGroupsNotServed").await;
        self.apply(self.backend.crds).await;
        self.wait_for_pod_groups(&["llm-0", "llm-0-g-0"]).await;
        self.wait_for_condition("llm-0-g-0", "True", self.backend.reason).await;
        assert_eq!(self.cluster.pid(CONTROLLER), pid);
        assert!(self.cluster.processes().iter().any(|process| process.contains(CONTROLLER)), "the process runs");
    }

    /// The pods of the base gang are never gated. Those of a scaled gang are gated until the base gang is scheduled.
    async fn scaled_gangs_wait_for_the_base_gang(&self) {
        let is_gated = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_some());
        let of_gang = |state: &NamespaceState, gang: &str| -> Vec<Pod> {
            let is_member = |pod: &&Pod| pod.labels().get("grove.io/podgang").is_some_and(|name| name == gang);
            state.active_pods().filter(is_member).cloned().collect()
        };
        let what = "the pods of the base gang and of the scaled gang exist";
        let state = self
            .ns
            .wait_for(what, |state| of_gang(state, "llm-0").len() == 6 && of_gang(state, "llm-0-g-0").len() == 4)
            .await;
        let (base, scaled) = (of_gang(&state, "llm-0"), of_gang(&state, "llm-0-g-0"));
        assert!(!base.iter().any(is_gated) && scaled.iter().all(is_gated), "{state}");
        for pod in base.iter().chain(&scaled) {
            let (gang, clique) = (&pod.labels()["grove.io/podgang"], &pod.labels()["grove.io/podclique"]);
            let [labels, annotations] = (self.backend.pod_metadata)(gang, clique);
            assert!(labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value)), "{labels:?}");
            assert!(
                annotations.iter().all(|(key, value)| pod.annotations().get(key) == Some(value)),
                "{annotations:?}"
            );
            assert_eq!(pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()), Some(self.backend.scheduler));
        }
        for pod in &base {
            self.bind(&pod.name_any()).await;
        }
        let what = "the gates of the scaled gang are removed, and the base gang is scheduled";
        self.ns
            .wait_for(what, |state| {
                let pods = of_gang(state, "llm-0-g-0");
                let has_condition = |gang: &PodGang| {
                    let conditions = gang.status.iter().flat_map(|status| &status.conditions);
                    conditions.into_iter().any(|condition| condition.type_ == "Scheduled" && condition.status == "True")
                };
                pods.len() == 4 && !pods.iter().any(is_gated) && state.gangs.get("llm-0").is_some_and(has_condition)
            })
            .await;
    }

    /// Binds a pod to a node, as its scheduler does.
    async fn bind(&self, pod: &str) {
        let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
            "target": { "apiVersion": "v1", "kind": "Node", "name": "node-0" } });
        let pods = self.ns.api::<Pod>();
        let bound = pods.create_subresource::<Value, Value>("binding", pod, &PostParams::default(), &binding).await;
        bound.expect("the pod is bound");
    }
}

/// A cluster with the schedulers in the configuration. In each test, the CRD of the other one is absent.
async fn start(scheduler: &str) -> TestCluster {
    let configuration = format!("{}/pod-groups-{scheduler}.yaml", env!("CARGO_TARGET_TMPDIR"));
    let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
    let backends = Scheduler::ALL.into_iter().filter_map(|(_, scheduler)| backend(scheduler));
    let profiles: Vec<String> = backends.map(|backend| format!("{{name: {}}}", backend.scheduler)).collect();
    let content = format!("{head}scheduler: {{profiles: [{}]}}\n", profiles.join(", "));
    std::fs::write(&configuration, content).expect("the configuration is written");
    TestCluster::with_own_services(&format!("pod-groups-{scheduler}"), &["--config", &configuration]).await
}

async fn gangs_get_the_pod_groups_of(backend: &Backend) {
    let cluster = start(backend.scheduler).await;
    let fixture = Fixture::create(backend, &cluster).await;
    fixture.apply(CONTROLLER_POLICY).await;
    fixture.the_crd_is_applied_late().await;
    fixture.gangs_come_and_go().await;
    fixture.edits_and_deletions_are_undone().await;
    fixture.a_clique_at_zero_is_not_demanded().await;
    fixture.fields_of_the_scheduler_stay().await;
    fixture.a_foreign_object_stays().await;
    fixture.the_crd_is_deleted_and_created_again().await;
    fixture.scaled_gangs_wait_for_the_base_gang().await;
    cluster.down().await;
}

/// Takes long, as that of Volcano: eight cases share the services. They delete the CRD and replace objects of the scheduler, so they run in
/// turn.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_get_the_pod_groups_of_kai() {
    gangs_get_the_pod_groups_of(&KAI).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gangs_get_the_pod_groups_of_volcano() {
    gangs_get_the_pod_groups_of(&VOLCANO).await;
}
