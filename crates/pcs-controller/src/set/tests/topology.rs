//! The topology constraints of the gangs of a set, and the condition about them.

use std::fmt::Write;

use expect_test::{Expect, expect};
use grove_api_types::labels::TOPOLOGY_NAME;
use grove_api_types::scheduler_v1alpha1::{PodGang, TopologyConstraint};
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_controller::plan::PatchBody;
use kube::ResourceExt;
use serde_json::json;

use super::*;
use crate::topology::Topologies;

/// A set with a constraint at each level, in this form. The group `g` has one replica in the base gang, and one scaled gang.
pub(super) fn set(form: &str, name: &str) -> String {
    let constraint = |domain: &str| match form {
        "packDomain" => format!("{{packDomain: {domain}}}"),
        "required" => format!("{{pack: {{required: {domain}}}}}"),
        "preferred" => format!("{{pack: {{preferred: {domain}}}}}"),
        other => panic!("{other}"),
    };
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: m, namespace: prod, uid: u, generation: 3}}
spec:
  replicas: 1
  template:
    {name}
    topologyConstraint: {}
    cliques:
    - {{name: a, topologyConstraint: {}, spec: {{roleName: a, replicas: 1, podSpec: {{containers: [{{name: c}}]}}}}}}
    - {{name: b, spec: {{roleName: b, replicas: 1, podSpec: {{containers: [{{name: c}}]}}}}}}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [b], replicas: 2, minAvailable: 1, topologyConstraint: {}}}
",
        constraint("zone"),
        constraint("host"),
        constraint("rack"),
    )
}

fn levels(keys: &[(&str, &str)]) -> serde_json::Value {
    keys.iter().map(|(domain, key)| json!({ "domain": domain, "key": key })).collect()
}

pub(super) fn topology(name: &str, keys: &[(&str, &str)]) -> ClusterTopology {
    let mut topology =
        ClusterTopology::new(name, serde_json::from_value(json!({ "levels": levels(keys) })).expect("a spec"));
    topology.metadata.uid = Some(format!("u-{name}"));
    topology
}

fn binding(name: &str, keys: &[(&str, &str)]) -> ClusterTopologyBinding {
    ClusterTopologyBinding::new(name, serde_json::from_value(json!({ "levels": levels(keys) })).expect("a spec"))
}

pub(super) const FULL: [(&str, &str); 3] = [("zone", "z"), ("rack", "r"), ("host", "h")];

/// The snapshot with the topologies, as the service takes it.
pub(super) fn observe_with(topologies: &Topologies, observed: &Observed, has_scheduled_pods: bool) -> Observed {
    let gangs = observed.children.of_kind::<PodGang>().map(|gang| (gang, has_scheduled_pods));
    let set = &observed.set;
    let of_gangs = match topologies.name_for(set) {
        Some(name) => GangTopologies::new((set, name), topologies.is_enabled(), |name| topologies.get(name), gangs),
        None => GangTopologies::default(),
    };
    Observed { topologies: of_gangs, is_topology_enabled: topologies.is_enabled(), ..observed.clone() }
}

/// The gangs after the plan was executed.
pub(super) fn applied(observed: &Observed) -> Observed {
    let mut after = observed.clone();
    let plan = plan(observed);
    for step in plan.steps() {
        match step {
            Step::Create(create) => {
                CHILD_KINDS.apply_create(create, &mut after.children, stored);
            }
            Step::Patch(patch) if patch.target.resource.kind == "PodGang" => {
                let name = patch.target.name.clone();
                change::<PodGang>(&mut after, &name, |gang| {
                    let mut value = serde_json::to_value(&*gang).expect("JSON");
                    let PatchBody::Merge(change) = &patch.change else { panic!("{patch:?}") };
                    json_patch::merge(&mut value, &change.value());
                    *gang = serde_json::from_value(value).expect("a gang");
                });
            }
            Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => {}
        }
    }
    after
}

fn text(constraint: Option<&TopologyConstraint>) -> String {
    let Some(pack) = constraint.and_then(|constraint| constraint.pack_constraint.as_ref()) else {
        return "-".to_owned();
    };
    let key = |key: &Option<String>| key.clone().unwrap_or_else(|| "-".to_owned());
    format!("{}/{}", key(&pack.required), key(&pack.preferred))
}

