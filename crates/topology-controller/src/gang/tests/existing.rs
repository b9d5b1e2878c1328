//! Rows with an existing `PodGroup`: which fields are restored, and which belong to the scheduler.

use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{PatchBody, Step};
use grove_controller::status_limiter::StatusChange;

use super::*;
use crate::pod_groups::{ApiType, Kai, PodGroup, Volcano};

const KAI: &str =
    "{scheduler: kai-scheduler, cliques: {a: {min: 2}}, gang: {metadata: {labels: {kai.scheduler/queue: q}}}}";
const VOLCANO: &str = "{scheduler: volcano, cliques: {a: {min: 2}}}";

/// The gang of the row with the `PodGroup` that was created for it, changed by `change`.
pub(super) fn with_pod_group<A: ApiType>(row: &str, change: &Value) -> Observed {
    let mut observed = observed(row);
    let mut live = created(&plan::plan(&observed)).expect("a create");
    live["metadata"]["uid"] = json!("group");
    live["metadata"]["resourceVersion"] = json!("7");
    json_patch::merge(&mut live, change);
    let live: PodGroup<A> = serde_json::from_value(live).expect("a PodGroup");
    observed.children.extend([Arc::new(live)]);
    observed
}

/// The patch of a live `PodGroup` that differs from the created one by `change`, without its precondition.
pub(super) fn patch<A: ApiType>(row: &str, change: &Value) -> Option<Value> {
    let observed = with_pod_group::<A>(row, change);
    let plan = plan::plan(&observed);
    let mut steps = plan.steps();
    let patch = steps.next().map(|step| match step {
        Step::Patch(patch) => match &patch.change {
            PatchBody::Merge(patch) => without_precondition(patch.value()),
            PatchBody::Json(patch) => panic!("{patch}"),
        },
        Step::Create(_) | Step::Delete(_) | Step::Adopt(_) => panic!("{plan}"),
    });
    assert!(steps.next().is_none(), "{plan}");
    patch
}

/// The patch fails if the object has changed, so it never reaches an object of another owner.
fn without_precondition(mut patch: Value) -> Value {
    let metadata = patch["metadata"].as_object_mut().expect("metadata");
    assert_eq!(metadata.remove("resourceVersion"), Some(json!("7")));
    if metadata.is_empty() {
        patch.as_object_mut().expect("a patch").remove("metadata");
    }
    patch
}

#[test]
fn fields_of_the_scheduler_stay() {
    for change in [
        json!({}),
        json!({ "spec": { "markUnschedulable": true, "schedulingBackoff": 1, "queue": "other" } }),
        json!({ "metadata": { "labels": { "kai.scheduler/queue": "other", "kai.scheduler/node-pool": "a" } } }),
        json!({ "metadata": { "annotations": { "other": "x" } }, "status": { "phase": "Running" } }),
    ] {
        assert_eq!(patch::<Kai>(KAI, &change), None, "{change}");
    }
    assert_eq!(patch::<Volcano>(VOLCANO, &json!({ "spec": { "minResources": { "cpu": 1 } } })), None);
}

#[test]
fn a_gang_without_minimums_keeps_those_of_its_pod_group() {
    let row = "{scheduler: volcano, cliques: {a: {min: 0}}}";
    assert_eq!(
        patch::<Volcano>(row, &json!({ "spec": { "minMember": 3, "subGroupPolicy": [{ "name": "a" }] } })),
        None
    );
    let removed = json!({ "spec": { "minMember": null } });
    assert_eq!(patch::<Volcano>(row, &removed), Some(json!({ "spec": { "minMember": 1 } })));
}

#[test]
fn edited_fields_are_restored() {
    let group = json!([{ "name": "a", "minMember": 2 }]);
    for (change, restored) in [
        (json!({ "spec": { "minMember": 9 } }), json!({ "spec": { "minMember": 2 } })),
        (json!({ "spec": { "queue": null } }), json!({ "spec": { "queue": "q" } })),
        (json!({ "spec": { "subGroups": [] } }), json!({ "spec": { "subGroups": group } })),
        (json!({ "spec": { "priorityClassName": "high" } }), json!({ "spec": { "priorityClassName": null } })),
        (
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }),
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "grove-operator" } } }),
        ),
    ] {
        assert_eq!(patch::<Kai>(KAI, &change), Some(restored), "{change}");
    }
    let named = "{scheduler: volcano, cliques: {a: {min: 2}}, gang: {metadata: {annotations: {scheduling.grove.io/volcano-queue: q}}}}";
    let other_queue = json!({ "spec": { "queue": "other" } });
    assert_eq!(patch::<Volcano>(named, &other_queue), Some(json!({ "spec": { "queue": "q" } })));
    assert_eq!(
        patch::<Volcano>(VOLCANO, &other_queue),
        None,
        "Volcano may replace the default queue by that of the namespace"
    );
}

