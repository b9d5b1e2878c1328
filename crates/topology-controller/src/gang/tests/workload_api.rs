//! Rows of the default scheduler: a gang has a `PodGroup` of the workload API if its annotations name one.

use grove_api_types::labels::{POD_GROUP, POD_GROUP_SPEC, SCHEDULER_NAME};
use grove_api_types::names::PodGangName;
use grove_controller::name_conflict::NameConflict;
use grove_controller::status_limiter::StatusChange;

use super::existing::{patch, with_pod_group};
use super::*;
use crate::gang::observed::BaseGang;
use crate::pod_groups::{PodGroup, WorkloadApi};

/// A gang of two cliques with a `PodGroup`.
const ROW: &str = r#"{scheduler: default-scheduler, cliques: {a: {min: 2}, b: {}}, gang: {metadata: {annotations: {
    grove.io/pod-group: llm-0-1, grove.io/pod-group-spec: '{"minCount":3}'}}}}"#;
const SCHEDULED: &str = "True DefaultScheduler: default-scheduler schedules the PodGroup of the gang";

fn annotate(observed: &mut Observed, key: &str, value: &str) {
    observed.gang.annotations_mut().insert(key.to_owned(), value.to_owned());
}

/// The gang of the row with a base gang.
fn scaled(mut observed: Observed, is_scheduled: bool) -> Observed {
    observed.base_gang = Some(BaseGang { name: PodGangName::new("llm-0"), is_scheduled });
    observed
}

/// The names of the created and of the deleted objects.
fn writes(observed: &Observed) -> (Vec<String>, Vec<String>) {
    let plan = plan::plan(observed);
    let (mut created, mut deleted) = (vec![], vec![]);
    for step in plan.steps() {
        match step {
            Step::Create(create) => created.push(create.target.name.clone()),
            Step::Delete(delete) => deleted.push(delete.target.name.clone()),
            Step::Patch(_) | Step::Adopt(_) => panic!("{plan}"),
        }
    }
    (created, deleted)
}

/// The status, the reason and the message of the condition `GangScheduling`.
fn gang_scheduling(observed: &Observed) -> String {
    let plan = plan::plan(observed);
    let status = status::status(observed, &plan, &ExecutionResult::default(), at(1));
    let condition = status.conditions.iter().find(|condition| condition.type_ == "GangScheduling");
    let condition = condition.expect("a condition");
    format!("{} {}: {}", condition.status, condition.reason, condition.message)
}

