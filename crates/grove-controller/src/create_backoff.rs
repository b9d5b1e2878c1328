//! Children whose create the API server rejected. Each owner retries them with exponential backoff, and sooner when an object
//! of the namespace is deleted, since that may free quota. A change of the owner alone causes no retry.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use grove_runtime::{api_error::ApiError, backoff::Backoff, caches::Delta};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    executor::ExecutionResult,
    plan::{Plan, Target},
};

/// A child whose create was rejected, and the error.
pub type RejectedCreate = (Target, ApiError);

/// The children of one owner that wait for their retry.
#[derive(Clone, Debug, Default)]
pub struct BackedOffCreates {
    /// The children.
    pub children: Vec<RejectedCreate>,
    /// The time until their retry; absent if nothing waits.
    pub retry_after: Option<Duration>,
}

impl BackedOffCreates {
    /// The plan without the creates of these children, and without the later creates in the same failure domains.
    pub fn remove_from(&self, plan: Plan) -> Plan {
        let plan = plan.skip_creates(self.children.iter().map(|(target, _)| target));
        match self.retry_after {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

/// The rejected creates of all owners of kind `K`. A clone shares its entries. An entry ends when a retry succeeds, or with
/// the owner.
#[derive(Debug)]
pub struct CreateBackoff<K> {
    by_owner_uid: Arc<Mutex<BTreeMap<String, Entry>>>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for CreateBackoff<K> {
    fn clone(&self) -> Self {
        Self { by_owner_uid: Arc::clone(&self.by_owner_uid), kind: PhantomData }
    }
}

impl<K> Default for CreateBackoff<K> {
    fn default() -> Self {
        Self { by_owner_uid: Arc::default(), kind: PhantomData }
    }
}

#[derive(Debug)]
struct Entry {
    namespace: String,
    name: String,
    children: Vec<RejectedCreate>,
    backoff: Backoff,
    due: Instant,
}

impl<K: Resource<DynamicType = ()>> CreateBackoff<K> {
    /// The children of `owner` that wait for their retry.
    pub fn active(&self, owner: &K) -> BackedOffCreates {
        let (by_owner_uid, now) = (self.by_owner_uid.lock(), Instant::now());
        let entry = by_owner_uid.get(&owner.uid().unwrap_or_default()).filter(|entry| entry.due > now);
        entry.map_or_else(BackedOffCreates::default, |entry| BackedOffCreates {
            children: entry.children.clone(),
            retry_after: Some(entry.due.duration_since(now)),
        })
    }

    /// Records the rejected creates of a plan from which `active` was removed.
    pub fn record(&self, owner: &K, active: &BackedOffCreates, result: &ExecutionResult) {
        let creates = result.rejections().filter(|(step, error)| step.verb == "create" && error.is_object_specific());
        let rejected: Vec<_> = creates.map(|(step, error)| (step.target.clone(), error.clone())).collect();
        let (uid, is_retry) = (owner.uid().unwrap_or_default(), active.children.is_empty());
        let children: Vec<_> = active.children.iter().cloned().chain(rejected).collect();
        let mut by_owner_uid = self.by_owner_uid.lock();
        if children.is_empty() {
            // A result without a response of the API server proves nothing.
            if result.succeeded() {
                by_owner_uid.remove(&uid);
            }
            return;
        }
        let (namespace, name, now) = (owner.namespace().unwrap_or_default(), owner.name_any(), Instant::now());
        let entry = by_owner_uid.entry(uid).or_insert_with(|| {
            let backoff = Backoff::for_objects();
            Entry { namespace, name, children: vec![], backoff, due: now }
        });
        entry.children = children;
        if is_retry {
            entry.due = now + entry.backoff.next_delay();
        }
    }

    /// Drops the entry of a deleted owner.
    pub fn forget(&self, owner: &K) {
        self.by_owner_uid.lock().remove(&owner.uid().unwrap_or_default());
    }

    /// Ends the backoff of all owners in the namespace of a deleted object, and returns these owners.
    pub fn reset_on_delete<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let Some(namespace) = deleted.and_then(|object| object.namespace()) else { return vec![] };
        let mut by_owner_uid = self.by_owner_uid.lock();
        let entries = by_owner_uid.values_mut().filter(|entry| entry.namespace == namespace);
        let owners = entries.map(|entry| {
            entry.due = Instant::now();
            ObjectRef::new(&entry.name).within(&entry.namespace)
        });
        owners.collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::executor::StepResult;
    use grove_test_support::mock_api_server::config_map;

    fn object(name: &str) -> ConfigMap {
        serde_json::from_value(config_map(name, 1, "owner")).unwrap()
    }

    fn result(results: &[(&str, Option<u16>)]) -> ExecutionResult {
        let step = |(name, code): &(&str, Option<u16>)| {
            let result = code.map_or(Ok(()), |code| Err(ApiError::new(code, "Forbidden", "no")));
            StepResult { stage: "s", verb: "create", target: Target::of(&object(name)), result }
        };
        ExecutionResult { steps: results.iter().map(step).collect() }
    }

    fn names(backoff: &CreateBackoff<ConfigMap>) -> Vec<String> {
        backoff.active(&object("o")).children.into_iter().map(|(target, _)| target.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_create_is_retried_with_exponential_backoff() {
        let backoff = CreateBackoff::default();
        for longest in [500, 1000, 2000, 4000] {
            backoff.record(
                &object("o"),
                &BackedOffCreates::default(),
                &result(&[("a", Some(403)), ("b", None), ("c", Some(422))]),
            );
            assert_eq!(names(&backoff), ["a", "c"]);
            let wait = backoff.active(&object("o")).retry_after.unwrap();
            assert!(wait <= Duration::from_millis(longest) && wait >= Duration::from_millis(longest / 2), "{wait:?}");
            tokio::time::advance(wait).await;
            assert_eq!(names(&backoff), Vec::<String>::new());
        }
        backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", None)]));
        assert!(backoff.by_owner_uid.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_is_rejected_during_the_backoff_shares_its_retry() {
        let backoff = CreateBackoff::default();
        backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
        let active = backoff.active(&object("o"));
        backoff.record(&object("o"), &active, &result(&[("b", Some(403))]));
        assert_eq!(
            (names(&backoff), backoff.active(&object("o")).retry_after),
            (vec!["a".to_owned(), "b".to_owned()], active.retry_after)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_in_the_namespace_ends_the_backoff() {
        let backoff = CreateBackoff::default();
        backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
        let gone = |namespace: &str| {
            let gone = json!({ "metadata": { "name": "x", "namespace": namespace } });
            Delta { old: Some(Arc::new(serde_json::from_value::<ConfigMap>(gone).unwrap())), new: None }
        };
        assert_eq!(backoff.reset_on_delete(&gone("other")), []);
        assert_eq!(backoff.reset_on_delete(&gone("ns")), [ObjectRef::new("o").within("ns")]);
        assert_eq!(names(&backoff), Vec::<String>::new());
        assert_eq!(backoff.active(&object("o")).retry_after, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_api_server_starts_no_backoff() {
        let backoff = CreateBackoff::default();
        for code in [0, 401, 429, 500, 503] {
            backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(code))]));
            assert_eq!(names(&backoff), Vec::<String>::new(), "{code}");
        }
    }
}
