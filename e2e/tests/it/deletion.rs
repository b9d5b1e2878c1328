//! The deletion of a set deletes all its objects, and its name can be used again at once.

use e2e::{NamespaceState, fixtures, in_namespace};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;

fn is_ready(state: &NamespaceState) -> bool {
    state.is_available("llm") && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == 10
}

#[tokio::test]
async fn a_deleted_set_leaves_no_objects() {
    in_namespace("e2e-delete", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
        ns.wait_for("the set is available and all pods are ready", is_ready).await;
        ns.delete_object::<PodCliqueSet>("llm").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_set_can_be_created_again_at_once() {
    in_namespace("e2e-recreate", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
        let old = ns.wait_for("the set is available and all pods are ready", is_ready).await.sets["llm"].uid();
        ns.delete_object::<PodCliqueSet>("llm").await;
        let new = ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await.uid();
        assert_ne!(old, new);
        let state = ns
            .wait_for("the new set is available and all its pods are ready", |state| {
                state.sets.get("llm").is_some_and(|s| s.uid() == new) && is_ready(state)
            })
            .await;
        let owners = state.cliques.values().map(|clique| clique.owner_references()[0].uid.clone());
        assert!(owners.into_iter().all(|owner| Some(owner) == new), "{state}");
    })
    .await;
}