#[test]
fn the_spec_is_that_of_the_record() {
    let policy = |min_count: i32| json!({ "gang": { "minCount": min_count } });
    let mut observed = observed(ROW);
    observed.gang.spec.priority_class_name = Some("low".to_owned());
    for (record, expected) in [
        (r#"{"minCount":3}"#, json!({ "schedulingPolicy": policy(3), "disruptionMode": "PodGroup" })),
        (
            r#"{"minCount":7,"priorityClassName":"high"}"#,
            json!({ "schedulingPolicy": policy(7), "disruptionMode": "PodGroup", "priorityClassName": "high" }),
        ),
        (r#"{"minCount":0}"#, json!({ "schedulingPolicy": policy(1), "disruptionMode": "PodGroup" })),
        (r#"{"v":1,"minCount":4}"#, json!({ "schedulingPolicy": policy(4), "disruptionMode": "PodGroup" })),
    ] {
        annotate(&mut observed, POD_GROUP_SPEC, record);
        let object = created(&plan::plan(&observed)).expect("a create");
        assert_eq!(object["spec"], expected, "{record}");
    }
}

#[test]
fn the_annotation_of_the_gang_is_the_name() {
    let object = created(&plan::plan(&observed(ROW))).expect("a create");
    assert_eq!(object["apiVersion"], "scheduling.k8s.io/v1alpha2");
    let owner = json!({ "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "llm-0", "uid": "gang",
        "controller": true, "blockOwnerDeletion": true });
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm" });
    let expected = json!({ "name": "llm-0-1", "namespace": "prod", "labels": labels, "ownerReferences": [owner] });
    assert_eq!(object["metadata"], expected, "without the annotations of the gang");
}

#[test]
fn a_gang_without_the_annotation_has_no_pod_group_and_a_condition_names_the_cause() {
    let unavailable = "podgroups.scheduling.k8s.io";
    for (availability, cause) in [
        (
            "Served",
            "the gang was created without a PodGroup, which a restart of the gang (the deletion of all its cliques) changes, \
             or the pods of its set name a schedulingGroup"
                .to_owned(),
        ),
        (
            "NotServed",
            format!(
                "the API server does not serve {unavailable}; enable the API scheduling.k8s.io/v1alpha2 or v1beta1 and the feature gate \
                 GenericWorkload"
            ),
        ),
        (
            "Forbidden",
            format!(
                "topology-controller must not read {unavailable}; add the component deploy/components/default-scheduler"
            ),
        ),
        ("Forbidden, nativeGangs: 'off'", "nativeGangs is off".to_owned()),
    ] {
        let row = format!("{{scheduler: default-scheduler, availability: {availability}, cliques: {{a: {{}}}}}}");
        let observed = observed(&row);
        assert_eq!(text(&plan::plan(&observed)), "nothing to do\n", "{availability}");
        let message = format!("default-scheduler schedules each pod of the gang on its own: {cause}");
        assert_eq!(gang_scheduling(&observed), format!("False PodsScheduledIndividually: {message}"));
    }
}

#[test]
fn a_gang_with_the_annotation_needs_the_workload_api() {
    for (availability, condition) in
        [(Availability::NotServed, "False PodGroupsNotServed"), (Availability::Forbidden, "False PodGroupsForbidden")]
    {
        let observed = Observed { availability: Some(availability), ..observed(ROW) };
        assert!(plan::plan(&observed).is_empty(), "{availability:?}");
        let actual = gang_scheduling(&observed);
        assert_eq!(actual.split_once(':').map(|(begin, _)| begin), Some(condition));
    }
}

#[test]
fn a_gang_with_the_annotation_gets_its_pod_group_also_if_native_gangs_are_off() {
    let observed = Observed { native_gangs: NativeGangs::Off, ..observed(ROW) };
    assert!(created(&plan::plan(&observed)).is_some(), "its pods wait for it");
}

#[test]
fn labels_are_restored_and_the_spec_is_never_patched() {
    for change in [
        json!({}),
        json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 9 } }, "disruptionMode": "Pod" } }),
        json!({ "spec": { "disruptionMode": null, "priorityClassName": "default", "priority": 5 } }),
        json!({ "metadata": { "annotations": { "other": "x" }, "labels": { "other": "x" } } }),
    ] {
        assert_eq!(patch::<WorkloadApi>(ROW, &change), None, "{change}");
    }
    let label = "app.kubernetes.io/part-of";
    let edited = json!({ "metadata": { "labels": { label: "other" } }, "spec": { "disruptionMode": null } });
    let restored = json!({ "metadata": { "labels": { label: "llm" } } });
    assert_eq!(patch::<WorkloadApi>(ROW, &edited), Some(restored));
}

