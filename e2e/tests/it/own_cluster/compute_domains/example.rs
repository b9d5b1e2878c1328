//! The example of a set with a `ComputeDomain`.

use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/");

pub(super) async fn the_workers_of_the_example_share_a_domain(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-example").await;
    let example = std::fs::read_to_string([FOLDER, "mnnvl.yaml"].concat()).expect("the example");
    fixture.ns.create_yaml::<PodCliqueSet>(&example).await;
    let state = fixture.ns.wait_for_ready_pods("mnnvl", 3).await;
    for pod in state.pods_of("mnnvl") {
        let expected: &[&str] = if pod.name_any().starts_with("mnnvl-0-worker") { &["mnnvl-0"] } else { &[] };
        assert_eq!(claim_templates(pod), expected, "{}", pod.name_any());
    }
    fixture.wait_for_domains(&["mnnvl-0"]).await;
    fixture.delete_last_set("mnnvl").await;
}
