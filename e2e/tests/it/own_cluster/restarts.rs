//! Restarts of the API server and of the services lose no change of a user.

use e2e::{Namespace, NamespaceState, TestCluster, fixtures};
use grove_api_types::v1alpha1::PodCliqueSet;

fn is_settled(replicas: usize) -> impl Fn(&NamespaceState) -> bool {
    move |state| {
        state.is_available("llm")
            && state.cliques.len() == replicas * 3
            && state.pods.len() == replicas * 5
            && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == replicas * 5
    }
}

/// Takes long: it starts a control plane and its API server again, and the killed leaders leave leases that have to expire.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_of_the_api_server_and_the_services_lose_no_change() {
    let cluster = TestCluster::with_own_control_plane("restarts", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-restarts").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", is_settled(1)).await;

    // The API server is killed right after it accepted the change; the services reconcile it after the restart.
    ns.scale::<PodCliqueSet>("llm", 3).await;
    cluster.kill("kube-apiserver").await;
    cluster.start_again().await;
    ns.wait_for("three replicas are ready", is_settled(3)).await;

    for service in ["pcs-controller", "pclq-controller", "topology-controller"] {
        cluster.kill(service).await;
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    cluster.start_again().await;
    ns.wait_for("two replicas are ready", is_settled(2)).await;
    cluster.down().await;
}
