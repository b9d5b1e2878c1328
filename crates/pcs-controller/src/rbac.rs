//! The permissions of pcs-controller, each with its reason.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<Rule> {
    let read = &[Verb::Get, Verb::List, Verb::Watch];
    let manage = &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Delete];
    vec![
        Rule::on::<PodCliqueSet>(read, "reconcile the sets; get confirms their deletion"),
        Rule::on::<PodCliqueSet>(&[Verb::Patch], "update the status").status(),
        Rule::on::<PodCliqueSet>(&[Verb::Update], "create children that block the deletion of their set")
            .subresource("finalizers")
            .implied(),
        Rule::on::<PodCliqueScalingGroup>(manage, "create, update and delete the scaling groups of each replica"),
        Rule::on::<PodCliqueScalingGroup>(&[Verb::Patch], "update the status").status(),
        Rule::on::<PodCliqueScalingGroup>(&[Verb::Update], "create cliques that block the deletion of their group")
            .subresource("finalizers")
            .implied(),
        Rule::on::<PodClique>(
            manage,
            "create, update and delete the cliques of each replica and of its scaling groups",
        ),
        Rule::on::<PodGang>(manage, "create, update and delete the gangs of each replica"),
        Rule::on::<PodGang>(&[Verb::Patch], "update the status").status(),
        Rule::on::<Service>(manage, "create, update and delete the headless Service of each replica"),
        Rule::on::<HorizontalPodAutoscaler>(
            manage,
            "create, update and delete the autoscalers of cliques and scaling groups",
        ),
        Rule::lease(),
        Rule::events(),
    ]
}
