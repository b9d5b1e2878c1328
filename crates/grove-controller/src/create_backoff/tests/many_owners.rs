//! The retries of many owners that wait for quota.

use super::*;

fn owner(namespace: &str, number: usize) -> ConfigMap {
    let mut owner = object("o");
    (owner.metadata.uid, owner.metadata.namespace) =
        (Some(format!("{namespace}-{number}")), Some(namespace.to_owned()));
    owner
}

/// The delay of the retry of this owner after a quota rejected a create, or after another rejection.
fn delay(backoff: &CreateBackoff<ConfigMap>, owner: &ConfigMap, result: &ExecutionResult) -> Duration {
    backoff.record(owner, &backoff.active(owner), result);
    backoff.active(owner).retry_after.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_owners_of_a_namespace_that_wait_for_quota_share_a_rate_of_retries() {
    let (backoff, rejected) = (CreateBackoff::default(), quota_result(&["a"]));
    let delays: Vec<_> = (0..3000).map(|number| delay(&backoff, &owner("large", number), &rejected)).collect();
    assert!(delays[0] <= Duration::from_millis(500));
    assert_eq!([delays[100], delays[1000]], [100, 1000].map(|waiting| Duration::from_millis(50) * waiting));
    assert_eq!(delays[2999], Duration::from_mins(1), "only a retry notices a larger quota");
    assert!(delay(&backoff, &owner("small", 0), &rejected) <= Duration::from_millis(500));
    let of_object = result(&[("a", Some(422))]);
    assert!(delay(&backoff, &owner("large", 3000), &of_object) <= Duration::from_millis(500), "no quota");
}