#[test]
fn a_scaled_gang_gets_its_pod_group_once_its_base_gang_is_scheduled() {
    let mut waiting = scaled(observed(ROW), false);
    expect![[r"
        wait: BaseGangNotScheduled the PodGroup of the gang is created once its base gang llm-0 is scheduled
    "]]
    .assert_eq(&plan::plan(&waiting).to_string());
    let message = "the PodGroup of the gang is created once its base gang llm-0 is scheduled";
    assert_eq!(gang_scheduling(&waiting), format!("False BaseGangNotScheduled: {message}"));

    let planned = plan::plan(&waiting);
    waiting.gang.status = Some(status::status(&waiting, &planned, &ExecutionResult::default(), at(1)));
    let released = scaled(waiting, true);
    assert_eq!(writes(&released), (vec!["llm-0-1".to_owned()], vec![]));
    let planned = plan::plan(&released);
    let status = status::status(&released, &planned, &ExecutionResult::default(), at(2));
    assert_eq!(status::status_change(&released, &status), StatusChange::Starting, "the wait is no failure");
}

#[test]
fn an_existing_pod_group_stays_if_the_base_gang_is_no_longer_scheduled() {
    let observed = scaled(with_pod_group::<WorkloadApi>(ROW, &json!({})), false);
    assert_eq!(plan::plan(&observed).to_string(), "nothing to do\n");
    assert_eq!(gang_scheduling(&observed), SCHEDULED);
}

#[test]
fn a_pod_group_without_owner_is_adopted_before_the_base_gang_is_scheduled() {
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm" });
    let orphan = json!({ "metadata": { "name": "llm-0-1", "namespace": "prod", "uid": "orphan", "labels": labels } });
    let orphan: PodGroup<WorkloadApi> = serde_json::from_value(orphan).expect("a PodGroup");
    let mut observed = scaled(observed(ROW), false);
    observed.name_conflicts = vec![NameConflict::with(&orphan)];
    assert_eq!(plan::plan(&observed).to_string(), "pod-groups: adopt PodGroup llm-0-1\n");
}

#[test]
fn the_next_incarnation_replaces_the_pod_group_of_the_last_one() {
    let mut observed = with_pod_group::<WorkloadApi>(ROW, &json!({}));
    annotate(&mut observed, POD_GROUP, "llm-0-2");
    assert_eq!(writes(&observed), (vec!["llm-0-2".to_owned()], vec!["llm-0-1".to_owned()]));
    let waiting = scaled(observed.clone(), false);
    assert_eq!(writes(&waiting), (vec![], vec!["llm-0-1".to_owned()]), "the scaled gang waits again");
    observed.gang.annotations_mut().remove(POD_GROUP);
    assert_eq!(writes(&observed), (vec![], vec!["llm-0-1".to_owned()]));
}

#[test]
fn without_readable_annotations_the_pod_groups_of_a_gang_stay_as_they_are() {
    let existing = || {
        let mut observed = with_pod_group::<WorkloadApi>(
            ROW,
            &json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "other" } } }),
        );
        observed.cliques.insert("a".to_owned(), clique("a", &json!({ "min": 2, "scheduled": 2 })));
        observed
    };
    for (key, value, cause) in [
        (POD_GROUP_SPEC, r#"{"v":2,"minCount":3}"#, "annotation grove.io/pod-group-spec has version 2"),
        (POD_GROUP_SPEC, "[", "annotation grove.io/pod-group-spec cannot be decoded"),
        (POD_GROUP, "llm-0-v2-1", "annotation grove.io/pod-group cannot be decoded"),
    ] {
        for mut observed in [observed(ROW), existing(), scaled(observed(ROW), true)] {
            annotate(&mut observed, key, value);
            let plan = plan::plan(&observed);
            assert_eq!(plan.steps().count(), 0, "{plan}");
            let condition = gang_scheduling(&observed);
            let expected = format!("False UnreadableAnnotation: the PodGroup of the gang stays as it is: {cause}");
            assert!(condition.starts_with(&expected), "{condition}");
            let [warning] = &plan.warnings[..] else { panic!("{plan}") };
            assert_eq!(format!("False {}: {}", warning.reason, warning.note), condition);
            let status = status::status(&observed, &plan, &ExecutionResult::default(), at(1));
            assert_eq!(status::status_change(&observed, &status), StatusChange::Significant);
            observed.gang.status = Some(status);
            assert_eq!(plan::plan(&observed).warnings, [], "the condition reports it");
        }
    }
    let mut without_record = existing();
    without_record.gang.annotations_mut().remove(POD_GROUP_SPEC);
    assert!(gang_scheduling(&without_record).contains("annotation grove.io/pod-group-spec is missing"));
    let mut of_kai = observed(&ROW.replace("default-scheduler", "kai-scheduler"));
    annotate(&mut of_kai, POD_GROUP_SPEC, "[");
    assert!(!gang_scheduling(&of_kai).contains("UnreadableAnnotation"), "KAI does not need the annotation");
}

