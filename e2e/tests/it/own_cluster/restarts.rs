//! What users lose when the API server or a service goes away for a while: nothing.

use e2e::{Namespace, Plane, World, sets};
use grove_api_types::v1alpha1::PodCliqueSet;

fn serves(replicas: usize) -> impl Fn(&World) -> bool {
    move |world| {
        world.is_available("llm")
            && world.cliques.len() == replicas * 3
            && world.pods.len() == replicas * 5
            && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == replicas * 5
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_of_the_api_server_and_the_services_lose_no_change() {
    let plane = Plane::own("faults").await;
    let ns = Namespace::create(&plane.client().await, "e2e-faults").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", serves(1)).await;

    // The server dies right after it took an order; what follows happens after it is back.
    ns.scale::<PodCliqueSet>("llm", 3).await;
    plane.kill("kube-apiserver").await;
    plane.up().await;
    ns.until("three replicas serve", serves(3)).await;

    for service in ["pcs-controller", "pclq-controller"] {
        plane.kill(service).await;
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    plane.up().await;
    ns.until("two replicas serve", serves(2)).await;
    plane.down().await;
}
