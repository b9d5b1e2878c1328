//! Creates with pending watch events: objects that exist on the API server, but not yet in a stale cache.
//!
//! Like client-go's `UIDTrackingControllerExpectations`, they prevent a controller from creating a child twice. They track UIDs
//! instead of counts, so that an event of another object with the same name fulfils nothing. If they are lost, each child
//! costs at most one rejected create: its name is a function of the observed state, so a second create has the same name.
//!
//! A plan omits a create while it is pending: `children/step_filter.rs`, and for pods `clique/plan/creates.rs` of pclq-controller.

use std::collections::BTreeMap;

use grove_api_types::ownership::controller_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

use crate::{
    executor::ExecutionResult,
    group_kind::{group_kind, group_kind_of},
    plan::{Plan, Step, Target},
};

/// Kind and name of a child. Owner and child share their namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildKey {
    /// The group and the kind of the child.
    pub kind: String,
    /// The name of the child.
    pub name: String,
}

impl ChildKey {
    fn of(target: &Target) -> Self {
        Self { kind: group_kind(&target.resource), name: target.name.clone() }
    }
}

/// The state of one create.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PendingCreate {
    /// The UID in the response; absent while the request is in flight, or if its result is unknown.
    uid: Option<String>,
    /// The UID of an object with this key that was deleted while the request was in flight.
    deleted_uid: Option<String>,
    /// The number of relists of the child's cache before the request.
    relists: u64,
}

/// The namespace and the UID of an owner. Its children share the namespace: an owner reference with its UID elsewhere is not valid.
type OwnerKey = (String, String);

/// The expectations of all owners of one controller. An entry is removed when the cache has the child,
/// when the child or its owner is deleted, or at the next relist.
#[derive(Debug, Default)]
pub struct Expectations {
    by_owner: Mutex<BTreeMap<OwnerKey, BTreeMap<ChildKey, PendingCreate>>>,
}

impl Expectations {
    /// Expects the creates of the plan, before they are executed. `relists` is the number of relists of the cache of a kind.
    pub fn expect_creations<Owner: Resource>(&self, owner: &Owner, plan: &Plan, relists: impl Fn(&str) -> u64) {
        let creates = plan.steps().filter(|step| matches!(step, Step::Create(_)));
        let expected: BTreeMap<_, _> = creates
            .map(|step| {
                let key = ChildKey::of(step.target());
                let relists = relists(&key.kind);
                (key, PendingCreate { uid: None, deleted_uid: None, relists })
            })
            .collect();
        if !expected.is_empty() {
            self.by_owner.lock().entry(key_of(owner)).or_default().extend(expected);
        }
    }

    /// Records the UIDs in the responses, and drops the creates that failed.
    pub fn record_results<Owner: Resource>(&self, owner: &Owner, result: &ExecutionResult) {
        let mut by_owner = self.by_owner.lock();
        let Some(pending) = by_owner.get_mut(&key_of(owner)) else { return };
        for step in result.steps.iter().filter(|step| step.verb == "create") {
            let key = ChildKey::of(&step.target);
            match (&step.result, pending.get_mut(&key)) {
                (Ok(()), Some(create)) if create.deleted_uid != step.target.uid => {
                    create.uid.clone_from(&step.target.uid);
                }
                (_, Some(_)) => drop(pending.remove(&key)),
                (_, None) => {}
            }
        }
        // Nothing waits for creates that were not executed or have an unknown result.
        pending.retain(|_, create| create.uid.is_some());
        if pending.is_empty() {
            by_owner.remove(&key_of(owner));
        }
    }

    /// Drops the create of a deleted child. Call it for each delete delta of a child kind. Unlike client-go's
    /// `DeletionObserved`, it concerns no expected delete, because deletes are not expected here.
    pub fn drop_deleted<Child: Resource<DynamicType = ()>>(&self, child: &Child) {
        self.drop_deleted_by_metadata::<Child>(child.meta());
    }

