//! The scheduling gate of pods, and the `PodGroup` of the workload API that pods name.

use std::sync::Arc;

use expect_test::expect;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodCliqueStatus;
use grove_controller::plan::{Create, Step};
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use serde_json::json;

use super::{Observed, check, gang, plan, snapshot};
use crate::gangs::{GatingGangState, GatingGangs, cliques_of_gang};

#[test]
fn pods_stay_gated_until_the_base_gang_is_scheduled() {
    check(
        "{replicas: 2, base: {llm-0-a: 2, llm-0-b: 1}, gang: [], pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w, gatedByGrove: true}]}",
        &expect![[r"
            wait: BaseGangNotScheduled PodGang llm-0 must be scheduled first; a PodClique of it has too few scheduled pods
        "]],
    );
}

#[test]
fn a_scheduled_base_gang_removes_the_gate_and_foreign_gates_stay() {
    check(
        "{replicas: 2, base: {llm-0-a: 2, llm-0-b: 3}, gang: [x, w], pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w, ready: true}]}",
        &expect![[r#"
            gates: patch Pod ~-x [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
        "#]],
    );
}

#[test]
fn a_base_gang_requires_no_more_pods_of_a_clique_than_its_replicas() {
    let state = |replicas: Option<i32>| {
        let clique = |replicas| snapshot(&format!("{{replicas: {replicas}}}")).state.clique;
        let mut other = clique(1);
        other.metadata.name = Some("llm-0-prefill".to_owned());
        other.status = Some(PodCliqueStatus { scheduled_replicas: 1, ..PodCliqueStatus::default() });
        let cliques = Cache::from_objects(replicas.map(clique).into_iter().chain([other]));
        let gangs = Cache::from_objects([PodGang::clone(&gang(&json!([])))]);
        GatingGangs::default().state(&cliques, &gangs, "prod", "llm-0")
    };
    assert_eq!(state(None), GatingGangState::NotScheduled);
    assert_eq!(state(Some(5)), GatingGangState::NotScheduled);
    assert_eq!(state(Some(0)), GatingGangState::Scheduled, "the clique is scaled to zero");
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

#[test]
fn surplus_pods_stay_gated_until_the_core_pods_of_the_gang_are_scheduled() {
    const ROW: &str = "{replicas: 3, minAvailable: 2, own: {from: 2, scheduled: {llm-0-a: COUNT}}, gang: [v, w, x], annotations: {grove.io/pod-group: llm-0-1},
        pods: [{i: 0, name: x, gatedByGrove: true}, {i: 1, name: w}, {i: 2, name: v, gatedByGrove: true}]}";
    check(
        &ROW.replace("COUNT", "1"),
        &expect![[r#"
        gates: patch Pod ~-x [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
        wait: PodGangNotScheduled PodGang llm-0 must be scheduled first; a PodClique of it has too few scheduled pods
    "#]],
    );
    check(
        &ROW.replace("COUNT", "2"),
        &expect![[r#"
        gates: patch Pod ~-x [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
        gates: patch Pod ~-v [{"op":"test","path":"/spec/schedulingGates/1/name","value":"grove.io/podgang-pending-creation"},{"op":"remove","path":"/spec/schedulingGates/1"}]
    "#]],
    );
}

#[test]
fn new_pods_name_the_pod_group_and_only_surplus_pods_are_gated() {
    let pods = |row: &str| {
        let plan = plan(&snapshot(row));
        let pod = |step: &Step| {
            let Step::Create(Create { target: _, object }) = step else { return None };
            let value = object.value();
            Some(format!(
                "{} {} {} {}\n",
                value["metadata"]["labels"]["grove.io/podclique-pod-index"],
                value["spec"]["schedulingGroup"],
                value["spec"]["schedulingGates"],
                value["metadata"]["annotations"]
            ))
        };
        plan.steps().filter_map(pod).collect::<String>()
    };
    let row = "{replicas: 2, minAvailable: 1, annotations: {grove.io/pod-group: llm-0-1, own: x}, own: {from: 1, scheduled: {llm-0-a: COUNT}},
        podSpec: {containers: [], schedulingGroup: {podGroupName: of-user}}}";
    expect![[r#"
        "0" {"podGroupName":"llm-0-1"} null {"grove.io/pack-affinity":"","own":"x"}
        "1" {"podGroupName":"llm-0-1"} [{"name":"grove.io/podgang-pending-creation"}] {"grove.io/pack-affinity":"","own":"x"}
    "#]]
    .assert_eq(&pods(&row.replace("COUNT", "1")));
    expect![[r#"
        "0" {"podGroupName":"llm-0-1"} null {"grove.io/pack-affinity":"","own":"x"}
        "1" {"podGroupName":"llm-0-1"} null {"grove.io/pack-affinity":"","own":"x"}
    "#]]
    .assert_eq(&pods(&row.replace("COUNT", "2")));
    expect![[r#"
        "0" null null null
    "#]]
    .assert_eq(&pods("{podSpec: {containers: [], schedulingGroup: {podGroupName: of-user}}}"));
}

const RECORD: &str = r#"{"minCount":3}"#;

/// The gang names a `PodGroup`, with this record of its fields.
fn name_pod_group(gang: &mut PodGang, name: &str, record: &str) {
    let annotations = [("grove.io/pod-group", name), ("grove.io/pod-group-spec", record)];
    gang.annotations_mut().extend(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[test]
fn pods_of_an_earlier_incarnation_are_replaced_if_the_gang_confirms_the_next_one() {
    let mut observed = snapshot(
        "{replicas: 3, annotations: {grove.io/pod-group: llm-0-2}, gang: [v, w, x],
        pods: [{i: 0, name: x, group: llm-0-1}, {i: 1, name: w, group: llm-0-2}, {i: 2, name: v}]}",
    );
    assert!(plan(&observed).is_empty(), "only the clique names it");
    let gang = Arc::make_mut(observed.gang.object.as_mut().expect("a gang"));
    name_pod_group(gang, "llm-0-2", RECORD);
    expect![[r"
        pods: delete Pod llm-0-decode-x
        pods: create Pod llm-0-decode-5zsc5
    "]]
    .assert_eq(&plan(&observed).to_string());
}

/// The pods that were not bound when the successor began belong to it. The others stay.
#[test]
fn pending_pods_follow_to_a_successor_of_their_pod_group() {
    let mut observed = snapshot(
        "{replicas: 5, annotations: {grove.io/pod-group: llm-0-2.9}, gang: [u, v, w, x],
        pods: [{i: 0, name: x, group: llm-0-2, bound: true}, {i: 1, name: w, group: llm-0-2, version: '7'}, {i: 2, name: v, group: llm-0-2.8, version: '7'},
               {i: 3, name: u, group: llm-0-2.9}]}",
    );
    let names = |gang: &str, observed: &mut Observed| {
        let named = Arc::make_mut(observed.gang.object.as_mut().expect("a gang"));
        name_pod_group(named, gang, RECORD);
        plan(observed).to_string()
    };
    let deletes = |plan: &str| plan.lines().filter(|line| line.contains("delete")).count();
    assert_eq!(deletes(&names("llm-0-2.10", &mut observed)), 0, "the gang does not confirm it");
    expect![[r"
        pods: delete Pod llm-0-decode-w at version 7
        pods: delete Pod llm-0-decode-v at version 7
        pods: create Pod llm-0-decode-g9v78
    "]]
    .assert_eq(&names("llm-0-2.9", &mut observed));
    let label = |observed: &Observed| {
        let plan = plan(observed);
        let Some(Step::Create(Create { target: _, object })) =
            plan.steps().find(|step| matches!(step, Step::Create(_)))
        else {
            panic!("no pod: {plan}")
        };
        let pod = object.value();
        format!("{} {}", pod["metadata"]["labels"]["grove.io/podgang-incarnation"], pod["spec"]["schedulingGroup"])
    };
    assert_eq!(label(&observed), r#""2" {"podGroupName":"llm-0-2.9"}"#, "the affinity selects the bound pods, too");
}

#[test]
fn pods_that_the_record_does_not_count_wait_for_a_decision() {
    let plan = |record: &str, gang_names: &str| {
        let mut observed = snapshot(
            "{replicas: 4, minAvailable: 3, annotations: {grove.io/pod-group: llm-0-1}, gang: [x], pods: [{i: 0, name: x, group: llm-0-1, bound: true}]}",
        );
        let gang = Arc::make_mut(observed.gang.object.as_mut().expect("a gang"));
        name_pod_group(gang, gang_names, record);
        let plan = plan(&observed);
        let creates = plan.steps().filter(|step| step.verb() == "create").count();
        (creates, plan.waiting.iter().map(|waiting| waiting.reason).collect::<Vec<_>>())
    };
    let pending = vec!["PodGangPending"];
    assert_eq!(plan(r#"{"minCount":3}"#, "llm-0-1"), (3, vec![]));
    assert_eq!(plan(r#"{"minCount":3,"belowMinimum":{"llm-0-other":0}}"#, "llm-0-1"), (3, vec![]));
    assert_eq!(plan(r#"{"minCount":3,"belowMinimum":{"llm-0-decode":0}}"#, "llm-0-1"), (0, pending.clone()));
    assert_eq!(plan(r#"{"minCount":3,"belowMinimum":{"llm-0-decode":2}}"#, "llm-0-1"), (1, pending.clone()));
    assert_eq!(plan(r#"{"minCount":3,"belowMinimum":{"llm-0-decode":3}}"#, "llm-0-1"), (3, vec![]));
    assert_eq!(plan(r#"{"minCount":3}"#, "llm-0-1.5"), (0, pending), "the clique does not name the PodGroup yet");
    assert_eq!(plan(r#"{"minCount":3}"#, "llm-0-0"), (3, vec![]), "the gang is older than the clique");
    for unreadable in [r#"{"v":2,"minCount":3}"#, "["] {
        assert_eq!(plan(unreadable, "llm-0-1"), (0, vec!["UnreadableAnnotation"]), "{unreadable}");
    }
}

#[test]
fn pods_of_a_later_incarnation_stay() {
    let mut observed = snapshot(
        "{replicas: 1, annotations: {grove.io/pod-group: llm-0-9}, gang: [x], pods: [{i: 0, name: x, group: llm-0-10}]}",
    );
    let gang = Arc::make_mut(observed.gang.object.as_mut().expect("a gang"));
    gang.annotations_mut().insert("grove.io/pod-group".to_owned(), "llm-0-9".to_owned());
    assert!(plan(&observed).is_empty(), "the caches of the clique and of the gang are older than that of the pods");
}

#[test]
fn new_pods_beside_a_pod_without_a_pod_group_have_none_either() {
    let group = |pods: &str| {
        let plan =
            plan(&snapshot(&format!("{{replicas: 2, annotations: {{grove.io/pod-group: llm-0-1}}, pods: [{pods}]}}")));
        let Some(Step::Create(Create { target: _, object })) =
            plan.steps().find(|step| matches!(step, Step::Create(_)))
        else {
            panic!("no pod: {plan}")
        };
        object.value()["spec"]["schedulingGroup"].to_string()
    };
    assert_eq!(group("{i: 0, name: x, group: llm-0-1}"), r#"{"podGroupName":"llm-0-1"}"#);
    assert_eq!(group("{i: 0, name: x}"), "null", "the API server has dropped the field of the other pod");
}

#[test]
fn another_pod_group_of_the_gang_triggers_all_its_cliques() {
    let with = |pod_group: &str| {
        let mut gang = PodGang::clone(&gang(&json!([])));
        let (name, record) = pod_group.split_once(' ').unwrap_or((pod_group, "{}"));
        name_pod_group(&mut gang, name, record);
        Some(Arc::new(gang))
    };
    let triggered = |old: &str, new: &str| {
        let delta = Delta { old: with(old), new: with(new) };
        let triggers = cliques_of_gang(&delta);
        triggers.iter().filter(|trigger| matches!(trigger, Trigger::Reconcile(_))).count()
    };
    let groups = gang(&json!([])).spec.podgroups.len();
    assert_eq!(
        triggered("llm-0-1", "llm-0-2"),
        groups,
        "the annotation of a clique may have arrived before that of the gang"
    );
    assert_eq!(triggered("llm-0-1 {}", "llm-0-1 {1}"), groups, "pods may wait for the record");
    assert_eq!(triggered("llm-0-1", "llm-0-1"), 0);
}
