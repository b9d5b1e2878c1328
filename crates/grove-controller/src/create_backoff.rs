//! Creates of children that the API server rejected. Each owner retries them with exponential backoff, and sooner when an object
//! of the namespace is deleted, since that may free quota. A create in a terminating namespace is no rejection: the executor
//! ignores it.
//!
//! A reconcile with a rejected create also fails, so the rate limiter of the controller enqueues the owner again. The backoff
//! decides whether that reconcile sends the create. Until the backoff ends, the plan omits the create and requeues the owner.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use grove_api_types::error_codes;
use grove_runtime::{api_error::ApiError, backoff::Backoff, caches::Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    executor::ExecutionResult,
    plan::{Plan, Target},
};

/// A child with a rejected create, and the error.
pub type RejectedCreate = (Target, ApiError);

/// The children of one owner that wait for their retry.
#[derive(Clone, Debug, Default)]
pub struct BackedOffCreates {
    /// The children.
    pub children: Vec<RejectedCreate>,
    /// The time until their retry; absent if nothing waits.
    pub retry_after: Option<Duration>,
    /// Whether the backoff has ended, so that this reconcile retries the creates.
    pub is_retry: bool,
}

impl BackedOffCreates {
    /// How many children may be created now if all of them are alike: none during the backoff, and only one in the retry,
    /// because the API server would reject the others for the same reason.
    pub fn max_alike_creates(&self) -> usize {
        match (self.children.is_empty(), self.is_retry) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => usize::MAX,
        }
    }

    /// The verb, the object and the error of each failed write: the creates that wait for their retry, then the steps that
    /// failed in this reconcile.
    pub fn failed_writes<'a>(
        &'a self,
        result: &'a ExecutionResult,
    ) -> impl Iterator<Item = (&'static str, &'a Target, &'a ApiError)> {
        let earlier = self.children.iter().map(|(target, error)| ("create", target, error));
        earlier.chain(result.failed_steps().map(|(step, error)| (step.verb, &step.target, error)))
    }

    /// The code and the description of each failed write, for `lastErrors` of its owner.
    pub fn last_errors<'a, Owner: Resource<DynamicType = ()>>(
        &'a self,
        result: &'a ExecutionResult,
    ) -> impl Iterator<Item = (String, String)> {
        self.failed_writes(result).map(|(verb, target, error)| {
            let code = error_codes::for_write(&Owner::kind(&()), &target.resource.kind, verb);
            (code.to_owned(), format!("could not {verb} {target}: {error}"))
        })
    }

    /// The plan without the creates of these children, and without the later creates in the same failure domains.
    pub fn remove_from(&self, plan: Plan) -> Plan {
        let plan = plan.skip_creates(self.children.iter().map(|(target, _)| target));
        match self.retry_after {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

/// The rejected creates of all owners of kind `K`. A clone shares its entries. An entry is removed when a retry succeeds, or
/// when the owner is deleted.
#[derive(Debug)]
pub struct CreateBackoff<K> {
    by_owner_uid: Arc<Mutex<BTreeMap<String, RejectedCreates>>>,
    children_are_alike: bool,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for CreateBackoff<K> {
    fn clone(&self) -> Self {
        let Self { by_owner_uid, children_are_alike, kind } = self;
        Self { by_owner_uid: Arc::clone(by_owner_uid), children_are_alike: *children_are_alike, kind: *kind }
    }
}

impl<K> Default for CreateBackoff<K> {
    /// For children that differ from each other. A rejection concerns one of them, and a change of the owner alone causes no
    /// retry.
    fn default() -> Self {
        Self { by_owner_uid: Arc::default(), children_are_alike: false, kind: PhantomData }
    }
}

impl<K> CreateBackoff<K> {
    /// For children that are created from one template, under names that the owner chooses. A rejection concerns all of them:
    /// see [`BackedOffCreates::max_alike_creates`]. A name conflict is no rejection, because the next create has another
    /// name. A new generation of the owner may have another template, so its children are created at once.
    pub fn of_alike_children() -> Self {
        Self { children_are_alike: true, ..Self::default() }
    }
}

/// The parts of an owner that alike children are created from: they copy its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnerVersion {
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl OwnerVersion {
    fn of(owner: &impl Resource) -> Self {
        let ObjectMeta { generation, labels, annotations, .. } = owner.meta().clone();
        Self { generation, labels, annotations }
    }
}

/// The children of one owner with rejected creates, and their backoff.
#[derive(Debug)]
struct RejectedCreates {
    namespace: String,
    name: String,
    /// The owner at the time of the rejection, as far as its children depend on it.
    owner_version: OwnerVersion,
    children: Vec<RejectedCreate>,
    backoff: Backoff,
    due: Instant,
}

impl<K: Resource<DynamicType = ()>> CreateBackoff<K> {
    /// The children of `owner` that wait for their retry.
    pub fn active(&self, owner: &K) -> BackedOffCreates {
        let (by_owner_uid, now) = (self.by_owner_uid.lock(), Instant::now());
        let Some(entry) = by_owner_uid.get(&owner.uid().unwrap_or_default()) else {
            return BackedOffCreates::default();
        };
        let has_changed = self.children_are_alike && entry.owner_version != OwnerVersion::of(owner);
        if has_changed || entry.due <= now {
            return BackedOffCreates { is_retry: true, ..BackedOffCreates::default() };
        }
        let (children, retry_after) = (entry.children.clone(), Some(entry.due.duration_since(now)));
        BackedOffCreates { children, retry_after, is_retry: false }
    }

    /// Records the rejected creates of a plan from which `active` was removed.
    pub fn record(&self, owner: &K, active: &BackedOffCreates, result: &ExecutionResult) {
        let creates = result.failed_steps().filter(|(step, error)| step.verb == "create" && self.is_rejection(error));
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
            RejectedCreates {
                namespace,
                name,
                owner_version: OwnerVersion::of(owner),
                children: vec![],
                backoff,
                due: now,
            }
        });
        (entry.children, entry.owner_version) = (children, OwnerVersion::of(owner));
        if is_retry {
            entry.due = now + entry.backoff.next_delay();
        }
    }

    /// Whether the error delays the retry of the create.
    fn is_rejection(&self, error: &ApiError) -> bool {
        error.is_object_specific() && !(self.children_are_alike && error.code == 409)
    }

    /// Drops the entry of a deleted owner.
    pub fn forget(&self, owner: &K) {
        self.by_owner_uid.lock().remove(&owner.uid().unwrap_or_default());
    }

    /// Ends the backoff of all owners in the namespace of a deleted object, and returns these owners. An owner
    /// without a running backoff already has its retry.
    pub fn reset_on_delete<C: Resource>(&self, delta: &Delta<C>) -> Vec<ObjectRef<K>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let Some(namespace) = deleted.and_then(|object| object.namespace()) else { return vec![] };
        let (mut by_owner_uid, now) = (self.by_owner_uid.lock(), Instant::now());
        let entries = by_owner_uid.values_mut().filter(|entry| entry.namespace == namespace && entry.due > now);
        let owners = entries.map(|entry| {
            entry.due = now;
            // A quota counts a deletion a little later, so the retry may be too early. The next delays are short again.
            entry.backoff = Backoff::for_objects();
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
        let deletion = |namespace: &str| {
            let object = json!({ "metadata": { "name": "x", "namespace": namespace } });
            Delta { old: Some(Arc::new(serde_json::from_value::<ConfigMap>(object).unwrap())), new: None }
        };
        assert_eq!(backoff.reset_on_delete(&deletion("other")), []);
        assert_eq!(backoff.reset_on_delete(&deletion("ns")), [ObjectRef::new("o").within("ns")]);
        assert_eq!(names(&backoff), Vec::<String>::new());
        assert_eq!(backoff.active(&object("o")).retry_after, None);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_are_short_again_after_a_deletion() {
        let backoff = CreateBackoff::default();
        for _ in 0..6 {
            backoff.record(&object("o"), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
        }
        assert!(backoff.active(&object("o")).retry_after > Some(Duration::from_secs(5)));
        let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
        assert_eq!(backoff.reset_on_delete(&deleted).len(), 1);
        backoff.record(&object("o"), &backoff.active(&object("o")), &result(&[("a", Some(403))]));
        assert_eq!(backoff.active(&object("o")).retry_after, Some(Duration::from_millis(500)));
    }

    /// Records a rejected create of alike children of an owner of generation 1.
    fn alike(code: u16) -> CreateBackoff<ConfigMap> {
        let backoff = CreateBackoff::of_alike_children();
        backoff.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("a", Some(code)), ("b", None)]));
        backoff
    }

    fn of_generation(generation: i64) -> ConfigMap {
        let mut owner = object("o");
        owner.metadata.generation = Some(generation);
        owner
    }

    fn max_creates(backoff: &CreateBackoff<ConfigMap>, generation: i64) -> usize {
        backoff.active(&of_generation(generation)).max_alike_creates()
    }

    #[tokio::test(start_paused = true)]
    async fn alike_children_are_not_created_during_the_backoff_and_one_is_its_retry() {
        let backoff = alike(403);
        assert_eq!(max_creates(&backoff, 1), 0);
        tokio::time::advance(backoff.active(&of_generation(1)).retry_after.unwrap()).await;
        assert_eq!(max_creates(&backoff, 1), 1);
        backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("a", Some(503))]));
        assert_eq!(max_creates(&backoff, 1), 1, "a result without a response of the API server proves nothing");
        backoff.record(&of_generation(1), &backoff.active(&of_generation(1)), &result(&[("c", Some(422))]));
        assert_eq!(max_creates(&backoff, 1), 0);
        backoff.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("c", None)]));
        assert_eq!(max_creates(&backoff, 1), usize::MAX);
        assert!(backoff.by_owner_uid.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_generation_of_the_owner_retries_only_alike_children() {
        let backoff = alike(403);
        assert_eq!((max_creates(&backoff, 1), max_creates(&backoff, 2)), (0, 1));
        backoff.record(&of_generation(2), &backoff.active(&of_generation(2)), &result(&[("a", Some(403))]));
        assert_eq!(max_creates(&backoff, 2), 0);
        let different = CreateBackoff::default();
        different.record(&of_generation(1), &BackedOffCreates::default(), &result(&[("a", Some(403))]));
        assert!(!different.active(&of_generation(2)).children.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_label_or_annotation_of_the_owner_retries_alike_children() {
        let backoff = alike(403);
        let (mut labelled, mut annotated) = (of_generation(1), of_generation(1));
        labelled.labels_mut().insert("team".into(), "x".into());
        annotated.annotations_mut().insert("team".into(), "x".into());
        let max_creates = |owner| backoff.active(owner).max_alike_creates();
        assert_eq!([&of_generation(1), &labelled, &annotated].map(max_creates), [0, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_retries_an_owner_only_during_its_backoff() {
        let backoff = alike(403);
        let deleted = Delta { old: Some(Arc::new(object("x"))), new: None };
        assert_eq!([1, 2].map(|_| backoff.reset_on_delete(&deleted).len()), [1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_conflict_and_an_unavailable_server_are_no_rejections_of_alike_children() {
        for code in [0, 409, 500, 503] {
            assert_eq!(max_creates(&alike(code), 1), usize::MAX, "{code}");
        }
        for code in [403, 422] {
            assert_eq!(max_creates(&alike(code), 1), 0, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_owner_has_no_entry() {
        let backoff = alike(403);
        backoff.forget(&object("o"));
        assert!(backoff.by_owner_uid.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn creates_that_wait_for_their_retry_precede_the_failed_steps() {
        let (active, result) = (alike(403).active(&of_generation(1)), result(&[("b", None), ("c", Some(422))]));
        let failed: Vec<_> =
            active.failed_writes(&result).map(|(verb, target, error)| (verb, &*target.name, error.code)).collect();
        assert_eq!(failed, [("create", "a", 403), ("create", "c", 422)]);
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
