//! MNNVL groups: each clique inherits a group, has one of its own, or none.

use super::*;

/// The cliques of the set, with their annotations. The annotation of the set names the group `a`.
const CLIQUES: [(&str, &str); 10] = [
    ("inherits", ""),
    ("overrides", "b"),
    ("none", "none"),
    ("cpu", "f"),
    ("gi", ""),
    ("go", "d"),
    ("gn", "none"),
    ("hi", ""),
    ("ni", ""),
    ("no", "e"),
];
/// The scaling groups, with their annotations and cliques.
const SCALING_GROUPS: [(&str, &str, &str); 3] = [("g", "c", "gi, go, gn"), ("h", "", "hi"), ("n", "none", "ni, no")];
/// The domain of each clique.
const EXPECTED: [(&str, Option<&str>); 10] = [
    ("llm-0-inherits", Some("llm-0-a")),
    ("llm-0-overrides", Some("llm-0-b")),
    ("llm-0-none", None),
    ("llm-0-cpu", None),
    ("llm-0-g-0-gi", Some("llm-0-c")),
    ("llm-0-g-0-go", Some("llm-0-d")),
    ("llm-0-g-0-gn", None),
    ("llm-0-h-0-hi", Some("llm-0-a")),
    ("llm-0-n-0-ni", None),
    ("llm-0-n-0-no", Some("llm-0-e")),
];

fn annotations(group: &str) -> Value {
    if group.is_empty() { json!({}) } else { json!({ "grove.io/mnnvl-group": group }) }
}

fn set_with_groups() -> String {
    let clique = |(name, group): &(&str, &str)| {
        let gpus = if *name == "cpu" { json!({}) } else { json!({ "limits": { "nvidia.com/gpu": 1 } }) };
        let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": gpus });
        json!({ "name": name, "annotations": annotations(group),
            "spec": { "roleName": name, "replicas": 1, "podSpec": { "containers": [container] } } })
    };
    let scaling_group = |(name, group, members): &(&str, &str, &str)| {
        let members: Vec<_> = members.split(", ").collect();
        json!({ "name": name, "annotations": annotations(group), "cliqueNames": members })
    };
    let template = json!({ "cliques": CLIQUES.iter().map(clique).collect::<Vec<_>>(),
        "podCliqueScalingGroups": SCALING_GROUPS.iter().map(scaling_group).collect::<Vec<_>>() });
    // JSON is YAML.
    json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": { "name": "llm", "annotations": annotations("a") }, "spec": { "replicas": 1, "template": template } })
    .to_string()
}

fn pods_have_the_claims_of_their_groups(state: &NamespaceState) {
    for (clique, domain) in EXPECTED {
        let of_clique = |pod: &&Pod| pod.labels()["grove.io/podclique"] == clique;
        let pod = state.pods_of("llm").find(of_clique).unwrap_or_else(|| panic!("no pod of {clique}"));
        let expected: Vec<_> = domain.map(str::to_owned).into_iter().collect();
        assert_eq!(claim_templates(pod), expected, "{clique}");
    }
}

pub(super) async fn each_mnnvl_group_has_a_domain(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-groups").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set_with_groups()).await;
    let state = fixture.ns.wait_for_ready_pods("llm", EXPECTED.len()).await;
    assert_eq!(state.sets["llm"].annotations().get("grove.io/auto-mnnvl"), None);
    pods_have_the_claims_of_their_groups(&state);
    let domains = fixture.wait_for_domains(&["llm-0-a", "llm-0-b", "llm-0-c", "llm-0-d", "llm-0-e"]).await;
    let groups: Vec<_> = domains.iter().map(|domain| domain.labels()["grove.io/mnnvl-group"].clone()).collect();
    assert_eq!(groups, ["a", "b", "c", "d", "e"]);
    let group_of = |name: &str| state.groups[name].annotations().get("grove.io/mnnvl-group").cloned();
    let groups = ["llm-0-g", "llm-0-h", "llm-0-n"].map(group_of);
    assert_eq!(groups, ["c", "a", "none"].map(|group| Some(group.to_owned())));
    no_two_domains_share_a_node([&state]);
    fixture.delete_last_set("llm").await;
}
