//! The claims of compute domains in the cliques of a scaling group, and groups that wait for the domains of their replica.

use expect_test::expect;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;
use serde_json::Value;

use super::{GROUP, executed, new, plan};
use crate::compute_domains::{AwaitedDomain, AwaitedDomains, DomainState};
use crate::scaling_group::observed::Observed;
use crate::tests::{GROUPED, yaml};

/// The group of a set with these annotations, in which the clique `d` requests GPUs and has this own annotation.
fn observed(annotations: &str, own: &str) -> Observed {
    let gpu = "resources: {limits: {nvidia.com/gpu: 1}}";
    let set = GROUPED.replace("generation: 3", &format!("generation: 3, annotations: {{{annotations}}}")).replace(
        "{name: d, labels: {team: x}, spec: {roleName: d, replicas: 3, minAvailable: 2, podSpec: {containers: [{name: c}]}}}",
        &format!("{{name: d, annotations: {{{own}}}, spec: {{roleName: d, replicas: 3, podSpec: {{containers: [{{name: c, {gpu}}}]}}}}}}"),
    );
    assert!(set.contains("nvidia.com/gpu") && GROUP.contains("m-0-g"));
    let mut observed = new(2);
    observed.set = Some(grove_api_types::admission::default::pod_clique_set(&yaml(&set)));
    observed
}

fn templates(observed: Observed) -> String {
    let line = |clique: &std::sync::Arc<PodClique>| {
        let claims = clique.spec.pod_spec.get("resourceClaims").unwrap_or_default();
        let template = claims[0]["resourceClaimTemplateName"].as_str().map(str::to_owned);
        format!("{} {}\n", clique.name_any(), template.unwrap_or_else(|| Value::Null.to_string()))
    };
    executed(observed).children.of_kind::<PodClique>().map(line).collect()
}

#[test]
fn the_cliques_of_all_replicas_of_a_group_share_the_domain_of_the_replica_of_the_set() {
    expect![[r"
        m-0-g-0-d m-0
        m-0-g-0-p null
        m-0-g-1-d m-0
        m-0-g-1-p null
    "]]
    .assert_eq(&templates(observed("grove.io/auto-mnnvl: enabled", "")));
    expect![[r"
        m-0-g-0-d m-0-own
        m-0-g-0-p null
        m-0-g-1-d m-0-own
        m-0-g-1-p null
    "]]
    .assert_eq(&templates(observed("grove.io/mnnvl-group: fabric", "grove.io/mnnvl-group: own")));
    expect![[r"
        m-0-g-0-d null
        m-0-g-0-p null
        m-0-g-1-d null
        m-0-g-1-p null
    "]]
    .assert_eq(&templates(observed("grove.io/mnnvl-group: fabric", "grove.io/mnnvl-group: none")));
}

#[test]
fn the_cliques_of_a_replica_without_its_domains_wait() {
    let mut observed = observed("grove.io/auto-mnnvl: enabled", "");
    let domain = AwaitedDomain { name: "m-0".to_owned(), state: DomainState::Terminating };
    observed.awaited_domains = AwaitedDomains::from_iter([(0, vec![domain])]);
    expect![[r"
        wait: ComputeDomainsPending the pods of replica 0 wait for its ComputeDomains: m-0 is being deleted
    "]]
    .assert_eq(&plan(&observed).to_string());
}
