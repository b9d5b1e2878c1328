//! Pods with only the fields that the reconcilers read: a pod in a cache takes two kilobytes instead of a hundred. In
//! controller-runtime, the cache would apply this as a transform.

use grove_api_types::deletion::is_terminating;
use grove_api_types::startup::INIT_CONTAINER;
use grove_runtime::object_decoding::optional_time;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};

/// The reasons of containers that start normally.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// A pod in a cache. It must never be sent to the API server, because all fields that are missing here would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(rename_all = "camelCase")]
pub struct SlimPod {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: SlimPodSpec,
    /// The observed state.
    #[serde(default)]
    pub status: SlimPodStatus,
}

/// The fields of a pod's spec that the reconcilers read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodSpec {
    /// The node; absent until the scheduler chose one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The scheduler ignores the pod until this list is empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub scheduling_gates: Vec<SlimSchedulingGate>,
    /// The `PodGroup` of the workload API that the pod belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_group: Option<SlimSchedulingGroup>,
    /// The DNS name of the pod within its headless Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Of the init containers, only `grove-initc`: arguments of others can be long.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "only_of_grove")]
    pub init_containers: Vec<SlimInitContainer>,
}

/// The init container that waits for pods of other cliques.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlimInitContainer {
    /// Its name.
    pub name: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub args: Vec<String>,
}

/// A reference to a `PodGroup` in the namespace of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimSchedulingGroup {
    /// The name of the `PodGroup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_group_name: Option<String>,
}

/// A scheduling gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlimSchedulingGate {
    /// The name of the gate.
    pub name: String,
}

/// The fields of a pod's status that the reconcilers read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The reason for the phase, for example `Evicted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The conditions, for example `PodScheduled` and `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub conditions: Vec<SlimPodCondition>,
    /// One entry per container that the kubelet has reported.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub container_statuses: Vec<SlimContainerStatus>,
    /// The init containers that the kubelet cannot start.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "only_failing")]
    pub init_container_statuses: Vec<SlimContainerStatus>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodCondition {
    /// The type, for example `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason as one word in camel case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_time")]
    pub last_transition_time: Option<Time>,
}

/// The state of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainerStatus {
    /// The container's name.
    pub name: String,
    /// Whether it passes its readiness probe.
    pub ready: bool,
    /// Whether it passed its startup probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// The number of restarts.
    pub restart_count: i32,
    /// What the kubelet reports about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SlimContainerState>,
}

/// What the kubelet reports about a container that does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlimContainerState {
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<SlimWaitingState>,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlimWaitingState {
    /// The reason as one word in camel case, for example `CrashLoopBackOff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl SlimContainerStatus {
    /// Why the kubelet cannot start the container.
    pub fn failure(&self) -> Option<&SlimWaitingState> {
        let waiting = self.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        (!STARTING.contains(&reason)).then_some(waiting)
    }
}

impl SlimPod {
    /// Whether the pod is neither terminating nor finished.
    pub fn is_live(&self) -> bool {
        !self.is_terminating() && !self.is_failed() && !self.is_succeeded()
    }

    /// Whether the pod has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        is_terminating(self)
    }

    /// The name of the `PodGroup` that the pod belongs to.
    pub fn pod_group(&self) -> Option<&str> {
        self.spec.scheduling_group.as_ref()?.pod_group_name.as_deref()
    }

    /// Whether the phase is `Failed`. An evicted pod has this phase.
    pub fn is_failed(&self) -> bool {
        self.status.phase.as_deref() == Some("Failed")
    }

    /// Whether the phase is `Succeeded`.
    pub fn is_succeeded(&self) -> bool {
        self.status.phase.as_deref() == Some("Succeeded")
    }

    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether all init containers have ended.
    pub fn is_initialized(&self) -> bool {
        self.condition("Initialized").is_some_and(|condition| condition.status == "True")
    }

    /// Whether the scheduler chose a node.
    pub fn is_scheduled(&self) -> bool {
        self.spec.node_name.is_some()
            || self.condition("PodScheduled").is_some_and(|condition| condition.status == "True")
    }

    /// Whether the pod has a scheduling gate.
    pub fn is_gated(&self) -> bool {
        !self.spec.scheduling_gates.is_empty()
    }

    /// The first container that the kubelet cannot start.
    pub fn failing_container(&self) -> Option<(&SlimContainerStatus, &SlimWaitingState)> {
        let mut containers = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        containers.find_map(|container| Some((container, container.failure()?)))
    }

    /// The first container that is not ready and has been restarted. Init containers do not count.
    pub fn restarted_container(&self) -> Option<&SlimContainerStatus> {
        self.status.container_statuses.iter().find(|container| container.restart_count > 0 && !container.ready)
    }

    /// Since when the pod has been ready; `None` if it is not.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|condition| condition.status == "True")?;
        Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
    }

    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&SlimPodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Why the scheduler has not bound the pod, if it reports a reason.
    pub fn unschedulable_message(&self) -> Option<&str> {
        let condition = self.condition("PodScheduled").filter(|condition| condition.status == "False")?;
        condition.message.as_deref().filter(|message| !message.is_empty())
    }
}