#[test]
fn the_pod_groups_of_a_gang_with_an_unknown_scheduler_stay_as_they_are() {
    let edited = json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "other" } } });
    for default in ["default-scheduler", "kai-scheduler", "lpx-scheduler"] {
        let row = ROW.replace("default-scheduler", default);
        for mut observed in [observed(&row), with_pod_group::<WorkloadApi>(ROW, &edited), scaled(observed(&row), true)]
        {
            observed.gang.labels_mut().insert(SCHEDULER_NAME.to_owned(), "next-scheduler".to_owned());
            let plan = plan::plan(&observed);
            assert_eq!(plan.steps().count(), 0, "{plan}");
            let condition = gang_scheduling(&observed);
            assert_eq!(
                condition,
                "False SchedulerUnknown: the PodGroup of the gang stays as it is: label grove.io/scheduler-name names \
                 \"next-scheduler\", which scheduler.profiles in the configuration of topology-controller does not have; add it, or \
                 upgrade topology-controller"
            );
            let [warning] = &plan.warnings[..] else { panic!("{plan}") };
            assert_eq!(format!("False {}: {}", warning.reason, warning.note), condition);
            observed.gang.status = Some(status::status(&observed, &plan, &ExecutionResult::default(), at(1)));
            assert_eq!(plan::plan(&observed).warnings, [], "the condition reports it");
        }
    }
}

#[test]
fn a_terminating_pod_group_of_the_workload_api_is_a_condition() {
    let terminating = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let mut observed = with_pod_group::<WorkloadApi>(ROW, &terminating);
    assert_eq!(writes(&observed), (vec![], vec![]));
    assert_eq!(
        gang_scheduling(&observed),
        "False NameTerminating: PodGroup llm-0-1 is being deleted; the pods of the gang stay in it, and the next incarnation \
         of the gang uses another name"
    );
    annotate(&mut observed, POD_GROUP, "llm-0-2");
    assert_eq!(writes(&observed), (vec!["llm-0-2".to_owned()], vec![]));
}

