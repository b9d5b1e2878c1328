//! The objects of one kind, by name and by owner, and what each event changes about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grove_api_types::ownership::controller_of;
use kube::{Resource, ResourceExt};

use super::{Delta, Filter, Slot};
use crate::resource_version::is_older;

/// Stands for the owner of objects that nobody controls.
const NO_OWNER: &str = "";

type ByName<K> = BTreeMap<String, Arc<K>>;

#[derive(Debug)]
pub(super) struct Indexer<K> {
    slot: Option<Slot<K>>,
    filter: Option<Filter<K>>,
    /// Whether an object of the same version is the same.
    trusts_versions: bool,
    by_namespace: BTreeMap<String, ByName<K>>,
    by_owner: BTreeMap<String, BTreeMap<(String, String), Arc<K>>>,
    departed: BTreeMap<String, BTreeMap<String, Arc<K>>>,
    /// Owners that are gone while children of theirs still leave: nobody will ask who those were.
    forgotten: BTreeSet<String>,
    /// Who waits for the next change of the object of that namespace and name.
    name_waiters: BTreeMap<(String, String), BTreeSet<NameWaiter>>,
}

/// An object that wants a name which another one has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NameWaiter {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl<K> Indexer<K> {
    pub(super) fn new(slot: Option<Slot<K>>, filter: Option<Filter<K>>) -> Self {
        let (by_namespace, by_owner, departed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (forgotten, name_waiters) = (BTreeSet::new(), BTreeMap::new());
        Self { slot, filter, trusts_versions: true, by_namespace, by_owner, departed, forgotten, name_waiters }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.by_namespace.get(namespace)?.get(name).cloned()
    }

    pub(super) fn owned_by(&self, owner_uid: &str) -> Vec<Arc<K>> {
        let children = self.by_owner.get(owner_uid).filter(|_| owner_uid != NO_OWNER);
        children.into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The objects of the namespace that nobody controls, sorted by name.
    pub(super) fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        let first = (namespace.to_owned(), String::new());
        let objects = self.by_owner.get(NO_OWNER).into_iter().flat_map(|objects| objects.range(first.clone()..));
        objects.take_while(|((within, _), _)| within == namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn departed(&self, owner_uid: &str) -> Vec<Arc<K>> {
        self.departed.get(owner_uid).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn forget_owner(&mut self, owner_uid: &str) {
        self.departed.remove(owner_uid);
        if self.by_owner.contains_key(owner_uid) {
            self.forgotten.insert(owner_uid.to_owned());
        }
    }

    #[cfg(test)]
    pub(super) fn forgets_nobody(&self) -> bool {
        self.forgotten.is_empty()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.by_namespace.values().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_namespace.values().map(BTreeMap::len).sum()
    }
}

impl<K: Resource<DynamicType = ()>> Indexer<K> {
    /// Takes a complete list: what it lacks has vanished, what it repeats has not changed, unless something in it is older
    /// than it was known to be.
    pub(super) fn replace(&mut self, objects: Vec<K>) -> Vec<Delta<K>> {
        let is_outdated = |object: &K| {
            let (namespace, name) = key(object);
            self.get(&namespace, &name).is_some_and(|known| known.uid() == object.uid() && is_older(object, &*known))
        };
        if objects.iter().any(is_outdated) {
            return self.replace_all(objects);
        }
        self.replace_with(objects)
    }

    fn replace_with(&mut self, objects: Vec<K>) -> Vec<Delta<K>> {
        let mut vanished: BTreeMap<_, _> = self.all().into_iter().map(|object| (key(&*object), object)).collect();
        let mut changes = vec![];
        for object in objects {
            vanished.remove(&key(&object));
            changes.extend(self.apply(object));
        }
        let gone = vanished.into_values().flat_map(|object| self.remove_entry(object));
        changes.splice(0..0, gone.collect::<Vec<_>>());
        changes
    }

    /// The same, of a server that was set back: what looks the same may differ.
    pub(super) fn replace_all(&mut self, objects: Vec<K>) -> Vec<Delta<K>> {
        self.trusts_versions = false;
        let changes = self.replace_with(objects);
        self.trusts_versions = true;
        changes
    }

    /// Takes one object that came or changed. One that is not to be kept, or no longer, counts as gone.
    pub(super) fn apply(&mut self, object: K) -> Vec<Delta<K>> {
        let (namespace, name) = key(&object);
        let before = self.get(&namespace, &name);
        if self.filter.is_some_and(|filter| !filter(&object)) {
            // What is remembered is what it was while it mattered.
            return before.into_iter().flat_map(|before| self.remove_entry(before)).collect();
        }
        if self.trusts_versions && before.as_ref().is_some_and(|before| is_same_version(&**before, &object)) {
            return vec![];
        }
        let is_successor = before.as_ref().is_some_and(|before| before.uid() != object.uid());
        let mut changes = vec![];
        let before = match before {
            // The deletion in between went unseen.
            Some(predecessor) if is_successor => {
                changes.extend(self.remove_entry(predecessor));
                None
            }
            other => other,
        };
        let after = Arc::new(object);
        self.unlink(before.as_deref());
        let siblings = self.by_owner.entry(owner_uid(&*after)).or_default();
        siblings.insert((namespace.clone(), name.clone()), Arc::clone(&after));
        self.by_namespace.entry(namespace).or_default().insert(name, Arc::clone(&after));
        changes.push(Delta { old: before, new: Some(after) });
        changes
    }

    /// Takes the final state of one object that was deleted.
    pub(super) fn remove(&mut self, object: K) -> Vec<Delta<K>> {
        let (namespace, name) = key(&object);
        let known = self.get(&namespace, &name);
        if known.as_ref().is_some_and(|known| known.uid() != object.uid()) {
            // Its successor is here already; the change was told when that came.
            return vec![];
        }
        if self.filter.is_some_and(|filter| !filter(&object)) {
            return known.into_iter().flat_map(|known| self.remove_entry(known)).collect();
        }
        self.remove_entry(Arc::new(object))
    }

    /// Remembers that `waiter` wants the name of that object, until the object changes.
    pub(super) fn register_name_waiter(&mut self, namespace: &str, name: &str, waiter: NameWaiter) {
        self.name_waiters.entry((namespace.to_owned(), name.to_owned())).or_default().insert(waiter);
    }

    /// Those of one kind that waited for this object to change. They are told once.
    pub(super) fn take_name_waiters(&mut self, changed: &K, kind: &str) -> Vec<NameWaiter> {
        if self.name_waiters.is_empty() {
            return vec![];
        }
        let key = key(changed);
        let Some(waiting) = self.name_waiters.get_mut(&key) else { return vec![] };
        let told = waiting.extract_if(.., |waiter| waiter.kind == kind).collect();
        if waiting.is_empty() {
            self.name_waiters.remove(&key);
        }
        told
    }

    fn remove_entry(&mut self, last: Arc<K>) -> Vec<Delta<K>> {
        let owner = owner_uid(&*last);
        if let Some(slot) = self.slot.and_then(|slot| slot(&last))
            && owner != NO_OWNER
            && !self.forgotten.contains(&owner)
        {
            self.departed.entry(owner).or_default().insert(slot, Arc::clone(&last));
        }
        let (namespace, name) = key(&*last);
        if let Some(names) = self.by_namespace.get_mut(&namespace) {
            let known = names.remove(&name);
            if names.is_empty() {
                self.by_namespace.remove(&namespace);
            }
            self.unlink(known.as_deref());
        }
        vec![Delta { old: Some(last), new: None }]
    }

    fn unlink(&mut self, object: Option<&K>) {
        let Some((object, owner)) = object.map(|object| (object, owner_uid(object))) else { return };
        let Some(children) = self.by_owner.get_mut(&owner) else { return };
        children.remove(&key(object));
        if children.is_empty() {
            self.by_owner.remove(&owner);
            self.forgotten.remove(&owner);
        }
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn owner_uid<K: Resource>(object: &K) -> String {
    controller_of(object.meta()).map_or_else(|| NO_OWNER.to_owned(), |owner| owner.uid.clone())
}

fn is_same_version<K: Resource>(a: &K, b: &K) -> bool {
    a.uid() == b.uid() && a.resource_version().is_some() && a.resource_version() == b.resource_version()
}
