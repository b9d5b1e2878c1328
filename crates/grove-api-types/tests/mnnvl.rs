//! The compute domains that a set needs, and the claim that its pods get.

use expect_test::{Expect, expect};
use grove_api_types::mnnvl::{
    RequiredDomain, domain_of_clique, inject_claim, required_domain, required_domains, required_domains_of_replica,
};
use grove_api_types::names::{ComputeDomainName, PodCliqueSetName};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::v1alpha1::PodCliqueSet;
use serde_json::{Value, json};

const GPU: &str = "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}";
const CPU: &str = "{containers: [{name: c, resources: {limits: {cpu: 8, nvidia.com/gpu: '0'}}}]}";

/// A set with these annotations, cliques (name, annotation, pod) and scaling groups (name, annotation, clique).
fn set(
    annotations: &str,
    cliques: &[(&str, &str, &str)],
    groups: &[(&str, &str, &str)],
    replicas: i32,
) -> PodCliqueSet {
    let annotation = |group: &str| {
        if group.is_empty() { String::new() } else { format!("annotations: {{grove.io/mnnvl-group: {group}}}, ") }
    };
    let cliques = cliques.iter().map(|(name, group, pod)| {
        format!("{{name: {name}, {}spec: {{roleName: r, replicas: 1, podSpec: {pod}}}}}", annotation(group))
    });
    let groups = groups
        .iter()
        .map(|(name, group, clique)| format!("{{name: {name}, {}cliqueNames: [{clique}]}}", annotation(group)));
    let text = format!(
        "{{metadata: {{name: llm, annotations: {{{annotations}}}}}, spec: {{replicas: {replicas}, template: {{\
         cliques: [{}], podCliqueScalingGroups: [{}]}}}}}}",
        cliques.collect::<Vec<_>>().join(", "),
        groups.collect::<Vec<_>>().join(", ")
    );
    serde_saphyr::from_str(&text).expect("a set")
}

fn text<'a>(domains: impl IntoIterator<Item = RequiredDomain<'a>>) -> String {
    let line = |RequiredDomain { name, replica, group }: RequiredDomain<'_>| {
        format!("{name} of replica {replica}, group {}\n", group.unwrap_or("-"))
    };
    domains.into_iter().map(line).collect()
}

#[track_caller]
fn check(set: &PodCliqueSet, expected: &Expect) {
    expected.assert_eq(&text(required_domains(set)));
    for required in required_domains(set) {
        assert_eq!(required_domain(set, required.name.as_str()).as_ref(), Some(&required));
    }
    for next in required_domains_of_replica(set, set.spec.replicas) {
        assert_eq!(required_domain(set, next.name.as_str()), None);
    }
}

/// Each domain of a set is looked up after a change of the set, so a search in all replicas would take quadratic time. With this number of
/// replicas it would not end.
#[test]
fn a_domain_is_found_by_its_name_in_a_set_of_any_size() {
    let set = set("grove.io/mnnvl-group: 0-x", &[("a", "", GPU)], &[], i32::MAX);
    let last = format!("llm-{}-0-x", i32::MAX - 1);
    assert_eq!(required_domain(&set, &last).map(|required| required.replica), Some(i32::MAX - 1));
    for other in
        ["llm", "llm-", "llm-0", "llm-0-0", "llm-+1-0-x", "llm--1-0-x", "llm-2147483647-0-x", "llmx-0-0-x", "a-0-0-x"]
    {
        assert_eq!(required_domain(&set, other), None, "{other}");
    }
}

