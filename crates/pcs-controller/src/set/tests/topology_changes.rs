//! The gangs of a set after changes of its constraints and of the keys of its topology, and the topology that its label names.

use expect_test::expect;

use super::new;
use super::topology::{FULL, applied, check, next, observe_with, set, topology};
use crate::topologies::Topologies;

fn default_topology() -> Topologies {
    Topologies::of(vec![topology("grove-topology", &FULL)], vec![])
}

#[test]
fn changed_constraints_are_translated_again() {
    let (full, first) = (default_topology(), set("required", ""));
    for has_scheduled_pods in [false, true] {
        let before = applied(&observe_with(&full, &new(&first), false));
        let of_set = first.replace("{required: zone}", "{required: rack}");
        let of_group = first.replace("{required: rack}", "{required: host}");
        let of_clique = first.replace("{required: host}", "{preferred: host}");
        let none = first.replace("topologyConstraint", "ignored");
        let after = |set: &str| next(&before, set, &full, has_scheduled_pods);
        expect![[r"
            m-0 by grove-topology: r/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
            m-0-g-0 by grove-topology: r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]]
        .assert_eq(&after(&of_set));
        expect![[r"
            m-0 by grove-topology: z/-; m-0-g-0 [m-0-g-0-b] h/-; m-0-a h/-; m-0-g-0-b -
            m-0-g-0 by grove-topology: h/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]]
        .assert_eq(&after(&of_group));
        expect![[r"
            m-0 by grove-topology: z/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a -/h; m-0-g-0-b -
            m-0-g-0 by grove-topology: r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]]
        .assert_eq(&after(&of_clique));
        expect![[r"
            m-0 by -: -; m-0-a -; m-0-g-0-b -
            m-0-g-0 by -: -; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the set has no topology constraints
        "]]
        .assert_eq(&after(&none));
    }
}

/// The keys change while topology-aware scheduling is disabled.
#[test]
fn changed_keys_of_a_topology_are_in_the_gangs_when_it_is_enabled_again() {
    let (set, disabled) = (set("packDomain", ""), Topologies::disabled());
    let changed =
        Topologies::of(vec![topology("grove-topology", &[("zone", "z2"), ("rack", "r2"), ("host", "h2")])], vec![]);
    for has_scheduled_pods in [false, true] {
        let enabled = applied(&observe_with(&default_topology(), &new(&set), false));
        let without = applied(&observe_with(&disabled, &enabled, has_scheduled_pods));
        expect![[r"
            m-0 by grove-topology: z2/h2; m-0-g-0 [m-0-g-0-b] r2/h2; m-0-a h2/h2; m-0-g-0-b -/h2
            m-0-g-0 by grove-topology: r2/h2; m-0-g-1-b -/h2
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]]
        .assert_eq(&next(&without, &set, &changed, has_scheduled_pods));
    }
}

#[test]
fn the_label_of_a_set_names_its_topology_unless_its_spec_does() {
    let of = |name: &str, prefix: &'static str| {
        topology(name, &FULL.map(|(domain, key)| (domain, &*[prefix, key].concat().leak())))
    };
    let all = Topologies::of(vec![of("grove-topology", "d-"), of("labelled", "l-"), of("named", "n-")], vec![]);
    let labelled = |name: &str| {
        set("required", name).replace("generation: 3", "generation: 3, labels: {grove.io/topology-name: labelled}")
    };
    check(
        &labelled(""),
        &all,
        &expect![[r"
            m-0 by labelled: l-z/-; m-0-g-0 [m-0-g-0-b] l-r/-; m-0-a l-h/-; m-0-g-0-b -
            m-0-g-0 by labelled: l-r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology labelled has all levels of the constraints
        "]],
    );
    check(
        &labelled("clusterTopologyName: named"),
        &all,
        &expect![[r"
            m-0 by named: n-z/-; m-0-g-0 [m-0-g-0-b] n-r/-; m-0-a n-h/-; m-0-g-0-b -
            m-0-g-0 by named: n-r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology named has all levels of the constraints
        "]],
    );
    check(
        &set("required", ""),
        &all,
        &expect![[r"
            m-0 by grove-topology: d-z/-; m-0-g-0 [m-0-g-0-b] d-r/-; m-0-a d-h/-; m-0-g-0-b -
            m-0-g-0 by grove-topology: d-r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]],
    );
}
