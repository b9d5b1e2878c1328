//! The scheduling gate of pods of a scaled gang.

use expect_test::expect;
use grove_controller::plan::{Create, Step};

use super::{check, plan, snapshot};

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
}
