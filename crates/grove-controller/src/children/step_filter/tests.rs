//! Names that are in use, rejected creates, and pending ones.

use std::time::Duration;

use expect_test::{Expect, expect};
use grove_runtime::{api_error::ApiError, caches::UnreadableObject};
use grove_test_support::mock_api_server::config_map;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::{expectations::ChildKey, plan::Stage};

fn wanted(name: &str) -> Step {
    let object: ConfigMap = serde_json::from_value(config_map(name, 1, "u")).unwrap();
    Step::create(&object)
}

fn conflict(name: &str, more: &Value) -> NameConflict {
    let mut object = json!({ "metadata": { "name": name, "namespace": "ns", "uid": "theirs" } });
    json_patch::merge(&mut object["metadata"], more);
    NameConflict::with(&serde_json::from_value::<ConfigMap>(object).unwrap())
}

fn ours() -> Value {
    json!({ "labels": { "part-of": "o", "more": "x" } })
}

/// The metadata of a child of the `ConfigMap` with this UID.
fn controlled_by_config_map(uid: &str) -> Value {
    let mut child = json!({ "ownerReferences": config_map("x", 1, uid)["metadata"]["ownerReferences"] });
    child["ownerReferences"][0]["kind"] = json!("ConfigMap");
    child
}

fn owner() -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": "o", "uid": "u" } })).unwrap()
}

/// The plan for two failure domains, each with a service and then a worker. The number before the hyphen is the domain.
fn filtered(mut filter: StepFilter<'_, ConfigMap>) -> String {
    let mut plan = Plan::new();
    for (name, children) in [("services", ["0-service", "1-service"]), ("workers", ["0-worker", "1-worker"])] {
        let step = |(domain, child): (i32, &str)| {
            let is_allowed = filter.admit_create("ConfigMap", child, Some(domain));
            is_allowed.then(|| filter.adopt_or_create(wanted(child)))
        };
        let steps: Vec<_> = (0..).zip(children).filter_map(step).collect();
        plan = plan.stage(Stage::new(name, steps));
        filter.end_stage();
    }
    filter.finish(plan).to_string()
}

/// Compares the plan for these conflicts.
#[track_caller]
fn check(conflicts: &[NameConflict], expected: &Expect) {
    let (owner, labels) = (owner(), BTreeMap::from([("part-of".to_owned(), "o".to_owned())]));
    let conflicts = NameConflicts { owner: &owner, conflicts, labels: &labels };
    let (backed_off, pending_creates) = (BackedOffCreates::default(), PendingCreates::default());
    expected.assert_eq(&filtered(StepFilter::new(conflicts, &backed_off, &pending_creates)));
}

