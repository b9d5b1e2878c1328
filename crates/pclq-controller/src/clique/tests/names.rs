//! The name of the next pod at an index.

use std::sync::Arc;

use expect_test::expect;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Plan, Step, Target};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::api_error::ApiError;
use grove_runtime::caches::Delta;

use super::{ProcessMemory, check, plan, snapshot};

/// The name of the only created pod, without the prefix of the clique.
fn next(row: &str) -> String {
    let plan = plan(&snapshot(row));
    let created: Vec<_> = plan.steps().filter(|step| step.verb() == "create").collect();
    assert_eq!(created.len(), 1, "{plan}");
    created[0].target().name.trim_start_matches("llm-0-decode-").to_owned()
}

#[test]
fn the_name_of_a_successor_depends_on_its_predecessor_and_not_on_its_state() {
    let failed = next("{gang: [], pods: [{i: 0, name: a, phase: Failed}]}");
    let terminating = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let deleted = next("{gang: [], tombstones: [{i: 0, name: a}]}");
    assert_eq!((&failed, &failed), (&terminating, &deleted));
    assert_ne!(failed, next("{gang: []}"));
}

#[test]
fn the_last_predecessor_determines_the_name_in_any_order_of_deletion() {
    let second = next("{gang: [], pods: [{i: 0, name: a, terminating: true}]}");
    let uid_of_second = format!("{{i: 0, name: {second}, terminating: true}}");
    let third = next(&format!("{{gang: [], pods: [{uid_of_second}]}}"));
    let a = "{i: 0, name: a, terminating: true}";
    assert_eq!(next(&format!("{{gang: [], pods: [{a}, {uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{a}], tombstones: [{uid_of_second}]}}")), third);
    assert_eq!(next(&format!("{{gang: [], pods: [{uid_of_second}], tombstones: [{a}]}}")), third);
}

#[test]
fn conflicting_names_are_skipped() {
    let first = next("{gang: []}");
    let second = next(&format!("{{gang: [], conflicting: [llm-0-decode-{first}]}}"));
    assert_ne!(first, second);
    assert_eq!(next(&format!("{{replicas: 2, gang: [], pods: [{{i: 1, name: {first}}}]}}")), second);
}

#[test]
fn an_unconfirmed_create_is_repeated_under_the_same_name() {
    let mut observed = snapshot("{gang: []}");
    observed.own_writes.created_names.insert(0, "llm-0-decode-pending".into());
    expect![[r"
        pods: create Pod llm-0-decode-pending
    "]]
    .assert_eq(&plan(&observed).to_string());
    observed.own_writes.conflicting_names.insert("llm-0-decode-pending".into());
    assert!(!plan(&observed).to_string().contains("pending"));
}

/// The result of the plan's creates: each pod gets the uid `uid-<n>`, or no response arrives.
fn results(plan: &Plan, has_response: bool) -> ExecutionResult {
    let creates = plan.steps().filter(|step| step.verb() == "create").enumerate();
    let step = |(at, step): (usize, &Step)| {
        let result = if has_response { Ok(()) } else { Err(ApiError::new(0, "Timeout", "no answer")) };
        let target = Target { uid: has_response.then(|| format!("uid-{at}")), ..step.target().clone() };
        StepResult::new("pods", "create", target, result)
    };
    ExecutionResult { steps: creates.map(step).collect() }
}

#[test]
fn a_confirmed_create_is_expected_in_the_cache_until_a_relist() {
    let (mut observed, memory) = (snapshot("{replicas: 2, gang: []}"), ProcessMemory::default());
    let first = plan(&observed);
    memory.record(&observed.clique, 1, &first, &results(&first, true));
    memory.observe(&mut observed, 1);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
    memory.observe(&mut observed, 2);
    assert_eq!(plan(&observed), first);
}

#[test]
fn a_create_without_a_response_is_repeated_under_its_name_until_the_cache_has_the_pod() {
    let (mut observed, memory) = (snapshot("{gang: []}"), ProcessMemory::default());
    let first = plan(&observed);
    memory.record(&observed.clique, 1, &first, &results(&first, false));
    // Without the repeated name, the next name would depend on this predecessor.
    observed.pods = snapshot("{pods: [{i: 0, name: late, terminating: true}]}").state.pods;
    memory.observe(&mut observed, 1);
    assert_eq!(plan(&observed), first);

    let name = first.steps().next().expect("a create").target().name.trim_start_matches("llm-0-decode-").to_owned();
    observed.pods.extend(snapshot(&format!("{{pods: [{{i: 0, name: {name}, phase: Failed}}]}}")).state.pods);
    memory.observe(&mut observed, 1);
    let next = plan(&observed);
    let created: Vec<_> = next.steps().filter(|step| step.verb() == "create").collect();
    assert!(created.len() == 1 && !created[0].target().name.ends_with(&name), "{next}");
}

#[test]
fn a_pending_create_survives_a_predecessor_of_its_name_in_a_stale_cache() {
    let (mut observed, memory) = (snapshot("{gang: []}"), ProcessMemory::default());
    let first = plan(&observed);
    memory.record(&observed.clique, 1, &first, &results(&first, true));
    let name = first.steps().next().expect("a create").target().name.trim_start_matches("llm-0-decode-").to_owned();
    observed.pods = snapshot(&format!("{{pods: [{{i: 0, name: {name}, terminating: true}}]}}")).state.pods;
    memory.observe(&mut observed, 1);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
}

#[test]
fn a_pod_that_was_created_and_deleted_between_two_reconciles_is_not_pending() {
    let (mut observed, memory) = (snapshot("{gang: []}"), ProcessMemory::default());
    let first = plan(&observed);
    memory.record(&observed.clique, 1, &first, &results(&first, true));
    let Some(Step::Create(create)) = first.steps().next() else { panic!("{first}") };
    let mut pod: SlimPod = serde_json::from_value(create.object.value()).expect("a pod");
    pod.metadata.uid = Some("uid-0".to_owned());
    let pod = Arc::new(pod);
    memory.creates.observe_delta(&Delta { old: None, new: Some(Arc::clone(&pod)) });
    memory.observe(&mut observed, 1);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
    memory.creates.observe_delta(&Delta { old: Some(pod), new: None });
    memory.observe(&mut observed, 1);
    assert_eq!(plan(&observed), first);
}

#[test]
fn each_index_has_its_own_names() {
    check(
        "{replicas: 4, gang: []}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        pods: create Pod ~-vk7tm
        pods: create Pod ~-6vmjz
        pods: create Pod ~-fw7hg
    "]],
    );
}