    /// Drops the create of a deleted child with this metadata, for a child that could not be decoded.
    pub fn drop_deleted_by_metadata<Child: Resource<DynamicType = ()>>(&self, child: &ObjectMeta) {
        let mut by_owner = self.by_owner.lock();
        if by_owner.is_empty() {
            return;
        }
        let key = ChildKey { kind: group_kind_of::<Child>(), name: child.name.clone().unwrap_or_default() };
        let namespace = child.namespace.clone().unwrap_or_default();
        let Some(owner) = controller_of(child) else {
            // The child may have lost its controller reference since its creation, so its owner may be any of its namespace.
            by_owner.retain(|(of_owner, _), pending| {
                if *of_owner == namespace {
                    drop_deleted_create(pending, &key, child.uid.as_ref());
                }
                !pending.is_empty()
            });
            return;
        };
        let owner = (namespace, owner.uid.clone());
        let Some(pending) = by_owner.get_mut(&owner) else { return };
        drop_deleted_create(pending, &key, child.uid.as_ref());
        if pending.is_empty() {
            by_owner.remove(&owner);
        }
    }

    /// The children of `owner` with pending watch events. `is_cached` is whether the cache of the kind has the UID, and
    /// `relists` the number of its relists: a list contains every child that still exists.
    pub fn pending<Owner: Resource>(
        &self,
        owner: &Owner,
        is_cached: impl Fn(&ChildKey, &str) -> bool,
        relists: impl Fn(&str) -> u64,
    ) -> PendingCreates {
        let mut by_owner = self.by_owner.lock();
        let Some(pending) = by_owner.get_mut(&key_of(owner)) else { return PendingCreates::default() };
        pending.retain(|key, create| {
            let is_fulfilled = create.uid.as_deref().is_some_and(|uid| is_cached(key, uid));
            !is_fulfilled && create.relists == relists(&key.kind)
        });
        let children = pending.keys().cloned().collect();
        if pending.is_empty() {
            by_owner.remove(&key_of(owner));
        }
        PendingCreates { children }
    }

    /// The number of creates with pending watch events.
    pub fn len(&self) -> usize {
        self.by_owner.lock().values().map(BTreeMap::len).sum()
    }

    /// Whether no watch event is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the expectations of a deleted owner.
    pub fn forget<Owner: Resource>(&self, owner: &Owner) {
        self.by_owner.lock().remove(&key_of(owner));
    }
}

/// Drops a create if its child was deleted. If the request is in flight, its response decides whether this is its child.
fn drop_deleted_create(pending: &mut BTreeMap<ChildKey, PendingCreate>, key: &ChildKey, deleted: Option<&String>) {
    match pending.get_mut(key) {
        Some(create) if create.uid.is_none() => create.deleted_uid = deleted.cloned(),
        Some(create) if create.uid.as_ref() == deleted => drop(pending.remove(key)),
        Some(_) | None => {}
    }
}

fn key_of(owner: &impl Resource) -> OwnerKey {
    (owner.namespace().unwrap_or_default(), owner.uid().unwrap_or_default())
}

/// The children of one owner with pending watch events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCreates {
    /// The children, sorted by kind and name.
    pub children: Vec<ChildKey>,
}

