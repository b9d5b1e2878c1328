//! One case: a namespace with nodes of its own, and the states of gangs that the tests wait for.

use e2e::binding_log::{BindingLog, PodEvent, bound_pods, is_bound, pod_group};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// The annotation of a gang and of its cliques that names their `PodGroup`.
pub(super) const POD_GROUP: &str = "grove.io/pod-group";
/// The label of the nodes of a pool.
const POOL: &str = "e2e.example/pool";
/// The resource that pods need.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// A namespace, the watch events about its pods, and its `PodGroup`s.
pub(super) struct Case {
    pub(super) ns: Namespace,
    pub(super) pod_groups: Api<DynamicObject>,
    log: BindingLog,
}

/// A set of these cliques.
pub(super) fn set(name: &str, cliques: &[Value]) -> Value {
    json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": name },
        "spec": { "replicas": 1, "template": { "cliques": cliques } } })
}

/// The pods of a gang that are not terminating.
pub(super) fn pods_of<'a>(state: &'a NamespaceState, gang: &str) -> Vec<&'a Pod> {
    let is_member = |pod: &&Pod| pod.labels().get("grove.io/podgang").is_some_and(|name| name == gang);
    state.active_pods().filter(is_member).collect()
}

pub(super) fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()))
}

/// Whether the scheduler has tried to schedule the pod and could not.
fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|condition| condition.type_ == "PodScheduled");
    scheduled.any(|condition| condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable"))
}

/// The condition `PodGroupScheduled` of a `PodGroup`, which the scheduler writes.
fn scheduled_status(group: &DynamicObject) -> Option<&str> {
    let conditions = group.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "PodGroupScheduled")?["status"].as_str()
}

/// The name of the `PodGroup` in the annotation of a gang.
pub(super) fn named_pod_group<'a>(state: &'a NamespaceState, gang: &str) -> Option<&'a String> {
    state.gangs.get(gang)?.annotations().get(POD_GROUP)
}

impl Case {
    /// Creates the namespace, and watches it from the start.
    pub(super) async fn create(cluster: &TestCluster, name: &str) -> Self {
        let client = cluster.client().await;
        let ns = Namespace::create(&client, &format!("e2e-gangs-{name}")).await;
        let kind = GroupVersionKind::gvk("scheduling.k8s.io", "v1alpha2", "PodGroup");
        let pod_groups = Api::namespaced_with(client.clone(), &ns.name, &ApiResource::from_gvk(&kind));
        let log = BindingLog::start(&client, &ns.name).await;
        Self { ns, pod_groups, log }
    }

    /// The value of the label of the nodes of a pool. Only pods of this namespace select them.
    fn pool(&self, name: &str) -> String {
        format!("{}.{name}", self.ns.name)
    }

    /// Adds a simulated node to a pool, and returns its name.
    pub(super) async fn add_node(&self, pool: &str, gpus: u32) -> String {
        self.add_node_in(pool, gpus, &[]).await
    }

    /// Adds a simulated node with further labels to a pool, and returns its name.
    pub(super) async fn add_node_in(&self, pool: &str, gpus: u32, labels: &[(&str, &str)]) -> String {
        let pool = self.pool(pool);
        let resources = json!({ "cpu": "64", "memory": "512Gi", "pods": "200", GPU: gpus.to_string() });
        let mut node = json!({ "apiVersion": "v1", "kind": "Node",
            "metadata": { "generateName": format!("{pool}-"), "annotations": { "kwok.x-k8s.io/node": "fake" },
                "labels": { POOL: pool } },
            "status": { "capacity": resources, "allocatable": resources } });
        for (key, value) in labels {
            node["metadata"]["labels"][*key] = json!(value);
        }
        let node: Node = serde_json::from_value(node).expect("a node");
        let created = Api::all(self.ns.client.clone()).create(&PostParams::default(), &node).await;
        created.expect("the node is created").name_any()
    }

