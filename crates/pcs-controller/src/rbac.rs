//! The permissions of pcs-controller, each with its reason.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    let read = &[Verb::Get, Verb::List, Verb::Watch];
    let manage = &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Delete];
    vec![
        PolicyRule::for_resource::<PodCliqueSet>(read, "reconcile the sets; get confirms their deletion"),
        PolicyRule::for_resource::<PodCliqueSet>(&[Verb::Patch], "update the status").status(),
        PolicyRule::for_resource::<PodCliqueSet>(
            &[Verb::Update],
            "create children that block the deletion of their set",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(
            manage,
            "create, update and delete the scaling groups of each replica",
        ),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(&[Verb::Patch], "update the status").status(),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(
            &[Verb::Update],
            "create cliques that block the deletion of their group",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<PodClique>(
            manage,
            "create, update and delete the cliques of each replica and of its scaling groups",
        ),
        PolicyRule::for_resource::<PodGang>(manage, "create, update and delete the gangs of each replica"),
        PolicyRule::for_resource::<PodGang>(&[Verb::Patch], "update the status").status(),
        PolicyRule::for_resource::<Service>(manage, "create, update and delete the headless Service of each replica"),
        PolicyRule::for_resource::<HorizontalPodAutoscaler>(
            manage,
            "create, update and delete the autoscalers of cliques and scaling groups",
        ),
        PolicyRule::lease(),
        PolicyRule::events(),
    ]
}