impl PendingCreates {
    /// Whether the cache has all children that the owner created.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Whether the watch event of this child is pending.
    pub fn contains(&self, kind: &str, name: &str) -> bool {
        let order = |child: &ChildKey| (child.kind.as_str(), child.name.as_str()).cmp(&(kind, name));
        self.children.binary_search_by(order).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use grove_test_support::mock_api_server::config_map;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{executor::StepResult, plan::Stage};
    use grove_runtime::api_error::ApiError;

    fn object(name: &str) -> ConfigMap {
        serde_json::from_value(config_map(name, 1, "uid-o")).unwrap()
    }

    fn plan(names: &[&str]) -> Plan {
        Plan::new().stage(Stage::new("s", names.iter().map(|name| Step::create(&object(name)))))
    }

    /// The result of creates: each name with its UID, or without one for a failure.
    fn result(creates: &[(&str, Option<&str>)]) -> ExecutionResult {
        let step = |(name, uid): &(&str, Option<&str>)| {
            let target = Target { uid: uid.map(str::to_owned), ..Target::of(&object(name)) };
            let result = uid.map(drop).ok_or_else(|| ApiError::new(500, "InternalError", "x"));
            StepResult::new("s", "create", target, result)
        };
        ExecutionResult { steps: creates.iter().map(step).collect() }
    }

    fn pending(expectations: &Expectations, cached: &[&str], relists: u64) -> Vec<String> {
        let pending = expectations.pending(&object("o"), |_, uid| cached.contains(&uid), |_| relists);
        pending.children.into_iter().map(|child| child.name).collect()
    }

    fn expecting(creates: &[(&str, Option<&str>)]) -> Expectations {
        let expectations = Expectations::default();
        expectations.expect_creations(&object("o"), &plan(&["a", "b", "c"]), |_| 1);
        expectations.record_results(&object("o"), &result(creates));
        expectations
    }

    #[test]
    fn a_created_child_is_pending_until_the_cache_has_its_uid() {
        let expectations = expecting(&[("a", Some("1")), ("b", None)]);
        assert_eq!(pending(&expectations, &[], 1), ["a"], "b failed, and c was not requested");
        assert_eq!(pending(&expectations, &["another"], 1), ["a"]);
        assert_eq!(pending(&expectations, &["1"], 1), Vec::<String>::new());
        assert!(expectations.by_owner.lock().is_empty());
    }

    #[test]
    fn a_relist_fulfils_every_expectation() {
        let expectations = expecting(&[("a", Some("1"))]);
        assert_eq!(pending(&expectations, &[], 2), Vec::<String>::new());
        assert!(expectations.by_owner.lock().is_empty());
    }

    #[test]
    fn a_deleted_child_is_not_pending() {
        let expectations = expecting(&[("a", Some("1")), ("b", Some("2"))]);
        let deleted = |uid: &str| {
            let mut child = object("a");
            child.metadata.uid = Some(uid.into());
            expectations.drop_deleted(&child);
        };
        deleted("predecessor");
        assert_eq!(pending(&expectations, &[], 1), ["a", "b"]);
        deleted("1");
        assert_eq!(pending(&expectations, &[], 1), ["b"]);
    }

    #[test]
    fn a_deleted_child_that_lost_its_controller_reference_is_not_pending() {
        let expectations = expecting(&[("a", Some("1"))]);
        let mut child = object("a");
        (child.metadata.uid, child.metadata.owner_references) = (Some("1".into()), None);
        expectations.drop_deleted(&child);
        assert!(expectations.by_owner.lock().is_empty());
    }

    #[test]
    fn a_deletion_in_another_namespace_drops_no_create() {
        let expectations = Expectations::default();
        expectations.expect_creations(&object("o"), &plan(&["a"]), |_| 1);
        for name in ["", "another"] {
            let namespace = Some(name.to_owned()).filter(|name| !name.is_empty());
            let uid = Some("another".to_owned());
            let child = ObjectMeta { name: Some("a".into()), uid, namespace, ..ObjectMeta::default() };
            expectations.drop_deleted_by_metadata::<ConfigMap>(&child);
        }
        let genuine = |expectations: &Expectations| {
            expectations
                .by_owner
                .lock()
                .values()
                .all(|pending| pending.values().all(|create| create.deleted_uid.is_none()))
        };
        assert!(genuine(&expectations), "{expectations:?}");
        expectations.record_results(&object("o"), &result(&[("a", Some("1"))]));
        assert_eq!(pending(&expectations, &[], 1), ["a"]);
    }

    #[test]
    fn a_child_is_not_pending_if_its_delete_event_precedes_the_response_to_its_create() {
        let expectations = Expectations::default();
        expectations.expect_creations(&object("o"), &plan(&["a"]), |_| 1);
        let mut child = object("a");
        child.metadata.uid = Some("1".into());
        expectations.drop_deleted(&child);
        expectations.record_results(&object("o"), &result(&[("a", Some("1"))]));
        assert_eq!(pending(&expectations, &[], 1), Vec::<String>::new());
    }

    #[test]
    fn a_child_without_a_controller_reference_is_not_pending_if_its_delete_event_precedes_the_response() {
        let expectations = Expectations::default();
        expectations.expect_creations(&object("o"), &plan(&["a"]), |_| 1);
        let mut child = object("a").metadata;
        (child.uid, child.owner_references) = (Some("1".into()), None);
        expectations.drop_deleted_by_metadata::<ConfigMap>(&child);
        expectations.record_results(&object("o"), &result(&[("a", Some("1"))]));
        assert!(expectations.is_empty());
    }

    #[test]
    fn a_pending_child_is_found_by_kind_and_name() {
        let expectations = expecting(&[("a", Some("1")), ("c", Some("3"))]);
        let pending = expectations.pending(&object("o"), |_, _| false, |_| 1);
        assert_eq!(["a", "b", "c"].map(|name| pending.contains("ConfigMap", name)), [true, false, true]);
        assert!(!pending.contains("Secret", "a"));
    }

    #[test]
    fn the_expectations_of_a_deleted_owner_are_dropped() {
        let expectations = expecting(&[("a", Some("1"))]);
        expectations.forget(&object("o"));
        assert!(expectations.by_owner.lock().is_empty());
    }
}
