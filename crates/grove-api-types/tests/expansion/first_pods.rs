//! The pods that autoscalers count: one for each replica of a set or of a scaling group.

use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision};

use super::{expand, set};

/// The clique `zero` has no pods by the template.
const SPEC: &str = "
replicas: 1
template:
  cliques:
  - {name: zero, spec: {replicas: 0}}
  - {name: leader, spec: {replicas: 2}}
  - {name: worker, spec: {replicas: 3}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [zero, leader, worker], replicas: 2}
";

#[test]
fn the_cliques_of_a_replica_of_a_group_count_in_their_order() {
    let mut set = set("s", SPEC);
    for none in [0, -1] {
        set.spec.template.cliques[0].spec.replicas = none;
        let replicas = expand(&set, &CurrentScale::default());
        for replica in &replicas[0].groups[0].replicas {
            let first: Vec<_> = replica.cliques.iter().map(|clique| replica.first_pod_index(&clique.name)).collect();
            assert_eq!(first, [0, 0, 2]);
        }
    }
}

#[test]
fn the_first_clique_with_pods_represents_a_replica_of_a_set() {
    let mut set = set("s", SPEC);
    set.spec.template.cliques[0].spec.replicas = 0;
    let revision = Revision::new(set.spec.template, OmittedMinima::default());
    let represents = |clique: usize, group_replica| {
        revision.represents_set_replica(&revision.template.cliques[clique], group_replica)
    };
    assert_eq!([0, 1, 2].map(|clique| represents(clique, Some(0))), [false, true, false]);
    assert!(represents(1, None), "of a clique outside of groups");
    assert!(!represents(1, Some(1)), "one pod for each replica of the set, not for each of the group");
}
