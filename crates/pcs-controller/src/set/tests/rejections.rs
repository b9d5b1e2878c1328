//! Rejected creates of children: they block only the later stages of their replica, and the status has their message.

use std::time::Duration;

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{Plan, Target};
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

use super::{SET, change, child, executed, new, plan, status_of, without_children};
use crate::set::desired::SlimService;
use crate::set::observed::Observed;

const QUOTA: &str = "podcliques.grove.io \"x\" is forbidden: exceeded quota: small";

/// The snapshot shortly after the API server rejected the create of `child`.
fn with_rejected<K: Resource<DynamicType = ()>>(mut observed: Observed, child: &K) -> Observed {
    observed.backed_off.children.push((Target::of(child), ApiError::new(403, "Forbidden", QUOTA)));
    observed.backed_off.retry_after = Some(Duration::from_secs(8));
    observed
}

fn clique() -> PodClique {
    let clique = child::<PodClique>(&executed(without_children()), "llm-1-decode");
    (*clique).clone()
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

#[test]
fn a_backed_off_child_is_not_created_and_blocks_only_its_replica() {
    let all = executed(without_children());
    let (service, gang) = (&*child::<SlimService>(&all, "llm-1"), &*child::<PodGang>(&all, "llm-0"));
    check(
        &with_rejected(with_rejected(without_children(), service), gang),
        &expect![[r"
            services: create Service llm-0
            requeue: after 8s
        "]],
    );
    check(
        &with_rejected(without_children(), service),
        &expect![[r"
            services: create Service llm-0
            gangs: create PodGang llm-0
            cliques: create PodClique llm-0-prefill
            cliques: create PodClique llm-0-decode
            requeue: after 8s
        "]],
    );
}

#[test]
fn children_that_are_not_created_use_no_budget_of_the_plan() {
    let service = child::<SlimService>(&executed(without_children()), "llm-1");
    let target = |replica: i32| Target { name: format!("llm-{replica}"), ..Target::of(&*service) };
    let mut observed = without_children();
    observed.set.spec.replicas = 3000;
    let rejected = (0..1500).map(|replica| (target(replica), ApiError::new(403, "Forbidden", QUOTA)));
    observed.backed_off.children = rejected.collect();
    let foreign = |replica: i32| {
        let mut foreign = SlimService::default();
        foreign.metadata.name = Some(target(replica).name);
        NameConflict::with(&foreign)
    };
    observed.name_conflicts = (1500..2999).map(foreign).collect();
    let plan = plan(&observed);
    assert_eq!(plan.waiting.len(), 1499);
    expect![[r"
        services: create Service llm-2999
        gangs: create PodGang llm-2999
        cliques: create PodClique llm-2999-prefill
        cliques: create PodClique llm-2999-decode
    "]]
    .assert_eq(&Plan { waiting: vec![], ..plan }.to_string());
}

/// The first create of a retry for a set of 20,000 missing children, after this number of rejections in the earlier retries.
fn first_create_of_retry(earlier_rejections: usize) -> String {
    let mut observed = without_children();
    observed.set.spec.replicas = 5000;
    observed.backed_off = BackedOffCreates { is_retry: true, earlier_rejections, ..BackedOffCreates::default() };
    plan(&observed).steps().next().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_retry_without_budget_for_all_creates_begins_behind_those_of_the_earlier_retries() {
    assert_eq!(first_create_of_retry(0), "create Service llm-0");
    assert_eq!(first_create_of_retry(4096), "create Service llm-4096");
    assert_eq!(first_create_of_retry(20_000 + 7), "create Service llm-7", "after the last create, it begins again");
    assert_eq!(first_create_of_retry(6000), "create Service llm-0", "the gangs wait for the services");
}

#[test]
fn a_retry_with_budget_for_all_creates_sends_all_of_them() {
    let mut observed = without_children();
    let all = plan(&observed).steps().count();
    observed.backed_off = BackedOffCreates { is_retry: true, earlier_rejections: 3, ..BackedOffCreates::default() };
    assert_eq!(plan(&observed).steps().count(), all);
}

#[test]
fn nothing_is_created_in_a_terminating_namespace_and_the_set_reports_it() {
    let mut observed = executed(without_children());
    observed.is_namespace_terminating = true;
    check(&observed, &expect![["nothing to do\n"]]);
    observed.children.by_name_mut::<PodClique>().remove("llm-0-decode");
    observed.children.by_name_mut::<PodGang>().remove("llm-0");
    check(
        &observed,
        &expect![[r"
            wait: NamespaceTerminating nothing is created, because the namespace is terminating
        "]],
    );
    let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(status.conditions[0].reason, "NamespaceTerminating");
}

#[test]
fn patches_and_deletes_continue_in_a_terminating_namespace() {
    let mut observed = executed(without_children());
    observed.is_namespace_terminating = true;
    observed.children.by_name_mut::<PodClique>().remove("llm-0-prefill");
    change::<PodClique>(&mut observed, "llm-0-decode", |clique| clique.spec.min_available = Some(9));
    observed.set.spec.replicas = 1;
    check(
        &observed,
        &expect![[r#"
            cliques: patch PodClique llm-0-decode {"spec":{"minAvailable":1}}
            scale-in: delete PodClique llm-1-decode
            scale-in: delete PodClique llm-1-prefill
            scale-in: delete PodGang llm-1
            scale-in: delete Service llm-1
            wait: NamespaceTerminating nothing is created, because the namespace is terminating
        "#]],
    );
}

#[test]
fn a_backed_off_clique_blocks_no_delete() {
    let mut observed = executed(new(SET));
    observed.children.by_name_mut::<PodClique>().remove("llm-0-decode");
    observed.set.spec.replicas = 1;
    observed.backed_off.children.push((Target::of(&clique()), ApiError::new(403, "Forbidden", QUOTA)));
    observed.backed_off.children[0].0.name = "llm-0-decode".to_owned();
    check(
        &observed,
        &expect![[r"
            scale-in: delete PodClique llm-1-decode
            scale-in: delete PodClique llm-1-prefill
            scale-in: delete PodGang llm-1
            scale-in: delete Service llm-1
        "]],
    );
}

#[test]
fn a_rejected_create_is_in_the_status_with_its_remedy_until_the_backoff_ends() {
    let target = |name: &str| Target { name: name.to_owned(), ..Target::of(&clique()) };
    let failure = ApiError::new(403, "Forbidden", QUOTA);
    let step = |name: &str| StepResult {
        stage: "cliques",
        verb: "create",
        target: target(name),
        result: Err(failure.clone()),
        is_changed: false,
    };
    let mut observed = without_children();
    let at = Timestamp::from_second(1).expect("a time");
    let status = status_of(&observed, &ExecutionResult { steps: vec![step("llm-0-decode"), step("llm-1-decode")] }, at);
    let available = &status.conditions[0];
    assert_eq!((available.reason.as_str(), available.status.as_str()), ("FailedCreate", "False"));
    assert_eq!(
        available.message,
        "0 of 2 replicas are available; the API server rejected the create of PodClique llm-0-decode (and 1 more): \
         podcliques.grove.io \"x\" is forbidden: exceeded quota: small; raise the quota or release some of it; Grove then \
         creates the missing objects"
    );
    assert_eq!(status.observed_generation, None);
    observed.backed_off.children = ["llm-0-decode", "llm-1-decode"].map(|name| (target(name), failure.clone())).into();
    observed.set.status = Some(status.clone());
    assert_eq!(status_of(&observed, &ExecutionResult::default(), Timestamp::from_second(9).expect("a time")), status);
}
