//! Children that the API server refused: nothing else waits for them that does not need them, and the set says so.

use std::time::Duration;

use expect_test::{Expect, expect};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::Target;
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;

use super::{SET, carried_out, new, nothing, plan, status};
use crate::set::observed::Observed;

const QUOTA: &str = "podcliques.grove.io \"x\" is forbidden: exceeded quota: small";

/// The set after the API server refused this a moment ago.
fn refused<K: Resource<DynamicType = ()>>(mut observed: Observed, child: &K) -> Observed {
    observed.backed_off.children.push((Target::of(child), ApiError::new(403, "Forbidden", QUOTA)));
    observed.backed_off.retry_after = Some(Duration::from_secs(8));
    observed
}

fn clique() -> PodClique {
    let clique = carried_out(nothing()).cliques["llm-1-decode"].clone();
    (*clique).clone()
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

#[test]
fn what_was_refused_is_not_asked_for_until_its_time_and_holds_up_its_replica_only() {
    let all = carried_out(nothing());
    let (service, gang) = (&*all.services["llm-1"], &*all.gangs["llm-0"]);
    check(
        &refused(refused(nothing(), service), gang),
        &expect![[r"
            services: create Service llm-0
            requeue: after 8s
        "]],
    );
    check(
        &refused(nothing(), service),
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
fn a_refused_clique_keeps_nothing_from_going() {
    let mut observed = carried_out(new(SET));
    observed.cliques.remove("llm-0-decode");
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
fn the_set_names_what_was_refused_with_the_remedy_and_says_the_same_while_it_waits() {
    let target = |name: &str| Target { name: name.to_owned(), ..Target::of(&clique()) };
    let failure = ApiError::new(403, "Forbidden", QUOTA);
    let outcome = |name: &str| StepResult {
        stage: "cliques",
        verb: "create",
        target: target(name),
        result: Err(failure.clone()),
    };
    let mut observed = nothing();
    let at = Timestamp::from_second(1).expect("a time");
    let told =
        status(&observed, &ExecutionResult { steps: vec![outcome("llm-0-decode"), outcome("llm-1-decode")] }, at);
    let available = &told.conditions[0];
    assert_eq!((available.reason.as_str(), available.status.as_str()), ("FailedCreate", "False"));
    assert_eq!(
        available.message,
        "0 of 2 replicas are available; the API server refused to create PodClique llm-0-decode (and 1 more): \
         podcliques.grove.io \"x\" is forbidden: exceeded quota: small; raise the quota or free some of it, and what is \
         missing follows by itself"
    );
    assert_eq!(told.observed_generation, None);
    observed.backed_off.children = ["llm-0-decode", "llm-1-decode"].map(|name| (target(name), failure.clone())).into();
    observed.set.status = Some(told.clone());
    assert_eq!(status(&observed, &ExecutionResult::default(), Timestamp::from_second(9).expect("a time")), told);
}
