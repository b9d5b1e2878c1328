//! The scheduling gate of pods of a scaled gang.

use expect_test::expect;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::{Create, Step};
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::Cache;
use serde_json::json;

use super::{check, gang, plan, snapshot};
use crate::clique::observe::base_gang;
use crate::informers::PclqCaches;
use crate::tombstones::Tombstones;

#[test]
fn pods_stay_gated_until_the_base_gang_is_scheduled() {
    check(
        "{replicas: 2, base: {llm-0-a: 2, llm-0-b: 1}, gang: [], pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w, gatedByGrove: true}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-w","namespace":"prod"},{"name":"~-x","namespace":"prod"}]}]
            wait: BaseGangNotScheduled PodGang llm-0 must be scheduled first: llm-0-b has 1 of 2 pods scheduled
        "#]],
    );
}

#[test]
fn a_scheduled_base_gang_removes_the_gate_and_foreign_gates_stay() {
    check(
        "{replicas: 2, base: {llm-0-a: 2, llm-0-b: 3}, gang: [x, w], pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w, ready: true}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-w","namespace":"prod"},{"name":"~-x","namespace":"prod"}]}]
            gates: patch Pod ~-x [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
        "#]],
    );
}

#[test]
fn a_base_gang_requires_no_more_pods_of_a_clique_than_its_replicas() {
    let required = |replicas: Option<i32>| {
        let clique = |replicas| snapshot(&format!("{{replicas: {replicas}}}")).clique;
        let cliques = Cache::from_objects(replicas.map(clique));
        let gangs = Cache::from_objects([PodGang::clone(&gang(&json!([])))]);
        let tombstones = Tombstones::new(&cliques);
        let orphan_deletions = OrphanDeletions::default();
        let terminating_namespaces = TerminatingNamespaces::new(Cache::from_objects([]));
        let caches = PclqCaches {
            cliques,
            pods: Cache::from_objects([]),
            gangs,
            tombstones,
            orphan_deletions,
            terminating_namespaces,
        };
        let groups = base_gang(&caches, "prod", "llm-0").groups.expect("groups");
        groups.iter().map(|group| group.required).collect::<Vec<_>>()
    };
    assert_eq!(required(None), [1, 1]);
    assert_eq!(required(Some(5)), [1, 1]);
    assert_eq!(required(Some(0)), [1, 0], "the clique is scaled to zero");
}

#[test]
fn a_base_gang_that_requires_no_pods_gates_nothing() {
    let mut observed = snapshot("{base: {llm-0-a: 2, llm-0-b: 0}}");
    assert!(observed.gating_reason().is_some());
    let groups = observed.base_gang.as_mut().and_then(|gang| gang.groups.as_mut()).expect("groups");
    groups.iter_mut().filter(|group| group.scheduled == 0).for_each(|group| group.required = 0);
    assert_eq!(observed.gating_reason(), None);
}

#[test]
fn a_missing_base_gang_is_not_scheduled() {
    check(
        "{base: null, gang: [x], pods: [{i: 0, name: x, gatedByGrove: true}]}",
        &expect![[r"
        wait: BaseGangNotScheduled PodGang llm-0 must be scheduled first and does not exist
    "]],
    );
}

#[test]
fn pods_of_a_base_gang_are_not_gated() {
    check(
        "{gang: [x], pods: [{i: 0, name: x, gatedByGrove: true}]}",
        &expect![[r#"
        gates: patch Pod ~-x [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
    "#]],
    );
}

#[test]
fn a_new_pod_is_gated_only_until_the_base_gang_is_scheduled() {
    let gates = |row: &str| {
        let observed = snapshot(row);
        let plan = plan(&observed);
        let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod") };
        object.value()["spec"]["schedulingGates"].to_string()
    };
    expect![[r#"[{"name":"own.io/gate"},{"name":"grove.io/podgang-pending-creation"}]"#]]
        .assert_eq(&gates("{base: {llm-0-a: 1}, podSpec: {schedulingGates: [{name: own.io/gate}], containers: []}}"));
    expect![[r#"[{"name":"own.io/gate"}]"#]]
        .assert_eq(&gates("{base: {llm-0-a: 2}, podSpec: {schedulingGates: [{name: own.io/gate}], containers: []}}"));
    expect!["null"].assert_eq(&gates("{base: {llm-0-a: 2}}"));
    expect![[r#"[{"name":"grove.io/podgang-pending-creation"}]"#]].assert_eq(&gates(
        "{base: {llm-0-a: 1}, podSpec: {schedulingGates: [{name: grove.io/podgang-pending-creation}], containers: []}}",
    ));
    expect![[r#"[{"name":"grove.io/podgang-pending-creation"}]"#]]
        .assert_eq(&gates("{base: {llm-0-a: 1}, podSpec: {schedulingGates: null, containers: []}}"));
}