#[test]
fn a_dropped_field_is_in_the_message() {
    let dropped = |change: &Value| {
        let row = ROW.replace(r#"{"minCount":3}"#, r#"{"minCount":3,"priorityClassName":"high"}"#);
        gang_scheduling(&with_pod_group::<WorkloadApi>(&row, change))
    };
    assert_eq!(dropped(&json!({})), SCHEDULED);
    let gate = "because its feature gate WorkloadAwarePreemption is off";
    // The API server writes the default of a dropped mode into its responses.
    for mode in [json!("Pod"), Value::Null] {
        assert_eq!(
            dropped(&json!({ "spec": { "disruptionMode": mode, "priorityClassName": null } })),
            format!("{SCHEDULED}; the API server dropped disruptionMode and priorityClassName {gate}")
        );
    }
    assert_eq!(
        dropped(&json!({ "spec": { "priorityClassName": null } })),
        format!("{SCHEDULED}; the API server dropped priorityClassName {gate}")
    );
}

#[test]
fn a_message_reports_what_the_pod_group_lacks_of_the_current_gang() {
    let minimums = "the minimums of the gang have changed, and the PodGroup of its next pods has the new ones";
    let unbound = "no pod of the gang is bound, for example after its restart";
    let priority = format!("the priority of the gang has changed, which takes effect when {unbound}");
    let mut observed = with_pod_group::<WorkloadApi>(ROW, &json!({}));
    assert_eq!(gang_scheduling(&observed), SCHEDULED);
    observed.gang.spec.priority_class_name = Some("high".to_owned());
    assert_eq!(gang_scheduling(&observed), format!("{SCHEDULED}; {priority}"));
    observed.cliques.insert("a".to_owned(), clique("a", &json!({ "replicas": 1 })));
    assert_eq!(gang_scheduling(&observed), format!("{SCHEDULED}; {minimums}; {priority}"));
    observed.gang.spec.priority_class_name = None;
    observed.cliques.insert("a".to_owned(), clique("a", &json!({ "replicas": 9 })));
    assert_eq!(gang_scheduling(&observed), SCHEDULED);
    annotate(&mut observed, POD_GROUP_SPEC, r#"{"minCount":5}"#);
    assert_eq!(gang_scheduling(&observed), format!("{SCHEDULED}; {minimums}"));
    annotate(&mut observed, POD_GROUP, "llm-0-1.2");
    let message = gang_scheduling(&observed);
    let others = "PodGroup llm-0-1.2 has the pods that were not bound when it began, and the others stay in an earlier one until";
    assert_eq!(message, format!("{SCHEDULED}; {others} {unbound}"));
}

#[test]
fn a_scheduler_that_ignores_the_pod_group_is_found() {
    let condition = |reason: &str, message: &str| {
        let condition = json!({ "type": "PodGroupScheduled", "status": "True", "reason": reason, "message": message });
        json!({ "status": { "conditions": [{ "type": "Other", "reason": "a", "message": "b" }, condition] } })
    };
    let with_scheduled_pod = |change: &Value| {
        let mut observed = with_pod_group::<WorkloadApi>(ROW, change);
        observed.cliques.insert("a".to_owned(), clique("a", &json!({ "min": 2, "scheduled": 1 })));
        observed
    };
    assert_eq!(
        gang_scheduling(&with_scheduled_pod(&json!({}))),
        "False SchedulerIgnoresPodGroups: pods of the gang are scheduled, but PodGroup llm-0-1 has no condition \
         PodGroupScheduled; enable the feature gates GenericWorkload and GangScheduling of default-scheduler"
    );
    for (reason, message, expected) in
        [("Scheduled", "", "Scheduled"), ("Unschedulable", "0/3 nodes", "Unschedulable: 0/3 nodes")]
    {
        let expected = format!("True DefaultScheduler: default-scheduler reports: {expected}");
        assert_eq!(gang_scheduling(&with_scheduled_pod(&condition(reason, message))), expected);
    }
    let mut missing = with_scheduled_pod(&json!({}));
    missing.children = ObservedChildren::default();
    assert_eq!(gang_scheduling(&missing), SCHEDULED, "the PodGroup is created now");
}

/// All pods that a successor was begun for may have been bound to nodes as pods of the earlier `PodGroup`. Then the scheduler never considers
/// the successor.
#[test]
fn a_successor_without_pods_is_no_ignored_pod_group() {
    let with_successor = |change: &Value| {
        let mut observed = with_pod_group::<WorkloadApi>(ROW, change);
        annotate(&mut observed, POD_GROUP, "llm-0-1.2");
        let name = &json!({ "metadata": { "name": "llm-0-1.2" } });
        let successor = with_pod_group::<WorkloadApi>(ROW, name).children.of_kind().cloned().collect::<Vec<_>>();
        observed.children.extend::<PodGroup<WorkloadApi>>(successor);
        observed.cliques.insert("a".to_owned(), clique("a", &json!({ "min": 2, "scheduled": 1 })));
        gang_scheduling(&observed)
    };
    let condition = json!({ "type": "PodGroupScheduled", "status": "True", "reason": "Scheduled" });
    let message = with_successor(&json!({ "status": { "conditions": [condition] } }));
    assert!(message.starts_with(SCHEDULED), "{message}");
    let message = with_successor(&json!({}));
    assert!(message.starts_with("False SchedulerIgnoresPodGroups: "), "{message}");
}

/// A gang with the constraint `block`, with this constraint of its clique `a`, and with this record.
fn constrained(of_clique: &str, packing: &Value) -> Observed {
    let mut observed = with_pod_group::<WorkloadApi>(ROW, &json!({}));
    constrain(&mut observed, of_clique);
    annotate(&mut observed, POD_GROUP_SPEC, &json!({ "minCount": 3, "packing": packing }).to_string());
    observed
}

fn constrain(observed: &mut Observed, of_clique: &str) {
    let required =
        |key: &str| serde_json::from_value(json!({ "packConstraint": { "required": key } })).expect("a constraint");
    observed.gang.spec.topology_constraint = Some(required("block"));
    let of_clique = Some(of_clique).filter(|key| !key.is_empty());
    observed.gang.spec.podgroups[0].topology_constraint = of_clique.map(required);
}

fn constraints(observed: &Observed) -> String {
    grove_api_types::pack_affinity::digest(&observed.gang.spec).expect("constraints")
}

#[test]
fn the_key_of_the_record_is_the_topology_of_the_pod_group() {
    let mut observed = observed(ROW);
    annotate(&mut observed, POD_GROUP_SPEC, r#"{"minCount":3,"packing":{"key":"block","constraints":"1"}}"#);
    let object = created(&plan::plan(&observed)).expect("a create");
    assert_eq!(object["spec"]["schedulingConstraints"], json!({ "topology": [{ "key": "block" }] }));
    annotate(&mut observed, POD_GROUP_SPEC, r#"{"minCount":3,"packing":{"constraints":"1"}}"#);
    let object = created(&plan::plan(&observed)).expect("a create");
    assert_eq!(object["spec"].get("schedulingConstraints"), None);
}

#[test]
fn constraints_that_affinity_expresses_and_those_that_wait_are_in_the_message() {
    let digest = constraints(&constrained("", &json!({})));
    let of_record = |key: Option<&str>, digest: &str| json!({ "key": key, "constraints": digest });
    let with_key = json!({ "spec": { "schedulingConstraints": { "topology": [{ "key": "block" }] } } });
    let message = |of_clique: &str, packing: &Value, change: &Value| {
        let mut observed = with_pod_group::<WorkloadApi>(ROW, change);
        constrain(&mut observed, of_clique);
        annotate(&mut observed, POD_GROUP_SPEC, &json!({ "minCount": 3, "packing": packing }).to_string());
        gang_scheduling(&observed)
    };
    assert_eq!(message("", &of_record(Some("block"), &digest), &with_key), SCHEDULED);
    expect!["True DefaultScheduler: default-scheduler schedules the PodGroup of the gang; the API server dropped schedulingConstraints because its feature gate TopologyAwareWorkloadScheduling is off; required pod affinity packs the gang by block, so the scheduler may not find a placement in a full cluster"].assert_eq(&message("", &of_record(Some("block"), &digest), &json!({})));
    expect!["True DefaultScheduler: default-scheduler schedules the PodGroup of the gang; required pod affinity packs the gang by block, so the scheduler may not find a placement in a full cluster"].assert_eq(&message("", &of_record(None, &digest), &json!({})));
    expect!["True DefaultScheduler: default-scheduler schedules the PodGroup of the gang; the topology constraints of the gang have changed; those of the whole gang take effect when no pod of the gang is bound, for example after its restart"].assert_eq(&message("", &of_record(Some("block"), "1other"), &with_key));
    let digest = constraints(&constrained("host", &json!({})));
    expect!["True DefaultScheduler: default-scheduler schedules the PodGroup of the gang; required pod affinity packs a by host, so the scheduler may not find a placement in a full cluster"].assert_eq(&message("host", &of_record(Some("block"), &digest), &with_key));
    expect!["True DefaultScheduler: default-scheduler schedules the PodGroup of the gang; required pod affinity packs the gang by block and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang"].assert_eq(&message("host", &of_record(None, &digest), &json!({})));
}
