//! Which retry ends the backoff of a kind.

use super::*;
use crate::plan::Stage;

fn of_kind(kind: &str, mut step: StepResult) -> StepResult {
    step.target.resource.kind = kind.to_owned();
    step
}

/// Whether the backoff after a quota continues after a retry with these results.
async fn continues(retried: Vec<StepResult>) -> bool {
    let backoff = CreateBackoff::default();
    record(&backoff, &quota_result(&["a"]));
    wait_for_retry(&backoff).await;
    record(&backoff, &ExecutionResult { steps: retried });
    let active = backoff.active(&object("o"));
    active.retried_kinds.contains_key("ConfigMap") || active.blocked_kinds.contains("ConfigMap")
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_creates_an_object_ends_the_backoff_of_a_quota_despite_other_failures() {
    let created = || step("a", None, 1);
    let failed = |code: u16| step("b", Some(ApiError::new(code, "Failed", "no")), 1);
    let of_service = |step: StepResult| of_kind("Service", step);
    for (retried, expected) in [
        (vec![created()], false),
        (vec![created(), failed(422)], false),
        (vec![created(), failed(500)], false),
        (vec![created(), of_service(failed(500))], false),
        (vec![created(), of_service(step("b", Some(quota()), 1))], false),
        (vec![created(), step("b", Some(quota()), 1)], true),
        (vec![failed(422)], true),
        (vec![of_service(step("a", None, 1)), failed(500)], true),
        (vec![of_service(failed(500))], true),
    ] {
        let text = format!("{retried:?}");
        assert_eq!(continues(retried).await, expected, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_which_no_create_was_sent_does_not_end_its_backoff() {
    let empty = Plan::new();
    let omitted = Plan { omitted_kinds: BTreeSet::from(["ConfigMap".to_owned()]), ..Plan::new() };
    let planned = Plan::new().stage(Stage::new("s", [Step::create(&object("a"))]));
    let (nothing, sent) = (ExecutionResult::default(), ExecutionResult { steps: vec![step("a", None, 1)] });
    for (plan, result, is_ended) in
        [(&omitted, &nothing, false), (&planned, &nothing, false), (&planned, &sent, true), (&empty, &nothing, true)]
    {
        for rejection in [quota(), ApiError::new(422, "Invalid", "no")] {
            let backoff = CreateBackoff::default();
            record(&backoff, &ExecutionResult { steps: vec![step("a", Some(rejection), 1)] });
            wait_for_retry(&backoff).await;
            let attempted = backoff.active(&object("o")).attempted(plan, result);
            backoff.record(&object("o"), &attempted, result);
            assert_eq!(backoff.is_empty(), is_ended, "{plan:?} {result:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_after_a_quota_precedes_that_of_other_rejected_objects_of_the_kind() {
    let backoff = CreateBackoff::default();
    let invalid = || Some(ApiError::new(422, "Invalid", "no"));
    record(&backoff, &ExecutionResult { steps: vec![step("a", invalid(), 1), step("b", Some(quota()), 1)] });
    tokio::time::advance(Duration::from_mins(1)).await;
    let active = backoff.active(&object("o"));
    assert_eq!(
        (active.retried_kinds.len(), active.retried_objects.len(), names(&backoff)),
        (1, 0, vec!["a".to_owned()])
    );
    record(&backoff, &ExecutionResult { steps: vec![step("b", None, 1)] });
    let active = backoff.active(&object("o"));
    assert_eq!((active.retried_kinds.len(), active.retried_objects.len(), names(&backoff)), (0, 1, vec![]));
    record(&backoff, &ExecutionResult { steps: vec![step("a", None, 1)] });
    assert!(backoff.is_empty());
}