/// The required and the preferred key of each part of each gang, and the condition of the set.
pub(super) fn summary(observed: &Observed) -> String {
    let mut lines = String::new();
    for gang in observed.children.of_kind::<PodGang>() {
        let name = gang.annotations().get(TOPOLOGY_NAME).map_or("-", String::as_str);
        write!(lines, "{} by {name}: {}", gang.name_any(), text(gang.spec.topology_constraint.as_ref()))
            .expect("a string");
        for config in &gang.spec.topology_constraint_group_configs {
            let groups = config.pod_group_names.join(" ");
            write!(lines, "; {} [{groups}] {}", config.name, text(config.topology_constraint.as_ref()))
                .expect("a string");
        }
        for group in &gang.spec.podgroups {
            write!(lines, "; {} {}", group.name, text(group.topology_constraint.as_ref())).expect("a string");
        }
        lines.push('\n');
    }
    let status = status_of(observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let condition = status.conditions.iter().find(|condition| condition.type_ == "TopologyLevelsUnavailable");
    lines
        + &condition.map_or_else(
            || "no condition\n".to_owned(),
            |condition| format!("{}/{}: {}\n", condition.status, condition.reason, condition.message),
        )
}

pub(super) fn check(set: &str, topologies: &Topologies, expected: &Expect) {
    let observed = applied(&observe_with(topologies, &new(set), false));
    let settled = observe_with(topologies, &observed, false);
    assert_eq!(plan(&settled).steps().count(), 0, "the next reconcile writes nothing");
    expected.assert_eq(&summary(&settled));
}

#[test]
fn the_constraints_of_each_level_become_keys() {
    let default = Topologies::of(vec![topology("grove-topology", &FULL)], vec![]);
    check(
        &set("packDomain", ""),
        &default,
        &expect![[r"
        m-0 by grove-topology: z/h; m-0-g-0 [m-0-g-0-b] r/h; m-0-a h/h; m-0-g-0-b -/h
        m-0-g-0 by grove-topology: r/h; m-0-g-1-b -/h
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]],
    );
    check(
        &set("required", ""),
        &default,
        &expect![[r"
        m-0 by grove-topology: z/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by grove-topology: r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]],
    );
    check(
        &set("preferred", ""),
        &default,
        &expect![[r"
        m-0 by grove-topology: -/z; m-0-g-0 [m-0-g-0-b] -/r; m-0-a -/h; m-0-g-0-b -
        m-0-g-0 by grove-topology: -/r; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]],
    );
    let unconstrained = set("required", "").replace("topologyConstraint", "ignored");
    check(
        &unconstrained,
        &default,
        &expect![[r"
        m-0 by -: -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the set has no topology constraints
    "]],
    );
}

#[test]
fn a_scaled_gang_without_a_constraint_of_its_group_has_that_of_the_set() {
    let default = Topologies::of(vec![topology("grove-topology", &FULL)], vec![]);
    let without_group = set("required", "").replace(", topologyConstraint: {pack: {required: rack}}", "");
    check(
        &without_group,
        &default,
        &expect![[r"
        m-0 by grove-topology: z/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by grove-topology: z/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology grove-topology has all levels of the constraints
    "]],
    );
}

#[test]
fn a_domain_that_the_topology_lacks_has_no_effect() {
    let without_rack = Topologies::of(vec![topology("grove-topology", &[("zone", "z"), ("host", "h")])], vec![]);
    check(
        &set("packDomain", ""),
        &without_rack,
        &expect![[r"
        m-0 by grove-topology: z/h; m-0-g-0 [m-0-g-0-b] -/h; m-0-a h/h; m-0-g-0-b -/h
        m-0-g-0 by grove-topology: -/h; m-0-g-1-b -/h
        True/ClusterTopologyLevelsUnavailable: the topology grove-topology lacks these domains, so their constraints have no effect: rack
    "]],
    );
    check(
        &set("required", ""),
        &without_rack,
        &expect![[r"
        m-0 by grove-topology: z/-; m-0-g-0 [m-0-g-0-b] -; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        True/ClusterTopologyLevelsUnavailable: the topology grove-topology lacks these domains, so their constraints have no effect: rack
    "]],
    );
    let without_all = Topologies::of(vec![topology("grove-topology", &[("numa", "n")])], vec![]);
    check(
        &set("required", ""),
        &without_all,
        &expect![[r"
        m-0 by -: -; m-0-g-0 [m-0-g-0-b] -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        True/ClusterTopologyLevelsUnavailable: the topology grove-topology lacks these domains, so their constraints have no effect: host, rack, zone
    "]],
    );
}

#[test]
fn the_topology_is_found_by_its_name_in_both_kinds() {
    let both = Topologies::of(
        vec![topology("racks", &FULL)],
        vec![
            binding("racks", &[("rack", "wrong")]),
            binding("blocks", &[("zone", "bz"), ("rack", "br"), ("host", "bh")]),
        ],
    );
    check(
        &set("required", "clusterTopologyName: racks"),
        &both,
        &expect![[r"
        m-0 by racks: z/-; m-0-g-0 [m-0-g-0-b] r/-; m-0-a h/-; m-0-g-0-b -
        m-0-g-0 by racks: r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology racks has all levels of the constraints
    "]],
    );
    check(
        &set("required", "clusterTopologyName: blocks"),
        &both,
        &expect![[r"
        m-0 by blocks: bz/-; m-0-g-0 [m-0-g-0-b] br/-; m-0-a bh/-; m-0-g-0-b -
        m-0-g-0 by blocks: br/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology blocks has all levels of the constraints
    "]],
    );
    check(
        &set("required", "clusterTopologyName: other"),
        &both,
        &expect![[r"
        m-0 by -: -; m-0-g-0 [m-0-g-0-b] -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/ClusterTopologyNotFound: the topology other does not exist; create the ClusterTopology or the ClusterTopologyBinding other
    "]],
    );
    check(
        &set("required", ""),
        &both,
        &expect![[r"
        m-0 by -: -; m-0-g-0 [m-0-g-0-b] -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/TopologyNameMissing: the set names no topology, and the default topology grove-topology does not exist; set topologyConstraint.topologyName, or create the ClusterTopology grove-topology
    "]],
    );
}

#[test]
fn without_topology_aware_scheduling_gangs_have_no_constraints() {
    check(
        &set("required", ""),
        &Topologies::disabled(),
        &expect![[r"
        m-0 by -: -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/TopologyAwareSchedulingDisabled: the topology constraints have no effect; set topologyAwareScheduling.enabled in the configuration of Grove
    "]],
    );
    let unconstrained = set("required", "").replace("topologyConstraint", "ignored");
    check(
        &unconstrained,
        &Topologies::disabled(),
        &expect![[r"
        m-0 by -: -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        no condition
    "]],
    );
}

/// What the gangs become if the set and the topologies are these.
pub(super) fn next(before: &Observed, set: &str, topologies: &Topologies, has_scheduled_pods: bool) -> String {
    let changed = Observed { set: new(set).set, ..before.clone() };
    summary(&observe_with(
        topologies,
        &applied(&observe_with(topologies, &changed, has_scheduled_pods)),
        has_scheduled_pods,
    ))
}

#[test]
fn constraints_are_removed_and_return_with_the_topology() {
    let (set, full) = (set("packDomain", ""), Topologies::of(vec![], vec![binding("grove-topology", &FULL)]));
    let (none, disabled) = (Topologies::of(vec![], vec![]), Topologies::disabled());
    let before = applied(&observe_with(&full, &new(&set), false));
    let with = summary(&observe_with(&full, &before, false));
    for (without, expected) in [
        (
            &none,
            expect![[r"
        m-0 by -: -; m-0-g-0 [m-0-g-0-b] -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/TopologyNameMissing: the set names no topology, and the default topology grove-topology does not exist; set topologyConstraint.topologyName, or create the ClusterTopology grove-topology
    "]],
        ),
        (
            &disabled,
            expect![[r"
        m-0 by -: -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/TopologyAwareSchedulingDisabled: the topology constraints have no effect; set topologyAwareScheduling.enabled in the configuration of Grove
    "]],
        ),
    ] {
        expected.assert_eq(&next(&before, &set, without, false));
        let after = applied(&observe_with(without, &before, false));
        assert_eq!(next(&after, &set, &full, false), with);
    }
}

#[test]
fn a_gang_with_scheduled_pods_retains_its_topology() {
    let of = |name: &str| topology(name, &FULL.map(|(domain, key)| (domain, &*[name, key].join("-").leak())));
    let both = Topologies::of(vec![of("one"), of("two")], vec![]);
    let only_two = Topologies::of(vec![of("two")], vec![]);
    let [one, two] = ["one", "two"].map(|name| set("required", &format!("clusterTopologyName: {name}")));
    let before = applied(&observe_with(&both, &new(&one), false));
    expect![[r"
        m-0 by two: two-z/-; m-0-g-0 [m-0-g-0-b] two-r/-; m-0-a two-h/-; m-0-g-0-b -
        m-0-g-0 by two: two-r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology two has all levels of the constraints
    "]]
    .assert_eq(&next(&before, &two, &both, false));
    expect![[r"
        m-0 by one: one-z/-; m-0-g-0 [m-0-g-0-b] one-r/-; m-0-a one-h/-; m-0-g-0-b -
        m-0-g-0 by one: one-r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology two has all levels of the constraints; these gangs have scheduled pods and retain their constraints: m-0 (topology one), m-0-g-0 (topology one)
    "]].assert_eq(&next(&before, &two, &both, true));
    expect![[r"
        m-0 by one: one-z/-; m-0-g-0 [m-0-g-0-b] one-r/-; m-0-a one-h/-; m-0-g-0-b -
        m-0-g-0 by one: one-r/-; m-0-g-1-b -
        False/AllClusterTopologyLevelsAvailable: the topology two has all levels of the constraints; these gangs have scheduled pods and retain their constraints: m-0 (topology one), m-0-g-0 (topology one)
    "]].assert_eq(&next(&before, &two, &only_two, true));
    expect![[r"
        m-0 by one: one-z/-; m-0-g-0 [m-0-g-0-b] one-r/-; m-0-a one-h/-; m-0-g-0-b -
        m-0-g-0 by one: one-r/-; m-0-g-1-b -
        Unknown/ClusterTopologyNotFound: the topology one does not exist; create the ClusterTopology or the ClusterTopologyBinding one; these gangs have scheduled pods and retain their constraints: m-0 (topology one), m-0-g-0 (topology one)
    "]].assert_eq(&next(&before, &one, &only_two, true));
    expect![[r"
        m-0 by -: -; m-0-g-0 [m-0-g-0-b] -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/ClusterTopologyNotFound: the topology one does not exist; create the ClusterTopology or the ClusterTopologyBinding one
    "]].assert_eq(&next(&before, &one, &only_two, false));
    expect![[r"
        m-0 by -: -; m-0-a -; m-0-g-0-b -
        m-0-g-0 by -: -; m-0-g-1-b -
        Unknown/TopologyAwareSchedulingDisabled: the topology constraints have no effect; set topologyAwareScheduling.enabled in the configuration of Grove
    "]].assert_eq(&next(&before, &one, &Topologies::disabled(), true));
}

#[test]
fn a_live_get_confirms_that_a_topology_does_not_exist() {
    let (set, none) = (set("required", ""), Topologies::of(vec![], vec![]));
    let full = Topologies::of(vec![topology("grove-topology", &FULL)], vec![]);
    let confirmed = |topologies: &Topologies, observed: &Observed, has_scheduled_pods: bool| {
        expanded(&observe_with(topologies, observed, has_scheduled_pods)).topology_to_confirm()
    };
    let new = new(&set);
    assert_eq!(confirmed(&none, &new, false).as_deref(), Some("grove-topology"), "the gangs do not exist");
    assert_eq!(confirmed(&full, &new, false), None);
    let constrained = applied(&observe_with(&full, &new, false));
    assert_eq!(confirmed(&none, &constrained, false).as_deref(), Some("grove-topology"), "the gangs lose constraints");
    assert_eq!(confirmed(&none, &constrained, true), None, "gangs with scheduled pods retain theirs");
    let unconstrained = applied(&observe_with(&none, &constrained, false));
    assert_eq!(confirmed(&none, &unconstrained, false), None, "the gangs have none");

    let mut found = observe_with(&none, &new, false);
    found.topologies.found(&found.set, Topology::from(&topology("grove-topology", &FULL)), []);
    assert_eq!(summary(&applied(&found)), summary(&observe_with(&full, &constrained, false)));
}
