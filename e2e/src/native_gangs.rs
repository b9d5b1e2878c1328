//! Gangs of the default scheduler that have `PodGroup`s of the workload API of Kubernetes.

use grove_api_types::scheduler_v1alpha1::PodGang;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};

use crate::binding_log::{is_bound, pod_group};
use crate::namespace_state::NamespaceState;

/// The annotation of a gang that names its `PodGroup`.
const POD_GROUP: &str = "grove.io/pod-group";

/// The `PodGroup`s of a namespace.
pub fn pod_groups(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("scheduling.k8s.io", "v1alpha2", "PodGroup");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// The `PodGroup` that the annotation of a gang names.
pub fn named_pod_group<'a>(state: &'a NamespaceState, gang: &str) -> Option<&'a str> {
    state.gangs.get(gang)?.annotations().get(POD_GROUP).map(String::as_str)
}

/// The gang of a pod, from its label.
pub fn gang_of(pod: &Pod) -> Option<&str> {
    pod.labels().get("grove.io/podgang").map(String::as_str)
}

/// Whether the conditions of all gangs report that the default scheduler schedules their pods together, and all pods are bound and belong
/// to the `PodGroup`s of their gangs.
pub fn all_are_bound(state: &NamespaceState) -> bool {
    let is_member = |pod: &Pod| {
        let named = gang_of(pod).and_then(|gang| named_pod_group(state, gang));
        named.is_some() && pod_group(pod) == named && is_bound(pod)
    };
    state.gangs.values().all(is_scheduled_together) && state.active_pods().all(is_member)
}

fn is_scheduled_together(gang: &PodGang) -> bool {
    let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| {
        let is_true = condition.status == "True" && condition.reason == "DefaultScheduler";
        condition.type_ == "GangScheduling" && is_true
    })
}
