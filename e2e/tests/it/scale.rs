//! Sets and cliques grow and shrink through their scale subresource; indices of live pods stay dense.

use e2e::{in_namespace, sets};
use grove_api_types::core::{PodClique, PodCliqueSet};

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
async fn a_clique_keeps_its_own_size_and_dense_indices() {
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