fn only_of_grove<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SlimInitContainer>, D::Error> {
    let mut containers: Vec<SlimInitContainer> = null_as_default(from)?;
    containers.retain(|container| container.name == INIT_CONTAINER);
    containers.shrink_to_fit();
    Ok(containers)
}

fn only_failing<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SlimContainerStatus>, D::Error> {
    let mut containers: Vec<SlimContainerStatus> = null_as_default(from)?;
    containers.retain(|container| container.failure().is_some());
    containers.shrink_to_fit();
    Ok(containers)
}

fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> SlimPod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_time_that_cannot_be_represented_does_not_make_a_pod_unreadable() {
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z" });
        assert!(pod(json!({ "status": { "conditions": [ready] } })).is_ready());
    }

    #[test]
    fn a_pod_is_live_until_it_is_terminating_or_finished() {
        assert!(pod(json!({ "status": { "phase": "Running" } })).is_live());
        assert!(!pod(json!({ "status": { "phase": "Failed" } })).is_live());
        assert!(!pod(json!({ "status": { "phase": "Succeeded" } })).is_live());
        assert!(!pod(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })).is_live());
    }

    #[test]
    fn only_the_arguments_of_the_init_container_of_grove_are_kept() {
        let own = json!({ "name": "own", "args": ["a long script"] });
        let grove = json!({ "name": "grove-initc", "image": "i", "args": ["--podcliques=a:1"] });
        let kept = pod(json!({ "spec": { "initContainers": [own, grove] } })).spec.init_containers;
        let args = vec!["--podcliques=a:1".to_owned()];
        assert_eq!(kept, [SlimInitContainer { name: "grove-initc".to_owned(), args }]);
        assert!(pod(json!({ "spec": { "initContainers": null } })).spec.init_containers.is_empty());
    }

    #[test]
    fn containers_that_the_kubelet_cannot_start_are_known() {
        let waiting = |name: &str, reason: &str| json!({ "name": name, "state": { "waiting": { "reason": reason, "message": "m" } }, "image": "i" });
        let running =
            json!({ "name": "c", "ready": true, "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } });
        let failing = |init: serde_json::Value, containers: serde_json::Value| {
            let status = json!({ "initContainerStatuses": init, "containerStatuses": containers });
            let pod = pod(json!({ "status": status }));
            pod.failing_container()
                .map(|(container, waiting)| (container.name.clone(), waiting.reason.clone().unwrap()))
        };
        let named = |name: &str, reason: &str| Some((name.to_owned(), reason.to_owned()));
        assert_eq!(failing(json!(null), json!([running])), None);
        assert_eq!(failing(json!([waiting("i", "PodInitializing")]), json!([waiting("c", "ContainerCreating")])), None);
        assert_eq!(
            failing(json!(null), json!([running, waiting("d", "CrashLoopBackOff")])),
            named("d", "CrashLoopBackOff")
        );
        let both = (json!([waiting("i", "ErrImagePull")]), json!([waiting("c", "PodInitializing")]));
        assert_eq!(failing(both.0, both.1), named("i", "ErrImagePull"));
    }

    #[test]
    fn readiness_scheduling_and_gates_are_read_from_the_pod() {
        let ready = pod(json!({ "spec": { "nodeName": "n" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }));
        assert!(ready.is_ready() && ready.is_scheduled() && !ready.is_gated());
        let gated = pod(json!({ "spec": { "schedulingGates": [{ "name": "g" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "False" }], "containerStatuses": null } }));
        assert!(!gated.is_ready() && !gated.is_scheduled() && gated.is_gated());
    }
}
