//! How many objects a set implies: what is counted is what the expansion has.

use grove_api_types::expansion::object_count;
use grove_api_types::expansion::{self, CurrentScale, SetReplica};
use grove_api_types::v1alpha1::PodCliqueSet;

use crate::{live, set};

const SPEC: &str = "
replicas: 3
template:
  cliques:
  - {name: f, spec: {replicas: 4, autoScalingConfig: {maxReplicas: 9}}}
  - {name: p, spec: {replicas: 1}}
  - {name: d, spec: {replicas: 3}}
  - {name: x, spec: {replicas: 2}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [p, d], replicas: 5, minAvailable: 2, scaleConfig: {maxReplicas: 9}}
";

/// What the expansion has.
fn expanded(set: &PodCliqueSet, live: &CurrentScale) -> u64 {
    let objects = |replica: &SetReplica<'_>| {
        let pods: i32 = replica.all_cliques().map(|clique| clique.replicas).sum();
        let made = 1 + replica.gangs().len() + replica.groups.len() + replica.all_cliques().count();
        u64::try_from(pods).expect("a count") + (made + replica.autoscalers().len()) as u64
    };
    expansion::expand(set, live).iter().map(objects).sum()
}

#[test]
fn what_is_counted_is_what_the_expansion_has() {
    let set = set("s", SPEC);
    assert_eq!(object_count::of_template(&set), expanded(&set, &CurrentScale::default()));
}

#[test]
fn the_sizes_that_there_are_count_and_not_those_of_the_template() {
    let mut large = set("s", SPEC);
    assert!(
        !object_count::is_too_large(&large, &CurrentScale::default()) && !object_count::may_be_too_large(&large, 0, 0)
    );
    assert!(object_count::may_be_too_large(&large, 0, 10_000) && object_count::may_be_too_large(&large, 100_000, 0));
    assert!(!object_count::is_too_large(&large, &live("{groups: {s-0-g: 13000}}")));
    assert!(object_count::is_too_large(&large, &live("{groups: {s-0-g: 10000, s-2-g: 10000}}")));
    assert!(object_count::is_too_large(&large, &live("{cliques: {s-1-f: 100000}}")));
    assert!(!object_count::is_too_large(&large, &live("{groups: {s-3-g: 100000}}")), "a replica that is not wanted");
    assert!(object_count::is_replica_too_large(&large, 0, &live("{groups: {s-0-g: 20000}}")));
    assert!(!object_count::is_replica_too_large(&large, 1, &live("{groups: {s-0-g: 20000}}")));
    large.spec.replicas = 1;
    large.spec.template.pod_clique_scaling_groups[0].replicas = Some(100_000);
    assert!(object_count::is_too_large(&large, &CurrentScale::default()));
    assert!(!object_count::is_too_large(&large, &live("{groups: {s-0-g: 3}}")), "it was scaled down");
}

#[test]
fn no_numbers_are_too_large_to_be_multiplied() {
    let mut set = set("s", SPEC);
    set.spec.replicas = i32::MAX;
    set.spec.template.pod_clique_scaling_groups[0].replicas = Some(i32::MAX);
    for clique in &mut set.spec.template.cliques {
        clique.spec.replicas = i32::MAX;
    }
    assert_eq!(object_count::of_template(&set), u64::MAX);
    assert!(object_count::is_too_large(&set, &CurrentScale::default()));
}
