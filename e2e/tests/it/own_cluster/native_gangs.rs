//! The configuration `nativeGangs` has no effect yet. The API server of this cluster serves the `PodGroup`s of Kubernetes:
//! with `auto`, Grove creates the same objects as on the shared cluster, whose API server does not serve them, and no
//! `PodGroup`.

use e2e::kubectl::kubectl_on;
use e2e::{Namespace, TestCluster};

use crate::it::composition::{NAMESPACE, creates_exactly_these_objects};

#[tokio::test(flavor = "multi_thread")]
async fn native_gangs_auto_behaves_like_off() {
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");
    let text = std::fs::read_to_string(configuration).expect("the configuration of the shared cluster");
    assert!(text.contains("nativeGangs: auto"), "{text}");
    let cluster = TestCluster::start_own_with("native-gangs", &["--native-gangs", "--config", configuration]).await;
    let groups = ["get", "podgroups.v1alpha2.scheduling.k8s.io", "--all-namespaces", "--output=name"];
    assert_eq!(
        kubectl_on(&cluster, &groups, "").await.as_deref(),
        Ok(""),
        "the API server serves PodGroups, and there are none"
    );
    creates_exactly_these_objects(&Namespace::create(&cluster.client().await, NAMESPACE).await).await;
    assert_eq!(kubectl_on(&cluster, &groups, "").await.as_deref(), Ok(""), "there are still no PodGroups");
    cluster.down().await;
}