#[test]
fn an_enabled_set_has_one_domain_per_replica_with_and_without_gpus() {
    for pod in [GPU, CPU] {
        check(
            &set("grove.io/auto-mnnvl: enabled", &[("a", "", pod), ("b", "", pod)], &[("g", "", "b")], 3),
            &expect![[r"
                llm-0 of replica 0, group -
                llm-1 of replica 1, group -
                llm-2 of replica 2, group -
            "]],
        );
    }
}

#[test]
fn other_sets_have_no_domain() {
    for annotations in
        ["", "grove.io/auto-mnnvl: disabled", "grove.io/auto-mnnvl: 'true'", "grove.io/mnnvl-group: none"]
    {
        check(&set(annotations, &[("a", "", GPU)], &[], 2), &expect![[r""]]);
    }
    check(&set("grove.io/mnnvl-group: fabric", &[("a", "", CPU)], &[], 2), &expect![[r""]]);
}

#[test]
fn each_replica_has_a_domain_per_group_of_its_cliques_with_gpus() {
    let cliques = [
        ("inherits", "", GPU),
        ("overrides", "y", GPU),
        ("opts-out", "none", GPU),
        ("cpu", "z", CPU),
        ("member", "", GPU),
        ("own-member", "w", GPU),
        ("lonely-member", "", GPU),
    ];
    let groups = [("g", "x", "member, own-member"), ("h", "none", "lonely-member")];
    check(
        &set("grove.io/mnnvl-group: fabric", &cliques, &groups, 2),
        &expect![[r"
            llm-0-fabric of replica 0, group fabric
            llm-0-w of replica 0, group w
            llm-0-x of replica 0, group x
            llm-0-y of replica 0, group y
            llm-1-fabric of replica 1, group fabric
            llm-1-w of replica 1, group w
            llm-1-x of replica 1, group x
            llm-1-y of replica 1, group y
        "]],
    );
}

#[test]
fn the_domains_follow_the_number_of_replicas() {
    let scaled = |replicas| set("grove.io/mnnvl-group: f", &[("a", "", GPU)], &[], replicas);
    check(&scaled(0), &expect![[r""]]);
    check(
        &scaled(1),
        &expect![[r"
            llm-0-f of replica 0, group f
        "]],
    );
    expect![[r"
        llm-7-f of replica 7, group f
    "]]
    .assert_eq(&text(required_domains_of_replica(&scaled(1), 7)));
}

#[test]
fn every_clique_uses_a_domain_that_its_replica_has() {
    let cliques = [("a", "", GPU), ("b", "y", GPU), ("c", "none", GPU), ("d", "y", CPU), ("e", "", GPU)];
    for annotations in ["grove.io/auto-mnnvl: enabled", "grove.io/mnnvl-group: fabric", "grove.io/auto-mnnvl: disabled"]
    {
        let cliques =
            if annotations.contains("enabled") { cliques.map(|(name, _, pod)| (name, "", pod)) } else { cliques };
        let set = set(annotations, &cliques, &[("g", "x", "e")], 1);
        let required: Vec<_> = required_domains(&set).map(|domain| domain.name).collect();
        let used = set.spec.template.cliques.iter().filter_map(|clique| {
            let mut groups = set.spec.template.pod_clique_scaling_groups.iter();
            let group = groups.find(|group| group.clique_names.contains(&clique.name));
            domain_of_clique(&set, 0, group, clique)
        });
        let mut used: Vec<_> = used.collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used, required, "{annotations}");
    }
}

fn injected(pod: &Value) -> Value {
    let domain = ComputeDomainName::of_replica(&PodCliqueSetName::new("llm"), 0);
    let mut pod: RawPodSpec = serde_json::from_value(pod.clone()).expect("a pod spec");
    inject_claim(&mut pod, &domain);
    let once = serde_json::to_value(&pod).expect("JSON");
    inject_claim(&mut pod, &domain);
    assert_eq!(serde_json::to_value(&pod).expect("JSON"), once, "a second injection changes nothing");
    once
}

#[test]
fn only_containers_with_gpus_get_the_claim_and_own_claims_stay() {
    let gpu = json!({ "limits": { "nvidia.com/gpu": "8" } });
    let pod = json!({
        "resourceClaims": [{ "name": "nic", "resourceClaimName": "mine" }],
        "initContainers": [{ "name": "i", "resources": { "requests": { "nvidia.com/gpu": 1 } } }, { "name": "wait" }],
        "containers": [
            { "name": "train", "resources": { "limits": gpu["limits"], "claims": [{ "name": "nic" }] } },
            { "name": "sidecar", "resources": { "limits": { "nvidia.com/gpu": 0 } } },
        ],
    });
    let expected = json!({
        "resourceClaims": [
            { "name": "nic", "resourceClaimName": "mine" },
            { "name": "mnnvl-claim", "resourceClaimTemplateName": "llm-0" },
        ],
        "initContainers": [
            { "name": "i", "resources": { "requests": { "nvidia.com/gpu": 1 }, "claims": [{ "name": "mnnvl-claim" }] } },
            { "name": "wait" },
        ],
        "containers": [
            { "name": "train", "resources": { "limits": gpu["limits"], "claims": [{ "name": "nic" }, { "name": "mnnvl-claim" }] } },
            { "name": "sidecar", "resources": { "limits": { "nvidia.com/gpu": 0 } } },
        ],
    });
    assert_eq!(injected(&pod), expected);
}

#[test]
fn a_pod_without_gpus_or_with_an_own_claim_of_the_name_does_not_change() {
    let without_gpus = json!({ "containers": [{ "name": "c" }] });
    let gpu = json!({ "name": "c", "resources": { "limits": { "nvidia.com/gpu": 1 } } });
    let own = json!({ "name": "mnnvl-claim", "resourceClaimTemplateName": "mine" });
    let with_own = json!({ "resourceClaims": [own], "containers": [gpu] });
    let invalid = json!({ "containers": "none" });
    for pod in [without_gpus, with_own, invalid] {
        assert_eq!(injected(&pod), pod);
    }
    let null = json!({ "resourceClaims": null, "containers": [gpu] });
    assert_eq!(injected(&null)["resourceClaims"][0]["name"], "mnnvl-claim");
}