#[test]
fn a_pod_group_with_an_unknown_spec_stays_and_a_condition_reports_it() {
    let mut observed = with_pod_group::<Kai>(KAI, &json!({ "spec": { "minMember": 9 } }));
    observed.gang.labels_mut().remove("kai.scheduler/queue");
    let plan = plan::plan(&observed);
    assert!(plan.is_empty(), "{plan}");
    check_conditions(
        &observed,
        &expect![[r"
            GangScheduling=False QueueMissing: the gang has no label or annotation kai.scheduler/queue; the set or its cliques must name one queue
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
}

#[test]
fn a_terminating_pod_group_is_a_condition() {
    let terminating = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check_conditions(
        &with_pod_group::<Volcano>(VOLCANO, &terminating),
        &expect![[r"
            GangScheduling=False NameTerminating: PodGroup llm-0 is being deleted; its successor is created then
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
}

#[test]
fn a_terminating_gang_deletes_its_pod_group_unless_its_deletion_orphans_it() {
    let mut observed = with_pod_group::<Volcano>(VOLCANO, &json!({}));
    observed.gang.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    let deletes = |observed: &Observed| {
        let plan = plan::plan(observed);
        plan.steps()
            .filter(|step| matches!(step, Step::Delete(_)))
            .map(|step| step.target().name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(deletes(&observed), ["llm-0"]);
    observed.orphans_children = true;
    assert_eq!(deletes(&observed), [] as [&str; 0]);
}

#[test]
fn another_message_of_the_scheduler_is_progress_and_another_cause_is_significant() {
    let mut observed = observed(VOLCANO);
    let change = |observed: &Observed| {
        let plan = plan::plan(observed);
        let status = status::status(observed, &plan, &ExecutionResult::default(), at(1));
        (status::status_change(observed, &status), status)
    };
    let (first, status) = change(&observed);
    assert_eq!(first, StatusChange::Starting, "the first status of a gang");
    observed.gang.status = Some(status);
    observed.gang.metadata.generation = Some(9);
    assert_eq!(
        change(&observed).1.conditions,
        observed.gang.status.as_ref().expect("a status").conditions,
        "only the generation differs"
    );
    observed.availability = Some(Availability::NotServed);
    let (failure, status) = change(&observed);
    assert_eq!(failure, StatusChange::Significant);
    observed.gang.status = Some(status);
    observed.availability = Some(Availability::Served);
    assert_eq!(change(&observed).0, StatusChange::Significant, "the cause has ended");
}

#[test]
fn the_loss_of_scheduled_pods_is_significant_except_while_an_update_replaces_them() {
    let row = "{scheduler: volcano, cliques: {a: {scheduled: SCHEDULED, update: UPDATE}}}";
    let of = |scheduled: &str, update: &str| observed(&row.replace("SCHEDULED", scheduled).replace("UPDATE", update));
    let status_of =
        |observed: &Observed| status::status(observed, &plan::plan(observed), &ExecutionResult::default(), at(1));
    for (update, expected) in [
        ("null", StatusChange::Significant),
        ("{updateEndedAt: '1970-01-01T00:00:00Z'}", StatusChange::Significant),
        ("{}", StatusChange::Starting),
    ] {
        let mut lost = of("0", update);
        lost.gang.status = Some(status_of(&of("1", update)));
        assert_eq!(status::status_change(&lost, &status_of(&lost)), expected, "{update}");
    }
}

#[test]
fn a_foreign_object_is_not_modified_and_causes_one_warning() {
    let mut observed = observed(VOLCANO);
    let foreign = json!({ "metadata": { "name": "llm-0", "namespace": "prod", "uid": "foreign" } });
    let foreign: PodGroup<Volcano> = serde_json::from_value(foreign).expect("a PodGroup");
    observed.name_conflicts = vec![NameConflict::with(&foreign)];
    let planned = plan::plan(&observed);
    expect![[r"
        wait: NameConflict PodGroup llm-0 exists and PodGang llm-0 does not control it; rename or delete it to free the name
        warn: PodGroupCreateOrUpdateFailed PodGroup llm-0 exists and PodGang llm-0 does not control it; rename or delete it to free the name
        requeue: after 10s
    "]]
    .assert_eq(&planned.to_string());
    observed.gang.status = Some(status::status(&observed, &planned, &ExecutionResult::default(), at(1)));
    assert_eq!(plan::plan(&observed).warnings, [], "the condition reports the conflict");
}

#[test]
fn the_condition_quotes_the_scheduler() {
    for (row, status, expected) in [
        (KAI, json!({ "schedulingConditions": [{ "message": "no GPUs" }] }), "kai-scheduler reports: no GPUs"),
        (
            KAI,
            json!({ "schedulingConditions": [{ "message": "", "reasons": [{ "message": "over quota" }] }] }),
            "kai-scheduler reports: over quota",
        ),
        (VOLCANO, json!({ "conditions": [{ "message": "3/4 tasks" }] }), "volcano reports: 3/4 tasks"),
        (
            VOLCANO,
            json!({ "conditions": [
                { "type": "Unschedulable", "message": "3/4 tasks", "lastTransitionTime": "2026-01-01T00:00:02Z" },
                { "type": "Scheduled", "message": "old", "lastTransitionTime": "2026-01-01T00:00:01Z" }] }),
            "volcano reports: 3/4 tasks",
        ),
        (
            VOLCANO,
            json!({ "conditions": [{ "type": "Scheduled", "message": "" }] }),
            "volcano schedules the PodGroup of the gang",
        ),
        (VOLCANO, json!({}), "volcano schedules the PodGroup of the gang"),
    ] {
        let change = json!({ "status": status });
        let observed =
            if row == KAI { with_pod_group::<Kai>(row, &change) } else { with_pod_group::<Volcano>(row, &change) };
        let plan = plan::plan(&observed);
        let status = status::status(&observed, &plan, &ExecutionResult::default(), at(1));
        let condition = status.conditions.iter().find(|condition| condition.type_ == "GangScheduling");
        assert_eq!(condition.map(|condition| &*condition.message), Some(expected));
    }
}
