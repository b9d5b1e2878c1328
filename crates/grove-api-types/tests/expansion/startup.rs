//! The startup dependencies between cliques.

use std::collections::BTreeMap;

use expect_test::expect;
use grove_api_types::expansion::CurrentScale;

use super::{check, set};

/// Standalone `a`, then group `g` of `b` and `c`, then standalone `d`.
fn in_order(startup: &str) -> String {
    "
replicas: 1
template:
  cliqueStartupType: STARTUP
  cliques:
  - {name: a, spec: {roleName: a, replicas: 1}}
  - {name: b, spec: {roleName: b, replicas: 1, startsAfter: [a]}}
  - {name: c, spec: {roleName: c, replicas: 1, startsAfter: [a, b]}}
  - {name: d, spec: {roleName: d, replicas: 1, startsAfter: [c]}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [b, c], replicas: 3, minAvailable: 2}
"
    .replace("STARTUP", startup)
}

#[test]
fn with_any_order_no_clique_has_parents() {
    check(
        "s",
        &in_order("CliqueStartupTypeAnyOrder"),
        "",
        &expect![[r"
        replica 0 at s-0.prod.svc.cluster.local
          clique s-0-a × 1
          clique s-0-d × 1
          group s-0-g × 3 of 2 pods
            s-0-g-0 in gang s-0
              clique s-0-g-0-b × 1
              clique s-0-g-0-c × 1
            s-0-g-1 in gang s-0
              clique s-0-g-1-b × 1
              clique s-0-g-1-c × 1
            s-0-g-2 in gang s-0-g-0 after s-0
              clique s-0-g-2-b × 1
              clique s-0-g-2-c × 1
          gang s-0: s-0-a, s-0-d, s-0-g-0-b, s-0-g-0-c, s-0-g-1-b, s-0-g-1-c
          gang s-0-g-0: s-0-g-2-b, s-0-g-2-c
    "]],
    );
}

#[test]
fn with_in_order_each_clique_starts_after_its_predecessor() {
    check(
        "s",
        &in_order("CliqueStartupTypeInOrder"),
        "",
        &expect![[r"
        replica 0 at s-0.prod.svc.cluster.local
          clique s-0-a × 1
          clique s-0-d × 1 after s-0-g-0-c, s-0-g-1-c
          group s-0-g × 3 of 2 pods
            s-0-g-0 in gang s-0
              clique s-0-g-0-b × 1 after s-0-a
              clique s-0-g-0-c × 1 after s-0-g-0-b, s-0-g-1-b
            s-0-g-1 in gang s-0
              clique s-0-g-1-b × 1 after s-0-a
              clique s-0-g-1-c × 1 after s-0-g-0-b, s-0-g-1-b
            s-0-g-2 in gang s-0-g-0 after s-0
              clique s-0-g-2-b × 1
              clique s-0-g-2-c × 1 after s-0-g-2-b
          gang s-0: s-0-a, s-0-d, s-0-g-0-b, s-0-g-0-c, s-0-g-1-b, s-0-g-1-c
          gang s-0-g-0: s-0-g-2-b, s-0-g-2-c
    "]],
    );
}

#[test]
fn explicit_parents_of_a_scaled_gang_are_in_the_same_replica() {
    check(
        "s",
        &in_order("CliqueStartupTypeExplicit"),
        "",
        &expect![[r"
        replica 0 at s-0.prod.svc.cluster.local
          clique s-0-a × 1
          clique s-0-d × 1 after s-0-g-0-c, s-0-g-1-c
          group s-0-g × 3 of 2 pods
            s-0-g-0 in gang s-0
              clique s-0-g-0-b × 1 after s-0-a
              clique s-0-g-0-c × 1 after s-0-a, s-0-g-0-b, s-0-g-1-b
            s-0-g-1 in gang s-0
              clique s-0-g-1-b × 1 after s-0-a
              clique s-0-g-1-c × 1 after s-0-a, s-0-g-0-b, s-0-g-1-b
            s-0-g-2 in gang s-0-g-0 after s-0
              clique s-0-g-2-b × 1
              clique s-0-g-2-c × 1 after s-0-g-2-b
          gang s-0: s-0-a, s-0-d, s-0-g-0-b, s-0-g-0-c, s-0-g-1-b, s-0-g-1-c
          gang s-0-g-0: s-0-g-2-b, s-0-g-2-c
    "]],
    );
}

#[test]
fn replicas_removed_by_a_scale_in_are_not_parents() {
    check(
        "s",
        &in_order("CliqueStartupTypeExplicit"),
        "groups: {s-0-g: 1}",
        &expect![[r"
        replica 0 at s-0.prod.svc.cluster.local
          clique s-0-a × 1
          clique s-0-d × 1 after s-0-g-0-c
          group s-0-g × 1 of 2 pods
            s-0-g-0 in gang s-0
              clique s-0-g-0-b × 1 after s-0-a
              clique s-0-g-0-c × 1 after s-0-a, s-0-g-0-b
          gang s-0: s-0-a, s-0-d, s-0-g-0-b, s-0-g-0-c
    "]],
    );
}

#[test]
fn the_cliques_of_a_base_gang_share_the_names_of_their_parents() {
    let spec = in_order("CliqueStartupTypeInOrder");
    let set = set("s", &spec.replace("replicas: 3, minAvailable: 2", "replicas: 2000, minAvailable: 2000"));
    let expanded = super::expand(&set, &CurrentScale::default());
    let lists = || expanded[0].all_cliques().map(|clique| &clique.starts_after);
    let dependencies: usize = lists().map(|list| list.len()).sum();
    assert_eq!(dependencies, 2000 + 2000 * 2000 + 2000, "those of b, c and d");
    let distinct: BTreeMap<_, _> = lists().map(|list| (list.as_ptr(), list.len())).collect();
    assert_eq!(distinct.into_values().sum::<usize>(), 1 + 2000 + 2000, "the number of names in memory");
}
