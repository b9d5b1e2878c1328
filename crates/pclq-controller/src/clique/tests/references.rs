//! Why a clique waits for its gang, and which cliques a gang triggers.

use expect_test::expect;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::Delta;
use serde_json::json;

use super::{NAME, check, gang, plan, snapshot};
use crate::gangs::{changed_pod_groups, cliques_of_gang};

#[test]
fn pods_without_references_are_reported_if_the_gang_has_too_many_pods() {
    let plan_of = |stored: &str, max_references: Option<usize>| {
        let pods = "[{i: 0, name: a}, {i: 1, name: b}, {i: 2, name: c}]";
        let mut observed = snapshot(&format!("{{replicas: 3, gang: {stored}, pods: {pods}}}"));
        observed.gang.max_references = max_references;
        plan(&observed).to_string()
    };
    expect!["nothing to do\n"].assert_eq(&plan_of("[a, b, c]", Some(7998)));
    expect!["nothing to do\n"].assert_eq(&plan_of("[a]", None));
    expect![[r"
        wait: TooManyPodReferences PodGang llm-0 can have at most 7998 pod references; 2 pods of the clique have no reference
    "]]
    .assert_eq(&plan_of("[a]", Some(7998)));
}

#[test]
fn pods_are_created_without_waiting_for_the_gang() {
    check(
        "{replicas: 1}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
    check(
        "{replicas: 1, pods: [{i: 0, name: a}]}",
        &expect![[r"
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
}

#[test]
fn a_gang_without_the_pod_group_is_waited_for() {
    let mut observed = snapshot("{replicas: 1, gang: [], pods: [{i: 0, name: a}]}");
    let mut gang = (**observed.gang.object.as_ref().unwrap()).clone();
    gang.spec.podgroups.pop();
    observed.gang.object = Some(gang.into());
    expect![[r"
        wait: PodGroupNotFound PodGang llm-0 has no podgroup llm-0-decode
    "]]
    .assert_eq(&plan(&observed).to_string());
}

#[test]
fn a_gang_triggers_the_cliques_of_its_changed_pod_groups() {
    let change = |before: Option<&str>, after: Option<&str>| {
        let gang = |listed: &str| gang(&serde_saphyr::from_str(listed).unwrap());
        let delta = Delta { old: before.map(gang), new: after.map(gang) };
        changed_pod_groups(&delta).into_iter().collect::<Vec<_>>().join(" ")
    };
    let both = change(None, Some("[]"));
    assert!(both.contains("llm-0-decode") && both.contains("llm-0-prefill"), "{both}");
    assert_eq!(change(Some("[]"), None), both);
    assert_eq!(change(Some("[a]"), Some("[a]")), "");
    let one = change(Some("[a]"), Some("[b]"));
    assert!(one.contains("llm-0-decode") && !one.contains("prefill"), "{one}");
}

#[test]
fn a_replaced_pod_group_triggers_both_cliques() {
    let replaced = |at: usize| {
        let mut replaced = PodGang::clone(&gang(&json!([])));
        replaced.spec.podgroups[at].name = "llm-0-new".to_owned();
        let delta = Delta { old: Some(gang(&json!([]))), new: Some(replaced.into()) };
        changed_pod_groups(&delta).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(replaced(0), ["llm-0-new", "llm-0-prefill"]);
    assert_eq!(replaced(1), [NAME, "llm-0-new"]);
}

/// The names of the triggered cliques, with `!` if they need a reconcile.
fn triggered_by_gang(old: &PodGang, new: &PodGang) -> String {
    let delta = Delta { old: Some(old.clone().into()), new: Some(new.clone().into()) };
    let triggers = cliques_of_gang(&delta).into_iter().map(|trigger| match trigger {
        Trigger::Reconcile(clique) | Trigger::Retry(clique) => format!("{}!", clique.name),
        Trigger::LowPriority(clique) => clique.name,
    });
    triggers.collect::<Vec<_>>().join(" ")
}

#[test]
fn only_a_new_gang_requires_a_reconcile_of_its_cliques() {
    let (old, mut other_minimum) = (gang(&json!([])), PodGang::clone(&gang(&json!([]))));
    assert_eq!(triggered_by_gang(&old, &gang(&json!(["a"]))), NAME);
    other_minimum.spec.podgroups[1].min_replicas = 2;
    assert_eq!(triggered_by_gang(&old, &other_minimum), NAME);
    let mut recreated = PodGang::clone(&old);
    recreated.metadata.uid = Some("other".to_owned());
    assert_eq!(triggered_by_gang(&old, &recreated), format!("{NAME}! llm-0-prefill!"));
}
