//! The number of startup dependencies of a set equals the number of names in its expansion.

use grove_api_types::expansion::CurrentScale;
use grove_api_types::expansion::dependency_count::{self, DependencyCount, MAX_DEPENDENCIES_OF_CLIQUE};
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::v1alpha1::PodCliqueSet;

use super::{current_scale, set};

/// The groups `g` and `h`, and two standalone cliques. With explicit startup, `q` waits for all others.
fn template(startup: &str) -> String {
    let spec = "
replicas: 3
template:
  cliqueStartupType: STARTUP
  cliques:
  - {name: a, spec: {replicas: 1}}
  - {name: b, spec: {replicas: 1, startsAfter: [a]}}
  - {name: c, spec: {replicas: 1, startsAfter: [b, a]}}
  - {name: p, spec: {replicas: 1, startsAfter: [b]}}
  - {name: d, spec: {replicas: 1}}
  - {name: q, spec: {replicas: 1, startsAfter: [a, b, c, p, d]}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [b, c], replicas: 5, minAvailable: 3}
  - {name: h, cliqueNames: [q, p], replicas: 4, minAvailable: 2}
";
    spec.replace("STARTUP", startup)
}

/// The dependencies of the expansion.
fn expanded(set: &PodCliqueSet, scale: &CurrentScale) -> DependencyCount {
    let (mut base, mut scaled) = (vec![], vec![]);
    for replica in &super::expand(set, scale) {
        for gang in replica.gangs() {
            let lengths = gang.cliques.iter().map(|clique| clique.starts_after.len() as u64);
            if gang.base.is_some() { scaled.extend(lengths) } else { base.extend(lengths) }
        }
    }
    let largest = base.iter().chain(&scaled).copied().max().unwrap_or(0);
    DependencyCount { largest, in_base_gangs: base.iter().sum(), in_scaled_gangs: scaled.iter().sum() }
}

#[test]
fn the_dependency_count_equals_that_of_the_expansion() {
    for startup in ["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"] {
        let mut set = set("s", &template(startup));
        assert_eq!(dependency_count::of_template(&set), expanded(&set, &CurrentScale::default()), "{startup}");
        set.spec.replicas = 1;
        for groups in ["{s-0-g: 9}", "{s-0-g: 0}", "{s-0-g: 2}", "{s-0-h: 1, s-0-g: 4}"] {
            let scale = current_scale(&format!("{{groups: {groups}}}"));
            let counted = dependency_count::of_current_replica(&set, 0, &scale);
            assert_eq!(counted, expanded(&set, &scale), "{startup} {groups}");
        }
        let growth = |replicas| dependency_count::growth(&set.spec.template, "h", replicas);
        let scaled_to =
            |replicas| expanded(&set, &current_scale(&format!("{{groups: {{s-0-h: {replicas}}}}}"))).total();
        assert_eq!((growth(2), growth(9)), (0, scaled_to(9) - scaled_to(4)), "{startup}");
    }
}

/// A set with `minAvailable` of this number in a group of two cliques.
fn in_order(min_available: i32, replicas: i32) -> PodCliqueSet {
    let spec = "
replicas: REPLICAS
template:
  cliqueStartupType: CliqueStartupTypeInOrder
  cliques:
  - {name: p, spec: {replicas: 1}}
  - {name: d, spec: {replicas: 1}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [p, d], replicas: GROUP, minAvailable: GROUP}
";
    set("s", &spec.replace("REPLICAS", &replicas.to_string()).replace("GROUP", &min_available.to_string()))
}

#[test]
fn the_limits_of_a_set_apply_to_its_current_scale() {
    let exceeded = |set: &PodCliqueSet, groups: &str| {
        let scale = current_scale(&format!("{{groups: {groups}}}"));
        let exceeded = SizeLimit::exceeded(set, &scale);
        assert!(exceeded.is_none() || SizeLimit::may_be_exceeded(set, 0, 2000), "{groups}");
        exceeded
    };
    let too_large = Some(SizeLimit::StartupDependencies);
    assert_eq!(exceeded(&in_order(700, 1), "{}"), None);
    assert_eq!(exceeded(&in_order(2000, 1), "{}"), too_large);
    assert_eq!(exceeded(&in_order(2000, 1), "{s-0-g: 700}"), None, "it was scaled down");
    assert_eq!(exceeded(&in_order(500, 3), "{}"), too_large, "750,000 in three replicas");
    assert_eq!(exceeded(&in_order(500, 3), "{s-1-g: 1}"), too_large, "500,001 in three replicas");
    assert_eq!(exceeded(&in_order(500, 3), "{s-1-g: 0}"), None);
    assert!(!SizeLimit::may_be_exceeded(&in_order(300, 3), 100, 300), "no exact count is needed");
    let replica = |groups: &str| {
        let scale = current_scale(&format!("{{groups: {groups}}}"));
        [0, 1].map(|index| SizeLimit::exceeded_by_replica(&in_order(2000, 2), index, &scale))
    };
    assert_eq!(replica("{s-1-g: 9}"), [too_large, None]);
}

/// The longest names that are possible. The rest of the storage is for the pod template.
#[test]
fn the_dependencies_of_a_clique_use_a_tenth_of_the_storage_of_an_object() {
    let names = vec!["x".repeat(63); usize::try_from(MAX_DEPENDENCIES_OF_CLIQUE).expect("a count")];
    let bytes = serde_json::to_vec(&names).expect("JSON").len();
    assert!(bytes * 10 <= 1536 * 1024, "{bytes} bytes");
}
