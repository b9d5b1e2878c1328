//! What pcs-controller may do: exactly what it does.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;

/// The rules its account is granted.
pub fn rules() -> Vec<Rule> {
    let observe = &[Verb::Get, Verb::List, Verb::Watch];
    let keep = &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Delete];
    vec![
        Rule::on::<PodCliqueSet>(observe, "the sets it works for"),
        Rule::on::<PodCliqueSet>(&[Verb::Patch], "what it says of them").status(),
        Rule::on::<PodCliqueSet>(&[Verb::Update], "children block the deletion of their set")
            .subresource("finalizers")
            .implied(),
        Rule::on::<PodCliqueScalingGroup>(keep, "the scaling groups of a replica"),
        Rule::on::<PodCliqueScalingGroup>(&[Verb::Patch], "what it says of them").status(),
        Rule::on::<PodCliqueScalingGroup>(&[Verb::Update], "cliques block the deletion of their group")
            .subresource("finalizers")
            .implied(),
        Rule::on::<PodClique>(keep, "the cliques of a replica, of the set and of its groups"),
        Rule::on::<PodGang>(keep, "the gangs of a replica"),
        Rule::on::<PodGang>(&[Verb::Patch], "where the gang is in its life").status(),
        Rule::on::<Service>(keep, "the headless Service of a replica"),
        Rule::on::<HorizontalPodAutoscaler>(keep, "what scales cliques and groups"),
        Rule::lease(),
        Rule::events(),
    ]
}
