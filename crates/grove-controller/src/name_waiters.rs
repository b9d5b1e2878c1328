//! Owners that wait for a name: they are triggered when the object that has the name of a desired child changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grove_api_types::ownership::is_controlled_by;
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use parking_lot::Mutex;

use crate::name_conflict::NameConflict;

/// The waiting owners of one kind. A clone shares them.
///
/// A registration ends when the object changes or is deleted, or when the owner is deleted.
#[derive(Debug)]
pub struct NameWaiters<Owner> {
    owners: Cache<Owner>,
    waiters: Arc<Mutex<BTreeMap<ObjectKey, BTreeSet<Waiter>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectKey {
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

impl ObjectKey {
    fn new<K: Resource<DynamicType = ()>>(namespace: String, name: &str) -> Self {
        let (group, kind) = (K::group(&()).into_owned(), K::kind(&()).into_owned());
        Self { group, kind, namespace, name: name.to_owned() }
    }
}

/// An owner. The uid distinguishes it from a later owner of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    namespace: String,
    name: String,
    uid: String,
}

impl Waiter {
    fn new(owner: &impl Resource) -> Self {
        let namespace = owner.namespace().unwrap_or_default();
        Self { namespace, name: owner.name_any(), uid: owner.uid().unwrap_or_default() }
    }
}

impl<Owner> Clone for NameWaiters<Owner> {
    fn clone(&self) -> Self {
        Self { owners: self.owners.clone(), waiters: Arc::clone(&self.waiters) }
    }
}

impl<Owner: Resource<DynamicType = ()>> NameWaiters<Owner> {
    /// No owner waits yet. The owners are reconciled from the cache `owners`.
    pub fn new(owners: &Cache<Owner>) -> Self {
        Self { owners: owners.clone(), waiters: Arc::default() }
    }

    /// The objects with these names in the cache that `owner` does not control, or that could not be decoded. `owner` waits for
    /// each of them from now on.
    pub fn name_conflicts<K>(
        &self,
        cache: &Cache<K>,
        owner: &Owner,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Vec<NameConflict>
    where
        K: Resource<DynamicType = ()>,
    {
        let namespace = owner.namespace().unwrap_or_default();
        let foreign = |name: &str| {
            if let Some(object) = cache.unreadable(&namespace, name) {
                return Some(NameConflict::with_unreadable::<K>(&object));
            }
            let object = cache.get(&namespace, name).filter(|object| !is_controlled_by(&**object, owner));
            object.map(|object| NameConflict::with(&*object))
        };
        let conflict = |name: &str| {
            foreign(name)?;
            let key = ObjectKey::new::<K>(namespace.clone(), name);
            self.register(&key, owner);
            // Read again after the registration: the delta of any later change finds the owner registered.
            let conflict = foreign(name);
            if conflict.is_none() {
                self.unregister(&key, owner);
            }
            conflict
        };
        names.into_iter().filter_map(|name| conflict(name.as_ref())).collect()
    }

    /// Removes and returns the owners that wait for the object of this delta. They register again in their next reconcile if
    /// the conflict continues.
    pub fn take<K: Resource<DynamicType = ()>>(&self, delta: &Delta<K>) -> Vec<ObjectRef<Owner>> {
        delta.object().map(|object| self.take_by_name::<K>(object.meta())).unwrap_or_default()
    }

    /// Removes and returns the owners that wait for the object of kind `K` with this metadata.
    pub fn take_by_name<K: Resource<DynamicType = ()>>(&self, metadata: &ObjectMeta) -> Vec<ObjectRef<Owner>> {
        let mut waiters = self.waiters.lock();
        if waiters.is_empty() {
            return vec![];
        }
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.as_deref());
        let key = ObjectKey::new::<K>(namespace.unwrap_or_default(), name.unwrap_or_default());
        let waiting = waiters.remove(&key).unwrap_or_default();
        waiting.into_iter().map(|waiter| ObjectRef::new(&waiter.name).within(&waiter.namespace)).collect()
    }

