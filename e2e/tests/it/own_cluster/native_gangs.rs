//! What `nativeGangs` says of Kubernetes' own gangs: no service uses them yet. Where the API server has them, sets yield with
//! `auto` what they yield on the shared plane, which does not have them, and no `PodGroup` is made.

use e2e::kubectl::kubectl_on;
use e2e::{Namespace, Plane};

use crate::it::composition::{NAMESPACE, yields_exactly_these_objects};

#[tokio::test(flavor = "multi_thread")]
async fn native_gangs_auto_behaves_like_off() {
    let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");
    let written = std::fs::read_to_string(configuration).expect("the configuration of the shared plane");
    assert!(written.contains("nativeGangs: auto"), "{written}");
    let plane = Plane::own_with("native-gangs", &["--native-gangs", "--config", configuration]).await;
    let groups = ["get", "podgroups.v1alpha2.scheduling.k8s.io", "--all-namespaces", "--output=name"];
    assert_eq!(kubectl_on(&plane, &groups, "").await.as_deref(), Ok(""), "they are served, and there are none");
    yields_exactly_these_objects(&Namespace::create(&plane.client().await, NAMESPACE).await).await;
    assert_eq!(kubectl_on(&plane, &groups, "").await.as_deref(), Ok(""), "there are still none");
    plane.down().await;
}
