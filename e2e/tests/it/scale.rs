//! Sets and cliques grow and shrink through their scale subresource; indices of live pods stay dense.

use e2e::{in_namespace, sets};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

#[tokio::test]
async fn a_set_scales_out_and_in() {
    in_namespace("e2e-scale-set", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("one replica", |world| world.is_available("llm") && world.pods.len() == 5).await;
        ns.scale::<PodCliqueSet>("llm", 3).await;
        ns.until("three replicas", |world| {
            world.is_available("llm")
                && world.services.len() == 3
                && world.gangs.len() == 3
                && world.cliques.len() == 9
                && world.live_pods().count() == 15
        })
        .await;
        ns.scale::<PodCliqueSet>("llm", 1).await;
        let world = ns
            .until("one replica again", |world| {
                world.is_available("llm")
                    && world.services.len() == 1
                    && world.gangs.len() == 1
                    && world.cliques.len() == 3
                    && world.pods.len() == 5
            })
            .await;
        assert!(world.services.contains_key("llm-0") && world.gangs.contains_key("llm-0"), "{world}");
        ns.scale::<PodCliqueSet>("llm", 0).await;
        ns.until("no replica", |world| world.cliques.is_empty() && world.pods.is_empty() && world.services.is_empty())
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_scaled_clique_keeps_its_replicas_and_dense_indices() {
    in_namespace("e2e-scale-clique", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("two decode pods", |world| world.ready_indices("llm-0-decode") == [0, 1]).await;
        ns.scale::<PodClique>("llm-0-decode", 4).await;
        ns.until("four decode pods", |world| world.ready_indices("llm-0-decode") == [0, 1, 2, 3]).await;
        ns.scale::<PodClique>("llm-0-decode", 1).await;
        ns.until("one decode pod", |world| world.ready_indices("llm-0-decode") == [0] && world.pods.len() == 4).await;
        // The set is touched, and what the template says of the size does not come back.
        ns.patch::<PodCliqueSet>("llm", serde_json::json!({"spec": {"template": {"priorityClassName": "other"}}}))
            .await;
        let world = ns
            .until("the change reached the gang", |world| {
                world.gangs["llm-0"].spec.priority_class_name.as_deref() == Some("other") && world.is_available("llm")
            })
            .await;
        assert_eq!(world.cliques["llm-0-decode"].spec.replicas, 1);
        assert_eq!(world.ready_indices("llm-0-decode"), [0]);
    })
    .await;
}

/// Kubernetes' own autoscalers need no metrics to bring a size back between the least and the most.
#[tokio::test]
async fn autoscalers_scale_cliques_and_groups() {
    in_namespace("e2e-scale-auto", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        ns.until("the set serves", |world| world.is_available("m") && world.pods.len() == 14).await;
        for (clique, clique_becomes, group, group_becomes, pods) in [(6, 4, 10, 8, 36), (1, 2, 1, 2, 10)] {
            ns.scale::<PodClique>("m-0-f", clique).await;
            ns.scale::<PodCliqueScalingGroup>("m-0-g", group).await;
            ns.until("both are as large as their autoscalers allow", |world| {
                world.cliques["m-0-f"].spec.replicas == clique_becomes
                    && world.groups["m-0-g"].spec.replicas == group_becomes
                    && world.is_available("m")
                    && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == pods
                    && world.pods.len() == pods
            })
            .await;
        }
    })
    .await;
}

/// What is said of being available.
fn reason(conditions: &[Condition]) -> &str {
    conditions.iter().find(|condition| condition.type_ == "Available").map_or("", |condition| condition.reason.as_str())
}

/// The scale subresource refuses that, and an edit does not: the set is left as it is, and others are served.
#[tokio::test]
async fn a_set_scaled_above_the_object_limit_is_not_reconciled_until_it_is_smaller() {
    in_namespace("e2e-too-large", async |ns| {
        let moe = sets::grouped("moe", 1, "");
        let (moe, _) = moe.split_once("      scaleConfig:").expect("an autoscaler, which would interfere");
        ns.create_yaml::<PodCliqueSet>(moe).await;
        let before = ns.until("the set serves", |world| world.is_available("moe") && world.pods.len() == 14).await;
        ns.patch::<PodCliqueScalingGroup>("moe-0-g", json!({ "spec": { "replicas": 60_000 } })).await;
        let world = ns
            .until("the set and the group say so", |world| {
                let set = world.sets["moe"].status.as_ref().map(|status| reason(&status.conditions));
                let group = world.groups["moe-0-g"].status.as_ref().map(|status| reason(&status.conditions));
                set == Some("TooManyObjects") && group == Some("TooManyObjects")
            })
            .await;
        assert!(before.cliques.keys().eq(world.cliques.keys()) && before.pods.keys().eq(world.pods.keys()), "{world}");
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("another set serves", |world| world.is_available("llm")).await;
        ns.patch::<PodCliqueScalingGroup>("moe-0-g", json!({ "spec": { "replicas": 3 } })).await;
        let world = ns.until("the set serves again", |world| world.is_available("moe")).await;
        assert!(before.cliques.keys().all(|name| world.cliques.contains_key(name)), "{world}");
    })
    .await;
}