    /// The number of registrations.
    pub fn len(&self) -> usize {
        self.waiters.lock().values().map(BTreeSet::len).sum()
    }

    /// Whether no owner waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all registrations of an owner after its deletion.
    pub fn forget(&self, owner: &Owner) {
        let waiter = Waiter::new(owner);
        self.waiters.lock().retain(|_, waiting| {
            waiting.remove(&waiter);
            !waiting.is_empty()
        });
    }

    fn register(&self, key: &ObjectKey, owner: &Owner) {
        let waiter = Waiter::new(owner);
        let mut waiters = self.waiters.lock();
        // A reconcile may still run after `forget`. The check is under the lock: an owner that is still in the cache here is
        // forgotten later.
        let cached = self.owners.get(&waiter.namespace, &waiter.name);
        if cached.is_some_and(|cached| cached.uid() == owner.uid()) {
            waiters.entry(key.clone()).or_default().insert(waiter);
        }
    }

    fn unregister(&self, key: &ObjectKey, owner: &Owner) {
        let mut waiters = self.waiters.lock();
        let Some(waiting) = waiters.get_mut(key) else { return };
        waiting.remove(&Waiter::new(owner));
        if waiting.is_empty() {
            waiters.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use grove_runtime::caches::{InformerOptions, UnreadableObject};
    use grove_test_support::mock_api_server::config_map;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u32, owner: &str) -> Arc<ConfigMap> {
        Arc::new(serde_json::from_value(config_map(name, version, owner)).unwrap())
    }

    fn owner(name: &str, uid: &str) -> Secret {
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "ns", "uid": uid } })).unwrap()
    }

    fn names(conflicts: &[NameConflict]) -> Vec<&str> {
        conflicts.iter().map(|conflict| conflict.target.name.as_str()).collect()
    }

    fn changed(name: &str) -> Delta<ConfigMap> {
        Delta { old: Some(object(name, 1, "owner")), new: Some(object(name, 2, "owner")) }
    }

    fn deleted(name: &str) -> Delta<ConfigMap> {
        Delta { old: Some(object(name, 1, "owner")), new: None }
    }

    struct Fixture {
        cache: Cache<ConfigMap>,
        waiters: NameWaiters<Secret>,
    }

    impl Fixture {
        fn with_owners(owners: &[&Secret]) -> Self {
            let objects = ["a", "b"].map(|name| ConfigMap::clone(&object(name, 1, "owner")));
            let owners = Cache::from_objects(owners.iter().map(|&owner| owner.clone()));
            Self { cache: Cache::from_objects(objects), waiters: NameWaiters::new(&owners) }
        }

        fn conflicts(&self, owner: &Secret, names: &[&str]) -> Vec<NameConflict> {
            self.waiters.name_conflicts(&self.cache, owner, names.iter().copied())
        }

        fn triggered(&self, delta: &Delta<ConfigMap>) -> Vec<String> {
            self.waiters.take(delta).into_iter().map(|owner| owner.name).collect()
        }
    }

    #[test]
    fn an_owner_is_triggered_once_when_the_object_with_its_name_changes_or_is_deleted() {
        let (own, other) = (owner("own", "owner"), owner("other", "another"));
        let fixture = Fixture::with_owners(&[&own, &other]);
        assert!(fixture.conflicts(&own, &["a", "b", "free"]).is_empty(), "the owner controls a and b");
        assert_eq!(names(&fixture.conflicts(&other, &["a", "free"])), ["a"]);

        assert!(fixture.triggered(&changed("b")).is_empty());
        assert_eq!(fixture.triggered(&changed("a")), ["other"]);
        assert!(fixture.triggered(&changed("a")).is_empty(), "the owner did not register again");
        fixture.conflicts(&other, &["a"]);
        assert_eq!(fixture.triggered(&deleted("a")), ["other"]);
    }

    #[test]
    fn an_owner_waits_for_an_unreadable_object_also_if_it_controls_the_object() {
        let own = owner("own", "owner");
        let owners = Cache::from_objects([own.clone()]);
        let (cache, writer) = Cache::with_writer(InformerOptions::default());
        let waiters = NameWaiters::new(&owners);
        let conflicts = || waiters.name_conflicts(&cache, &own, ["a"]);
        writer.apply(ConfigMap::clone(&object("a", 1, "owner")));
        assert!(conflicts().is_empty());
        let mut metadata = object("a", 2, "owner").metadata.clone();
        writer.apply_unreadable(UnreadableObject { metadata: metadata.clone(), reason: "r".into() });
        assert_eq!(names(&conflicts()), ["a"]);
        assert_eq!(conflicts()[0].unreadable.as_deref(), Some("r"));
        metadata.name = Some("b".into());
        assert!(waiters.take_by_name::<ConfigMap>(&metadata).is_empty());
        let repaired = writer.apply(ConfigMap::clone(&object("a", 3, "owner")));
        assert_eq!(repaired.iter().flat_map(|delta| waiters.take(delta)).count(), 1);
        assert!(conflicts().is_empty());
    }

    #[test]
    fn an_object_of_another_kind_with_that_name_triggers_no_owner() {
        let other = owner("other", "another");
        let fixture = Fixture::with_owners(&[&other]);
        fixture.conflicts(&other, &["a"]);
        let secret = Delta { old: None, new: Some(Arc::new(owner("a", "u"))) };
        assert!(fixture.waiters.take(&secret).is_empty());
        assert_eq!(fixture.triggered(&changed("a")), ["other"]);
    }

    #[test]
    fn a_deleted_owner_is_not_registered_any_more() {
        let (other, third) = (owner("other", "another"), owner("third", "third"));
        let fixture = Fixture::with_owners(&[&other, &third]);
        fixture.conflicts(&other, &["a", "b"]);
        fixture.conflicts(&third, &["b"]);
        fixture.waiters.forget(&other);
        assert!(fixture.triggered(&changed("a")).is_empty());
        assert_eq!(fixture.triggered(&changed("b")), ["third"]);
        assert!(fixture.waiters.waiters.lock().is_empty());
    }

    #[test]
    fn a_reconcile_that_ends_after_the_deletion_of_its_owner_registers_nothing() {
        let (other, successor) = (owner("other", "another"), owner("other", "successor"));
        let fixture = Fixture::with_owners(&[&successor]);
        assert_eq!(names(&fixture.conflicts(&other, &["a"])), ["a"]);
        assert!(fixture.waiters.waiters.lock().is_empty());
        fixture.conflicts(&successor, &["a"]);
        fixture.waiters.forget(&other);
        assert_eq!(fixture.triggered(&changed("a")), ["other"], "the successor of that name still waits");
    }

    /// The owner registers while the object is deleted. Either it reads the deletion, or the delta triggers it.
    #[test]
    fn no_trigger_is_lost_when_the_object_is_deleted_during_the_registration() {
        let other = owner("other", "another");
        for _ in 0..200 {
            let Fixture { waiters, .. } = Fixture::with_owners(&[&other]);
            let (cache, writer) = Cache::with_writer(InformerOptions::default());
            writer.apply(ConfigMap::clone(&object("a", 1, "owner")));
            let start = Barrier::new(2);
            let (conflicts, triggered) = std::thread::scope(|scope| {
                let triggered = scope.spawn(|| {
                    start.wait();
                    let deltas = writer.delete(ConfigMap::clone(&object("a", 2, "owner")));
                    deltas.iter().flat_map(|delta| waiters.take(delta)).count()
                });
                start.wait();
                (waiters.name_conflicts(&cache, &other, ["a"]).len(), triggered.join().unwrap())
            });
            assert!(triggered >= conflicts, "{conflicts} conflicts, {triggered} triggers");
            assert!(waiters.waiters.lock().is_empty());
        }
    }
}
