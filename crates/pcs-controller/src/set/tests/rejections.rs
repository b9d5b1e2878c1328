//! Rejected creates of children: they block only the later stages of their replica, and the status has their message.

use std::collections::BTreeSet;
use std::time::Duration;

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{Plan, SlowStart, Target};
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

use super::{SET, change, child, executed, new, plan, status_of, without_children};
use crate::set::desired::{SlimAutoscaler, SlimService};
use crate::set::observed::Observed;
use crate::tests::GROUPED;

const QUOTA: &str = "podcliques.grove.io \"x\" is forbidden: exceeded quota: small";
const POLICY: &str = "podcliques.grove.io \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no";

/// The snapshot shortly after a policy rejected the create of `child`.
fn with_rejected<K: Resource<DynamicType = ()>>(mut observed: Observed, child: &K) -> Observed {
    observed.backed_off.children.push((Target::of(child), ApiError::new(403, "Forbidden", POLICY)));
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
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            requeue: after 8s
        "]],
    );
    check(
        &with_rejected(without_children(), service),
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
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
    let rejected = (0..1500).map(|replica| (target(replica), ApiError::new(403, "Forbidden", POLICY)));
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
        revisions: create ControllerRevision llm-190a37f093cc17502
        services: create Service llm-2999
        gangs: create PodGang llm-2999
        cliques: create PodClique llm-2999-prefill
        cliques: create PodClique llm-2999-decode
        requeue: after 10s
    "]]
    .assert_eq(&Plan { waiting: vec![], ..plan }.to_string());
}

/// A snapshot during the backoff in which nothing of this kind is created.
fn with_blocked_kind(observed: Observed, kind: &str) -> Observed {
    let (blocked_kinds, retry_after) = (BTreeSet::from([kind.to_owned()]), Some(Duration::from_secs(8)));
    let backed_off = BackedOffCreates { blocked_kinds, retry_after, ..BackedOffCreates::default() };
    Observed { backed_off, ..observed }
}

#[test]
fn the_quota_of_a_kind_delays_only_this_kind_and_the_later_ones_of_its_replicas() {
    check(
        &with_blocked_kind(without_children(), "PodClique.grove.io"),
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            services: create Service llm-1
            gangs: create PodGang llm-0
            gangs: create PodGang llm-1
            requeue: after 8s
        "]],
    );
    let mut observed = executed(without_children());
    observed.children.by_name_mut::<SlimService>().remove("llm-0");
    for clique in ["llm-0-prefill", "llm-1-prefill"] {
        observed.children.by_name_mut::<PodClique>().remove(clique);
    }
    check(
        &with_blocked_kind(observed, "Service"),
        &expect![[r"
            cliques: create PodClique llm-1-prefill
            requeue: after 8s
        "]],
    );
}

#[test]
fn rejected_autoscalers_delay_no_gang_during_their_backoff_and_in_their_retry() {
    let mut observed = executed(new(GROUPED));
    observed.children.by_name_mut::<PodGang>().remove("m-0-g-1");
    observed.children.by_name_mut::<SlimAutoscaler>().clear();
    let observed = with_blocked_kind(observed, "HorizontalPodAutoscaler.autoscaling");
    check(
        &observed,
        &expect![[r"
            gangs: create PodGang m-0-g-1
            requeue: after 8s
        "]],
    );
    let retried_kinds = BTreeSet::from(["HorizontalPodAutoscaler.autoscaling".to_owned()]);
    let backed_off = BackedOffCreates { retried_kinds, ..BackedOffCreates::default() };
    let plan = plan(&Observed { backed_off, ..observed });
    let stages: Vec<_> = plan.stages.iter().map(|stage| (stage.name, stage.steps.len())).collect();
    assert_eq!(stages, [("gangs", 1), ("autoscalers", 2)]);
}

/// The stages of a plan: name, number of steps and slow start.
fn stages(observed: &Observed) -> Vec<(&'static str, usize, Option<SlowStart>)> {
    plan(observed).stages.iter().map(|stage| (stage.name, stage.steps.len(), stage.slow_start)).collect()
}

#[test]
fn a_new_set_has_no_slow_start_and_a_retry_after_a_quota_has_few_creates_of_the_kind() {
    let mut observed = without_children();
    observed.set.spec.replicas = 500;
    let others = [("revisions", 1, None), ("services", 500, None)];
    assert_eq!(stages(&observed), [&others[..], &[("gangs", 500, None), ("cliques", 1000, None)]].concat());
    observed.backed_off.retried_kinds = BTreeSet::from(["PodGang.scheduler.grove.io".to_owned()]);
    let slow_start = Some(SlowStart::RETRY_AFTER_QUOTA);
    assert_eq!(stages(&observed), [&others[..], &[("gangs", 63, slow_start), ("cliques", 126, None)]].concat());
}

#[test]
fn a_retry_after_a_quota_sends_creates_before_patches() {
    let mut observed = executed(without_children());
    observed.children.by_name_mut::<PodClique>().remove("llm-1-decode");
    change::<PodClique>(&mut observed, "llm-0-decode", |clique| clique.spec.min_available = Some(9));
    observed.backed_off.retried_kinds = BTreeSet::from(["PodClique.grove.io".to_owned()]);
    check(
        &observed,
        &expect![[r#"
            cliques: create PodClique llm-1-decode
            cliques: patch PodClique llm-0-decode {"spec":{"minAvailable":1}}
        "#]],
    );
    let observed = Observed { children: executed(without_children()).children, ..observed };
    assert!(plan(&observed).is_empty());
}

#[test]
fn patches_use_no_budget_of_creates() {
    let mut observed = without_children();
    observed.set.spec.replicas = 2100;
    let mut observed = executed(executed(executed(observed)));
    for clique in &mut observed.set.spec.template.cliques {
        clique.labels.insert("team".into(), "y".into());
    }
    observed.children.by_name_mut::<PodClique>().remove("llm-2099-decode");
    let plan = plan(&observed);
    assert_eq!(plan.steps().filter(|step| step.verb() == "patch").count(), 4096);
    let creates = plan.steps().filter(|step| step.verb() == "create").map(ToString::to_string);
    assert_eq!(creates.last().as_deref(), Some("create PodClique llm-2099-decode"));
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
    let step = |name: &str| StepResult::new("cliques", "create", target(name), Err(failure.clone()));
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
