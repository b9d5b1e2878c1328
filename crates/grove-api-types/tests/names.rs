//! The names that are not just joined with hyphens: of pods, of claims in pods, and of roles.

use expect_test::expect;
use grove_api_types::names::{
    ClaimOwner, ComputeDomainName, PodClaimName, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName, PodName,
    PodRoleName, PodServiceAccountName, ResourceClaimName, TokenSecretName,
};

#[track_caller]
fn pod_name(uid: &str, index: i32, replaces: Option<&str>) -> String {
    PodName::candidates(&PodCliqueName::new("llm-0-decode"), uid, index, replaces).next().expect("endless").to_string()
}

#[test]
fn a_pod_name_depends_on_the_clique_the_index_and_the_replaced_pod() {
    expect!["llm-0-decode-xb2gc"].assert_eq(&pod_name("u1", 0, None));
    let names = [
        pod_name("u1", 0, None),
        pod_name("u1", 1, None),
        pod_name("u2", 0, None),
        pod_name("u1", 0, Some("p1")),
        pod_name("u1", 0, Some("p2")),
    ];
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn a_pod_has_several_candidate_names() {
    let clique = PodCliqueName::new("c");
    let names: Vec<_> = PodName::candidates(&clique, "u", 0, None).take(3).map(|name| name.to_string()).collect();
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    assert!(names.iter().all(|name| name.len() == "c-".len() + 5), "{names:?}");
}

#[test]
fn a_claim_name_consists_of_owner_scope_and_template() {
    let set = PodCliqueSetName::new("llm");
    let group = PodCliqueScalingGroupName::of_replica(&set, 1, "workers");
    let clique = PodCliqueName::member(&group, 2, "decode");
    let owners = [ClaimOwner::Set(&set), ClaimOwner::Group(&group), ClaimOwner::Clique(&clique)];
    let names: Vec<_> = owners
        .into_iter()
        .flat_map(|owner| {
            [ResourceClaimName::of_all_replicas(owner, "gpus"), ResourceClaimName::of_replica(owner, 3, "gpus")]
        })
        .map(|name| name.to_string())
        .collect();
    expect![[r"
        llm-all-gpus
        llm-3-gpus
        llm-1-workers-all-gpus
        llm-1-workers-3-gpus
        llm-1-workers-2-decode-all-gpus
        llm-1-workers-2-decode-3-gpus
    "]]
    .assert_eq(&(names.join("\n") + "\n"));
}

#[track_caller]
fn pod_claim(claim: &str) -> String {
    let name = ResourceClaimName::of_all_replicas(ClaimOwner::Set(&PodCliqueSetName::new("s")), claim);
    let entry = PodClaimName::of_claim(&name).to_string();
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(entry.len() <= 63 && entry.chars().all(label), "{entry}");
    entry
}

#[test]
fn a_pod_claim_has_the_name_of_the_claim_or_a_hashed_name_if_that_is_too_long() {
    expect!["s-all-gpus"].assert_eq(&pod_claim("gpus"));
    assert_eq!(pod_claim(&"a".repeat(57)).len(), 63);
    expect!["s-all-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-f061bc08"].assert_eq(&pod_claim(&"a".repeat(58)));
    assert_ne!(pod_claim(&"a".repeat(58)), pod_claim(&"a".repeat(59)));
    assert_ne!(pod_claim("a.b"), pod_claim("a-b"));
}

#[test]
fn the_service_account_role_and_secret_have_the_name_of_the_set() {
    let set = PodCliqueSetName::new("llm");
    let role = PodRoleName::of_set(&set);
    let names = [PodServiceAccountName::of_set(&set).to_string(), role.to_string(), role.label_value()];
    assert_eq!(names, ["llm", "grove.io:pcs:llm", "grove.io-pcs-llm"]);
    assert_eq!(TokenSecretName::of_set(&set).as_str(), "llm-ic-sat");
}

#[test]
fn a_compute_domain_name_consists_of_set_replica_and_group() {
    let set = PodCliqueSetName::new("llm");
    assert_eq!(ComputeDomainName::of_replica(&set, 1).as_str(), "llm-1");
    assert_eq!(ComputeDomainName::of_group(&set, 1, "fabric").as_str(), "llm-1-fabric");
}
