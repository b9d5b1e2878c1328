//! A deleted set leaves nothing, and its name is free at once.

use e2e::{World, in_namespace, sets};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;

fn serves(world: &World) -> bool {
    world.is_available("llm") && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == 10
}

#[tokio::test]
async fn a_deleted_set_leaves_no_objects() {
    in_namespace("e2e-delete", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await;
        ns.until("the set serves", serves).await;
        ns.remove::<PodCliqueSet>("llm").await;
        ns.until("nothing is left", World::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn a_deleted_set_can_be_created_again_at_once() {
    in_namespace("e2e-recreate", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await;
        let old = ns.until("the set serves", serves).await.sets["llm"].uid();
        ns.remove::<PodCliqueSet>("llm").await;
        let new = ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await.uid();
        assert_ne!(old, new);
        let world = ns
            .until("the new set serves", |world| world.sets.get("llm").is_some_and(|s| s.uid() == new) && serves(world))
            .await;
        let owners = world.cliques.values().map(|clique| clique.owner_references()[0].uid.clone());
        assert!(owners.into_iter().all(|owner| Some(owner) == new), "{world}");
    })
    .await;
}
