//! The gangs of a set after changes of its constraints and of the keys of its topology, and the topology that its label names.

use expect_test::expect;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::PodCliqueScalingGroup;

use super::topology::{FULL, applied, check, next, observe_with, set, summary, topology};
use super::{change, new, plan};
use crate::set::observed::Observed;
use crate::topology::Topologies;

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

/// `packDomain` is replaced by an equal `pack.required`, or the reverse.
#[test]
fn the_other_form_of_equal_constraints_changes_only_new_gangs() {
    let full = default_topology();
    let new_gang = |form: &str| match form {
        "packDomain" => "m-0-g-1 by grove-topology: r/h; m-0-g-2-b -/h\n",
        _ => "m-0-g-1 by grove-topology: r/-; m-0-g-2-b -\n",
    };
    for (from, to) in [("packDomain", "required"), ("required", "packDomain")] {
        for has_scheduled_pods in [false, true] {
            let before = applied(&observe_with(&full, &new(&set(from, "")), false));
            let mut changed = Observed { set: new(&set(to, "")).set, ..before.clone() };
            let observed = observe_with(&full, &changed, has_scheduled_pods);
            assert_eq!(plan(&observed).to_string(), "nothing to do\n", "{from} to {to}");
            change(&mut changed, "m-0-g", |group: &mut PodCliqueScalingGroup| group.spec.replicas = 3);
            let scaled = applied(&observe_with(&full, &changed, has_scheduled_pods));
            let (mut lines, mut expected) = (summary(&observe_with(&full, &scaled, false)), summary(&before));
            for text in [&mut lines, &mut expected] {
                text.truncate(text.rfind("False/").expect("a condition"));
            }
            assert_eq!(lines, expected + new_gang(to), "{from} to {to}");
        }
    }
}

#[test]
fn other_required_keys_and_a_preference_of_the_user_change_the_preferred_keys_of_existing_gangs() {
    let (full, of_pack) = (default_topology(), set("required", ""));
    let before = applied(&observe_with(&full, &new(&set("packDomain", "")), false));
    let after = |set: &str| next(&before, set, &full, false);
    // The scaled gang has the required key of its group, which stays.
    expect![[r"
        m-0 by grove-topology: r/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by grove-topology: r/h; m-0-g-1-b -/h
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]]
    .assert_eq(&after(&of_pack.replace("{required: zone}", "{required: rack}")));
    expect![[r"
        m-0 by grove-topology: z/r; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by grove-topology: r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]]
    .assert_eq(&after(&of_pack.replace("{required: zone}", "{required: zone, preferred: rack}")));
    expect![[r"
        m-0 by grove-topology: z/h; m-0-g-0 [m-0-g-0-b] h/h; m-0-a h/h; m-0-g-0-b -/h
        m-0-g-0 by grove-topology: h/h; m-0-g-1-b -/h
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]]
    .assert_eq(&after(&set("packDomain", "").replace("packDomain: rack", "packDomain: host")));
    let preferred = of_pack.replace("{required: zone}", "{required: zone, preferred: host}");
    let before = applied(&observe_with(&full, &new(&preferred), false));
    expect![[r"
        m-0 by grove-topology: z/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by grove-topology: r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]]
    .assert_eq(&next(&before, &of_pack, &full, false));
}

#[test]
fn a_gang_follows_the_form_of_its_set_together_with_another_topology_of_the_same_keys() {
    let both = Topologies::of(vec![topology("one", &FULL), topology("two", &FULL)], vec![]);
    let before = applied(&observe_with(&both, &new(&set("packDomain", "clusterTopologyName: one")), false));
    expect![[r"
        m-0 by two: z/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by two: r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology two has all levels of the constraints
    "]]
    .assert_eq(&next(&before, &set("required", "clusterTopologyName: two"), &both, false));
}

/// The cache lacks the topology.
#[test]
fn the_other_form_changes_no_gang_of_a_topology_that_a_live_get_finds() {
    let before = applied(&observe_with(&default_topology(), &new(&set("packDomain", "")), false));
    let changed = Observed { set: new(&set("required", "")).set, ..before.clone() };
    let mut found = observe_with(&Topologies::of(vec![], vec![]), &changed, false);
    let live = Topology::from(&topology("grove-topology", &FULL));
    found.topologies.found(&found.set, live, found.children.of_kind::<PodGang>());
    assert_eq!(plan(&found).to_string(), "nothing to do\n");
}

#[test]
fn an_edited_preferred_key_is_restored() {
    let full = default_topology();
    for form in ["packDomain", "required"] {
        let before = applied(&observe_with(&full, &new(&set(form, "")), false));
        let mut edited = before.clone();
        change(&mut edited, "m-0", |gang: &mut PodGang| {
            let pack =
                gang.spec.topology_constraint.as_mut().and_then(|constraint| constraint.pack_constraint.as_mut());
            let preferred = &mut pack.expect("a constraint").preferred;
            *preferred = preferred.take().is_none().then(|| "h".to_owned());
        });
        let restored = applied(&observe_with(&full, &edited, false));
        assert_ne!(summary(&edited), summary(&before), "{form}");
        assert_eq!(summary(&restored), summary(&before), "{form}");
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
    let with_label = |name: &str, label: &str| {
        let labels = format!("generation: 3, labels: {{grove.io/topology-name: {label}}}");
        set("required", name).replace("generation: 3", &labels)
    };
    let labelled = |name: &str| with_label(name, "labelled");
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
    // An empty label names no topology.
    for set in [set("required", ""), with_label("", "\"\"")] {
        check(
            &set,
            &all,
            &expect![[r"
            m-0 by grove-topology: d-z/-; m-0-g-0 [m-0-g-0-b] d-r/-; m-0-a d-h/-; m-0-g-0-b -
            m-0-g-0 by grove-topology: d-r/-; m-0-g-1-b -
            False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
        "]],
        );
    }
}
