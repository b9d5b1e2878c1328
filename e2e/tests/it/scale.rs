//! Scaling of sets, cliques and groups through their scale subresources. The indices of active pods stay dense.

use e2e::{Namespace, NamespaceState, fixtures, in_namespace};
use grove_api_types::labels::SCALE;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::json;

#[tokio::test]
async fn a_set_scales_out_and_in() {
    in_namespace("e2e-scale-set", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        ns.wait_for("the set has one replica", |state| state.is_available("llm") && state.pods.len() == 5).await;
        ns.scale::<PodCliqueSet>("llm", 3).await;
        ns.wait_for("the set has three replicas", |state| {
            state.is_available("llm")
                && state.services.len() == 3
                && state.gangs.len() == 3
                && state.cliques.len() == 9
                && state.active_pods().count() == 15
        })
        .await;
        ns.scale::<PodCliqueSet>("llm", 1).await;
        let state = ns
            .wait_for("the set has one replica again", |state| {
                state.is_available("llm")
                    && state.services.len() == 1
                    && state.gangs.len() == 1
                    && state.cliques.len() == 3
                    && state.pods.len() == 5
            })
            .await;
        assert!(state.services.contains_key("llm-0") && state.gangs.contains_key("llm-0"), "{state}");
        ns.scale::<PodCliqueSet>("llm", 0).await;
        ns.wait_for("the set has no replica", |state| {
            state.cliques.is_empty() && state.pods.is_empty() && state.services.is_empty()
        })
        .await;
    })
    .await;
}

async fn a_deleted_clique_returns_with_its_scale(ns: &Namespace) {
    let is_recorded = |state: &NamespaceState| state.gangs["llm-0"].annotations().contains_key(SCALE);
    let before = ns.wait_for("the gang records the scale", is_recorded).await;
    ns.delete_object::<PodClique>("llm-0-decode").await;
    ns.wait_for("the clique returns with four pods", |state| {
        let clique = state.cliques.get("llm-0-decode");
        clique.is_some_and(|clique| clique.uid() != before.cliques["llm-0-decode"].uid())
            && state.ready_indices("llm-0-decode") == [0, 1, 2, 3]
    })
    .await;
}

#[tokio::test]
async fn a_clique_scaled_by_a_user_keeps_its_replicas_and_dense_indices() {
    in_namespace("e2e-scale-clique", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        ns.wait_for("two decode pods are ready", |state| state.ready_indices("llm-0-decode") == [0, 1]).await;
        ns.scale::<PodClique>("llm-0-decode", 4).await;
        ns.wait_for("four decode pods are ready", |state| state.ready_indices("llm-0-decode") == [0, 1, 2, 3]).await;
        a_deleted_clique_returns_with_its_scale(ns).await;
        ns.scale::<PodClique>("llm-0-decode", 1).await;
        ns.wait_for("one decode pod is ready", |state| {
            state.ready_indices("llm-0-decode") == [0] && state.pods.len() == 4
        })
        .await;
        // A change of the set's template does not reset the replicas of the clique.
        ns.patch::<PodCliqueSet>("llm", serde_json::json!({"spec": {"template": {"priorityClassName": "other"}}}))
            .await;
        let state = ns
            .wait_for("the gang has the new priority class", |state| {
                state.gangs["llm-0"].spec.priority_class_name.as_deref() == Some("other")
            })
            .await;
        assert_eq!(state.cliques["llm-0-decode"].spec.replicas, 1);
        assert_eq!(state.ready_indices("llm-0-decode"), [0]);
    })
    .await;
}

/// An autoscaler takes the workers to zero, and the frontend is replaced. Then the workers come back.
#[tokio::test]
async fn a_replaced_pod_runs_while_other_cliques_are_at_zero() {
    in_namespace("e2e-scale-zero", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        let before = ns.wait_for_ready_pods("llm", 5).await;
        let frontend = before.pods.keys().find(|name| name.starts_with("llm-0-frontend")).expect("a frontend").clone();
        for worker in ["llm-0-prefill", "llm-0-decode"] {
            ns.scale::<PodClique>(worker, 0).await;
        }
        ns.wait_for_ready_pods("llm", 1).await;
        ns.delete_object::<Pod>(&frontend).await;
        ns.wait_for("the pod is deleted", |state| !state.pods.contains_key(&frontend)).await;
        ns.wait_for_ready_pods("llm", 1).await;
        for worker in ["llm-0-prefill", "llm-0-decode"] {
            ns.scale::<PodClique>(worker, 2).await;
        }
        ns.wait_for_ready_pods("llm", 5).await;
    })
    .await;
}

/// Without metrics, Kubernetes' autoscalers still enforce the minimum and the maximum.
/// It takes long because Kubernetes reads the sizes every 15 s.
#[tokio::test]
async fn autoscalers_scale_cliques_and_groups() {
    in_namespace("e2e-scale-auto", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("the set is available", |state| state.is_available("m") && state.pods.len() == 14).await;
        for (clique, bounded_clique, group, bounded_group, pods) in [(6, 4, 10, 8, 36), (1, 2, 1, 2, 10)] {
            ns.scale::<PodClique>("m-0-f", clique).await;
            ns.scale::<PodCliqueScalingGroup>("m-0-g", group).await;
            ns.wait_for("the autoscalers have enforced their bounds", |state| {
                state.cliques["m-0-f"].spec.replicas == bounded_clique
                    && state.groups["m-0-g"].spec.replicas == bounded_group
                    && state.is_available("m")
                    && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == pods
                    && state.pods.len() == pods
            })
            .await;
        }
    })
    .await;
}

/// The reason of the condition Available.
fn reason(conditions: &[Condition]) -> &str {
    conditions.iter().find(|condition| condition.type_ == "Available").map_or("", |condition| condition.reason.as_str())
}

/// The scale subresource rejects such a size, but a patch of the group passes: Grove keeps the set as it is and serves other
/// sets.
#[tokio::test]
async fn a_set_scaled_above_the_object_limit_is_not_reconciled_until_it_is_smaller() {
    in_namespace("e2e-too-large", async |ns| {
        let moe = fixtures::with_scaling_group("moe", 1, "");
        let (moe, _) = moe.split_once("      scaleConfig:").expect("the autoscaler, which would interfere");
        ns.create_yaml::<PodCliqueSet>(moe).await;
        let before =
            ns.wait_for("the set is available", |state| state.is_available("moe") && state.pods.len() == 14).await;
        ns.patch::<PodCliqueScalingGroup>("moe-0-g", json!({ "spec": { "replicas": 60_000 } })).await;
        let state = ns
            .wait_for("the set and the group report TooManyObjects", |state| {
                let set = state.sets["moe"].status.as_ref().map(|status| reason(&status.conditions));
                let group = state.groups["moe-0-g"].status.as_ref().map(|status| reason(&status.conditions));
                set == Some("TooManyObjects") && group == Some("TooManyObjects")
            })
            .await;
        assert!(before.cliques.keys().eq(state.cliques.keys()) && before.pods.keys().eq(state.pods.keys()), "{state}");
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        ns.wait_for("another set is available", |state| state.is_available("llm")).await;
        ns.patch::<PodCliqueScalingGroup>("moe-0-g", json!({ "spec": { "replicas": 3 } })).await;
        let state = ns.wait_for("the set is available again", |state| state.is_available("moe")).await;
        assert!(before.cliques.keys().all(|name| state.cliques.contains_key(name)), "{state}");
    })
    .await;
}