#[test]
fn a_rejected_create_blocks_later_stages_of_its_failure_domain_and_a_pending_one_blocks_nothing() {
    let (owner, labels) = (owner(), BTreeMap::new());
    let none = NameConflicts { owner: &owner, conflicts: &[], labels: &labels };
    let rejected = (wanted("0-service").target().clone(), ApiError::new(403, "Forbidden", "no"));
    let (children, retry_after) = (vec![rejected], Some(Duration::from_secs(8)));
    let backed_off = BackedOffCreates { children, retry_after, ..BackedOffCreates::default() };
    let pending = ChildKey { kind: "ConfigMap".to_owned(), name: "1-service".to_owned() };
    let pending_creates = PendingCreates { children: vec![pending] };
    expect![[r"
        workers: create ConfigMap 1-worker
        requeue: after 8s
    "]]
    .assert_eq(&filtered(StepFilter::new(none, &backed_off, &pending_creates)));
}

#[test]
fn a_blocked_kind_is_not_created_and_blocks_later_stages_of_the_missing_children_only() {
    let (owner, labels) = (owner(), BTreeMap::new());
    let none = NameConflicts { owner: &owner, conflicts: &[], labels: &labels };
    let blocked_kinds = BTreeSet::from(["Service".to_owned()]);
    let backed_off = BackedOffCreates { blocked_kinds, ..BackedOffCreates::default() };
    let pending = ChildKey { kind: "Service".to_owned(), name: "1".to_owned() };
    let pending_creates = PendingCreates { children: vec![pending] };
    let mut filter = StepFilter::new(none, &backed_off, &pending_creates);
    // The service 0 is missing, the watch event of 1 is pending, and 2 exists.
    assert_eq!([0, 1].map(|index| filter.admit_create("Service", &index.to_string(), Some(index))), [false; 2]);
    assert!(filter.admit_create("Secret", "0", Some(0)), "the same stage");
    filter.end_stage();
    let allowed = [0, 1, 2].map(|index| filter.admit_create("Pod", &index.to_string(), Some(index)));
    assert_eq!(allowed, [false, true, true]);
}

#[test]
fn the_retry_of_a_kind_has_few_creates_and_begins_with_one() {
    let (owner, labels, pending_creates) = (owner(), BTreeMap::new(), PendingCreates::default());
    let none = NameConflicts { owner: &owner, conflicts: &[], labels: &labels };
    let retried_kinds = BTreeSet::from(["Service".to_owned()]);
    let backed_off = BackedOffCreates { retried_kinds, ..BackedOffCreates::default() };
    let filter = StepFilter::new(none, &backed_off, &pending_creates);
    let retry = |kind: &str| (filter.create_limit(kind), filter.slow_start(kind));
    assert_eq!(retry("Service"), (StepLimit::AFTER_QUOTA, Some(SlowStart::RETRY_AFTER_QUOTA)));
    assert_eq!(retry("Secret"), (StepLimit::CREATES, None));
}

#[test]
fn a_child_with_a_free_name_is_created() {
    check(
        &[conflict("other", &json!({}))],
        &expect![[r"
        services: create ConfigMap 0-service
        services: create ConfigMap 1-service
        workers: create ConfigMap 0-worker
        workers: create ConfigMap 1-worker
    "]],
    );
}

#[test]
fn a_foreign_object_blocks_its_own_failure_domain_only() {
    check(
        &[conflict("0-service", &json!({}))],
        &expect![[r"
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameConflict ConfigMap 0-service exists and ConfigMap o does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
    check(
        &[conflict("1-worker", &json!({}))],
        &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 0-worker
            wait: NameConflict ConfigMap 1-worker exists and ConfigMap o does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
}

#[test]
fn an_orphan_with_the_labels_of_the_owner_is_adopted_and_blocks_nothing() {
    check(
        &[conflict("0-service", &ours())],
        &expect![[r"
        services: adopt ConfigMap 0-service
        services: create ConfigMap 1-service
        workers: create ConfigMap 0-worker
        workers: create ConfigMap 1-worker
    "]],
    );
}

#[test]
fn a_terminating_object_and_one_with_a_controller_are_not_adopted() {
    let terminating = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    let controlled = json!({ "ownerReferences": config_map("x", 1, "another")["metadata"]["ownerReferences"] });
    let with = |more: &Value| {
        let mut all = ours();
        json_patch::merge(&mut all, more);
        all
    };
    check(
        &[conflict("0-worker", &with(&terminating)), conflict("1-worker", &with(&controlled))],
        &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            wait: NameTerminating ConfigMap 0-worker is being deleted; its successor is created then
            wait: NameConflict ConfigMap 1-worker exists and ConfigMap o does not control it; rename or delete it to free the name
            requeue: after 1s
        "]],
    );
}

#[test]
fn a_child_of_a_deleted_owner_of_the_same_name_is_waited_for() {
    let child = controlled_by_config_map("deleted");
    check(
        &[conflict("0-worker", &child)],
        &expect![[r"
            services: create ConfigMap 0-service
            services: create ConfigMap 1-service
            workers: create ConfigMap 1-worker
            wait: NameTerminating ConfigMap 0-worker is being deleted; its successor is created then
        "]],
    );
}

/// Its deletion does not trigger the owner.
#[test]
fn a_child_of_an_owner_of_another_group_is_a_conflict_with_a_retry() {
    let mut child = controlled_by_config_map("other");
    child["ownerReferences"][0]["apiVersion"] = json!("example.io/v1");
    check(
        &[conflict("0-worker", &child)],
        &expect![[r"
        services: create ConfigMap 0-service
        services: create ConfigMap 1-service
        workers: create ConfigMap 1-worker
        wait: NameConflict ConfigMap 0-worker exists and ConfigMap o does not control it; rename or delete it to free the name
        requeue: after 10s
    "]],
    );
}

fn unreadable(name: &str, more: &Value) -> NameConflict {
    let NameConflict { metadata, .. } = conflict(name, more);
    let object = UnreadableObject { metadata, reason: "missing field `data`".to_owned() };
    NameConflict::with_unreadable::<ConfigMap>(&object)
}

#[test]
fn an_unreadable_object_blocks_its_own_failure_domain_even_if_the_owner_controls_it() {
    let controlled = controlled_by_config_map("u");
    check(
        &[unreadable("0-service", &controlled), unreadable("1-worker", &ours())],
        &expect![[r"
            services: create ConfigMap 1-service
            wait: UnreadableObject ConfigMap 0-service exists and could not be decoded: missing field `data`; correct or delete it
            wait: UnreadableObject ConfigMap 1-worker exists and could not be decoded: missing field `data`; correct or delete it
            requeue: after 10s
        "]],
    );
}

#[test]
fn an_unreadable_object_is_not_patched() {
    let (owner, conflicts, labels) = (owner(), [unreadable("a", &json!({}))], BTreeMap::new());
    let conflicts = NameConflicts { owner: &owner, conflicts: &conflicts, labels: &labels };
    let (backed_off, pending_creates) = (BackedOffCreates::default(), PendingCreates::default());
    let mut filter = StepFilter::new(conflicts.clone(), &backed_off, &pending_creates);
    assert_eq!(["a", "b"].map(|name| filter.admit_patch("ConfigMap", name)), [false, true]);
    expect![[r"
        wait: UnreadableObject ConfigMap a exists and could not be decoded: missing field `data`; correct or delete it
        requeue: after 10s
    "]]
    .assert_eq(&filter.finish(Plan::new()).to_string());
    assert_eq!(conflicts.unresolved().count(), 1);
}

#[test]
fn nothing_is_created_in_a_terminating_namespace_and_orphans_are_adopted() {
    let (owner, conflicts) = (owner(), [conflict("0-service", &ours())]);
    let labels = BTreeMap::from([("part-of".to_owned(), "o".to_owned())]);
    let conflicts = NameConflicts { owner: &owner, conflicts: &conflicts, labels: &labels };
    let (backed_off, pending_creates) = (BackedOffCreates::default(), PendingCreates::default());
    let filter = StepFilter::new(conflicts, &backed_off, &pending_creates).without_creates_if(true);
    expect![[r"
        services: adopt ConfigMap 0-service
        wait: NamespaceTerminating nothing is created, because the namespace is terminating
    "]]
    .assert_eq(&filtered(filter));
}

#[test]
fn an_object_of_another_kind_is_no_conflict() {
    let mut other = conflict("0-service", &json!({}));
    other.target.resource.kind = "Secret".into();
    check(
        &[other],
        &expect![[r"
        services: create ConfigMap 0-service
        services: create ConfigMap 1-service
        workers: create ConfigMap 0-worker
        workers: create ConfigMap 1-worker
    "]],
    );
}
