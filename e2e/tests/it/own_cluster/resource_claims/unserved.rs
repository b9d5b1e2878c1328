//! An API server that does not serve `resource.k8s.io/v1`, and serves it later. The control plane of the tests needs the version itself, so a
//! proxy requests a version that does not exist in its place.

use std::sync::Arc;

use e2e::crash_injection::{CrashSchedule, CrashTarget};

use super::*;

const REASON: &str = "ResourceClaimsNotServed";
/// The only resource that the sets without claims need is a pod.
const WITHOUT_CLAIMS: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: other}
spec:
  replicas: 1
  template:
    cliques:
    - {name: a, spec: {roleName: a, replicas: 1, podSpec: {containers: [{name: main, image: registry.k8s.io/pause:3.10}]}}}
";

pub(super) async fn an_unserved_api_is_awaited(cluster: &TestCluster) {
    let targets = services_without_the_api(cluster).await;
    let fixture = Fixture::create(cluster, "e2e-claims-unserved").await;
    only_the_set_with_claims_waits(&fixture).await;
    for target in &targets {
        target.proxy().serve_all();
    }
    fixture.ns.wait_for_ready_pods("llm", PODS).await;
    fixture.wait_for_claims("llm", &names_of_claims("llm", &[(2, 2)])).await;
    targets.iter().for_each(CrashTarget::assert_running);
    for set in ["llm", "other"] {
        fixture.ns.delete_object::<PodCliqueSet>(set).await;
    }
    fixture.wait_until_nothing_is_left().await;
    fixture.check_lifetime().await;
}

async fn services_without_the_api(cluster: &TestCluster) -> Vec<CrashTarget> {
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in SERVICES {
        let target = CrashTarget::take_over(cluster, service, Arc::clone(&schedule)).await;
        target.proxy().set_unserved("/apis/resource.k8s.io/v1/", "/apis/resource.k8s.io/v0/");
        targets.push(target);
    }
    targets
}

async fn only_the_set_with_claims_waits(fixture: &Fixture) {
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm")).await;
    fixture.ns.create_yaml::<PodCliqueSet>(WITHOUT_CLAIMS).await;
    fixture.ns.wait_for_ready_pods("other", 1).await;
    for owner in ["llm", "llm-0-g", "llm-0-front"] {
        fixture.ns.wait_for_condition(owner, CONDITION, REASON, "resource.k8s.io/v1").await;
    }
    let state = fixture.ns.wait_for("the set without claims is available", |state| state.is_available("other")).await;
    assert_eq!(state.pods_of("llm").count(), 0, "{state}");
}