    /// A clique with these replicas and this `minAvailable`, whose pods need one GPU each on nodes of a pool.
    pub(super) fn clique(&self, name: &str, (replicas, min_available): (i32, i32), pool: &str) -> Value {
        let one_gpu = json!({ GPU: "1" });
        let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10",
            "resources": { "requests": one_gpu, "limits": one_gpu } });
        let pod_spec = json!({ "nodeSelector": { POOL: self.pool(pool) }, "containers": [container] });
        json!({ "name": name, "spec": { "roleName": name, "replicas": replicas, "minAvailable": min_available,
            "podSpec": pod_spec } })
    }

    pub(super) async fn create_set(&self, set: &Value) {
        self.ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
    }

    /// Creates a set with one gang, and waits until the pods of the gang are bound.
    pub(super) async fn create_bound(&self, set: &Value, gang: &str, pods: usize) -> Vec<Pod> {
        self.create_set(set).await;
        self.wait_until_bound(gang, pods).await
    }

    /// Waits until the gang has this condition `GangScheduling`, with this text in its message.
    pub(super) async fn wait_for_condition(&self, gang: &str, status: &str, reason: &str, text: &str) {
        let what = format!("the gang {gang} has GangScheduling={status} {reason}: {text}");
        let has_condition = |state: &NamespaceState| {
            let of_gang = state.gangs.get(gang).and_then(|gang| gang.status.as_ref());
            let mut conditions = of_gang.into_iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| {
                let is_expected = condition.status == status && condition.reason == reason;
                condition.type_ == "GangScheduling" && is_expected && condition.message.contains(text)
            })
        };
        self.ns.wait_for(&what, has_condition).await;
    }

    /// Waits until the annotation of the gang names a `PodGroup`, and the `PodGroup` exists.
    pub(super) async fn pod_group(&self, gang: &str) -> DynamicObject {
        let what = format!("the gang {gang} names a PodGroup");
        let state = self.ns.wait_for(&what, |state| named_pod_group(state, gang).is_some()).await;
        let name = named_pod_group(&state, gang).expect("the annotation");
        poll_until(async || self.pod_groups.get(name).await.ok()).await
    }

    /// Waits until the gang has another `PodGroup` than `before`.
    pub(super) async fn next_pod_group(&self, gang: &str, before: &str) -> DynamicObject {
        let what = format!("the gang {gang} names another PodGroup than {before}");
        self.ns.wait_for(&what, |state| named_pod_group(state, gang).is_some_and(|name| name != before)).await;
        self.pod_group(gang).await
    }

    /// Checks the priority of the `PodGroup` that the gang names.
    pub(super) async fn assert_priority(&self, gang: &str, priority: &str) {
        assert_eq!(self.pod_group(gang).await.data["spec"]["priorityClassName"], priority);
    }

    pub(super) async fn delete_pod_group(&self, name: &str) {
        self.pod_groups.delete(name, &DeleteParams::default()).await.expect("the PodGroup is deleted");
    }

    /// Waits until the scheduler has tried to schedule the gang with all its pods and could not.
    pub(super) async fn wait_until_unschedulable(&self, gang: &str, pods: usize) -> DynamicObject {
        self.wait_until_pods_are_unschedulable(gang, pods).await;
        let name = self.pod_group(gang).await.name_any();
        poll_until(async || {
            let group = self.pod_groups.get(&name).await.ok()?;
            (scheduled_status(&group) == Some("False")).then_some(group)
        })
        .await
    }

    /// Waits until the gang has this number of pods, and the scheduler could not schedule those without gates.
    pub(super) async fn wait_until_pods_are_unschedulable(&self, gang: &str, pods: usize) {
        let what = format!("the {pods} pods of the gang {gang} are unschedulable or gated");
        self.ns
            .wait_for(&what, |state| {
                let all = pods_of(state, gang);
                let ungated: Vec<&Pod> = all.iter().copied().filter(|pod| !is_gated(pod)).collect();
                let has_group = |pod: &&Pod| pod_group(pod) == named_pod_group(state, gang).map(String::as_str);
                all.len() == pods
                    && all.iter().all(has_group)
                    && !ungated.is_empty()
                    && ungated.into_iter().all(|pod| is_unschedulable(pod) && !is_bound(pod))
            })
            .await;
    }

    /// Waits until all pods of the gang are bound. They belong to the `PodGroup` that the annotation of the gang names.
    pub(super) async fn wait_until_pods_are_bound(&self, gang: &str, pods: usize) -> Vec<Pod> {
        let what = format!("the {pods} pods of the gang {gang} are bound, and belong to its PodGroup");
        let state = self
            .ns
            .wait_for(&what, |state| {
                let (all, group) = (pods_of(state, gang), named_pod_group(state, gang));
                let is_of_group = |pod: &&Pod| group.is_some() && pod_group(pod) == group.map(String::as_str);
                all.len() == pods && all.iter().all(|pod| is_bound(pod) && is_of_group(pod))
            })
            .await;
        pods_of(&state, gang).into_iter().cloned().collect()
    }

    /// Waits until all pods of the gang are bound, and the condition of the gang reports that they are scheduled together.
    pub(super) async fn wait_until_bound(&self, gang: &str, pods: usize) -> Vec<Pod> {
        let bound = self.wait_until_pods_are_bound(gang, pods).await;
        self.wait_for_condition(gang, "True", "DefaultScheduler", "").await;
        bound
    }

    /// All watch events about pods until now.
    pub(super) async fn events(&self) -> Vec<PodEvent> {
        self.log.events().await
    }

    /// Checks that no watch event reported a bound pod, among the pods that `is_relevant` selects.
    pub(super) async fn assert_never_bound(&self, is_relevant: impl Fn(&PodEvent) -> bool) {
        let events = self.log.events().await;
        let bound = bound_pods(&events, is_relevant);
        assert!(bound.is_empty(), "bound before the whole gang fits: {bound:?}");
    }
}
