//! The scheduling gate of pods of a scaled gang.

use expect_test::expect;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodCliqueStatus;
use grove_controller::plan::{Create, Step};
use grove_runtime::caches::Cache;
use serde_json::json;

use super::{check, gang, plan, snapshot};
use crate::base_gangs::{BaseGangState, BaseGangs};

#[test]
fn pods_stay_gated_until_the_base_gang_is_scheduled() {
    check(
        "{replicas: 2, base: {llm-0-a: 2, llm-0-b: 1}, gang: [], pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w, gatedByGrove: true}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-w","namespace":"prod"},{"name":"~-x","namespace":"prod"}]}]
            wait: BaseGangNotScheduled PodGang llm-0 must be scheduled first; a PodClique of it has too few scheduled pods
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
    let state = |replicas: Option<i32>| {
        let clique = |replicas| snapshot(&format!("{{replicas: {replicas}}}")).clique;
        let mut other = clique(1);
        other.metadata.name = Some("llm-0-prefill".to_owned());
        other.status = Some(PodCliqueStatus { scheduled_replicas: 1, ..PodCliqueStatus::default() });
        let cliques = Cache::from_objects(replicas.map(clique).into_iter().chain([other]));
        let gangs = Cache::from_objects([PodGang::clone(&gang(&json!([])))]);
        BaseGangs::default().state(&cliques, &gangs, "prod", "llm-0")
    };
    assert_eq!(state(None), BaseGangState::NotScheduled);
    assert_eq!(state(Some(5)), BaseGangState::NotScheduled);
    assert_eq!(state(Some(0)), BaseGangState::Scheduled, "the clique is scaled to zero");
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
