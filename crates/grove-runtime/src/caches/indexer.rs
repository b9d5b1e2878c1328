//! The indexer (client-go's `Indexer`): the objects of one kind by name and by named indices, and the deltas of each event.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grove_api_types::ownership::controller_of;
use grove_api_types::resource_version::is_older;
use kube::{Resource, ResourceExt};

use super::{
    Cache, Delta,
    index_scope::IndexScope,
    sums::{Sum, Totals},
    unreadable_objects::{self, DecodedObject, UnreadableObject, UnreadableObjects},
};

/// Whether the cache stores an object. An object that does not pass any more counts as deleted.
pub type Filter<K> = fn(&K) -> bool;

/// Computes the values under which an index lists an object (client-go's `IndexFunc`).
pub type IndexFn<K> = for<'a> fn(&'a K) -> Vec<Cow<'a, str>>;

/// A named index: it finds objects by a value that is computed from each object, for example by a label.
#[derive(Debug)]
pub struct Index<K> {
    /// The name, unique within an informer.
    pub name: &'static str,
    /// The values of an object. It must depend on nothing but the object.
    pub values: IndexFn<K>,
    /// Whether objects of different namespaces can have the same value.
    pub scope: IndexScope,
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Index<K> {}

impl<K: Resource> Index<K> {
    /// Objects by their namespace and the uid of their controller. Any user can write an owner reference with the uid of an object of another
    /// namespace; Kubernetes has no such owners.
    pub const OWNER: Self = Self { name: "owner", values: owner_of, scope: IndexScope::Namespaced };
    /// Objects without a controller, by their namespace.
    pub const ORPHANS: Self = Self { name: "orphans", values: namespace_of_orphan, scope: IndexScope::Namespaced };
}

fn owner_of<K: Resource>(object: &K) -> Vec<Cow<'_, str>> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    controller_of(object.meta()).map(|owner| Cow::Owned(owner_value(namespace, &owner.uid))).into_iter().collect()
}

/// The value of [`Index::OWNER`] for the objects of a namespace with this controller. Neither part contains a slash.
pub(super) fn owner_value(namespace: &str, uid: &str) -> String {
    format!("{namespace}/{uid}")
}

/// The namespace and the uid of an [`owner_value`].
pub(super) fn parse_owner_value(value: &str) -> (&str, &str) {
    value.split_once('/').unwrap_or_default()
}

fn namespace_of_orphan<K: Resource>(object: &K) -> Vec<Cow<'_, str>> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    controller_of(object.meta()).is_none().then_some(Cow::Borrowed(namespace)).into_iter().collect()
}

/// An object in an index, ordered by namespace and name.
#[derive(Debug)]
struct IndexedObject<K>(Arc<K>);

impl<K: Resource> IndexedObject<K> {
    fn key(&self) -> (Option<&str>, Option<&str>) {
        (self.0.meta().namespace.as_deref(), self.0.meta().name.as_deref())
    }
}

impl<K: Resource> Ord for IndexedObject<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<K: Resource> PartialOrd for IndexedObject<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Resource> PartialEq for IndexedObject<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<K: Resource> Eq for IndexedObject<K> {}

/// The objects of one index, by value. A value without objects has no entry.
#[derive(Debug)]
struct IndexedObjects<K> {
    index: Index<K>,
    by_value: BTreeMap<String, BTreeSet<IndexedObject<K>>>,
}

impl<K> IndexedObjects<K> {
    fn new(index: Index<K>) -> Self {
        Self { index, by_value: BTreeMap::new() }
    }
}

impl<K: Resource> IndexedObjects<K> {
    fn values<'a>(&self, object: Option<&'a Arc<K>>) -> Vec<Cow<'a, str>> {
        let Some(object) = object else { return Vec::new() };
        let Index { name, values, scope } = self.index;
        let values = values(object);
        for value in &values {
            scope.check(name, &**object, value);
        }
        values
    }

    fn update(&mut self, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        let (old_values, new_values) = (self.values(old), self.values(new));
        for value in old_values.iter().filter(|value| !new_values.contains(value)) {
            self.remove(value, old);
        }
        for value in new_values {
            self.insert(value, new);
        }
    }

    fn insert(&mut self, value: Cow<'_, str>, object: Option<&Arc<K>>) {
        let Some(entry) = object.cloned().map(IndexedObject) else { return };
        if let Some(entries) = self.by_value.get_mut(&*value) {
            // `insert` would keep the old object of that name.
            entries.replace(entry);
        } else {
            self.by_value.insert(value.into_owned(), BTreeSet::from([entry]));
        }
    }

    fn remove(&mut self, value: &str, object: Option<&Arc<K>>) {
        let (Some(entries), Some(entry)) = (self.by_value.get_mut(value), object.cloned().map(IndexedObject)) else {
            return;
        };
        entries.remove(&entry);
        if entries.is_empty() {
            self.by_value.remove(value);
        }
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Indexer<K> {
    filter: Option<Filter<K>>,
    /// Whether two objects with the same uid and resource version are equal.
    trusts_versions: bool,
    by_namespace: BTreeMap<String, BTreeMap<String, Arc<K>>>,
    /// The objects with a current state that could not be decoded. Their last readable state stays in `by_namespace`.
    pub(super) unreadable: UnreadableObjects,
    indices: Vec<IndexedObjects<K>>,
    totals: Vec<Totals<K>>,
    len: usize,
}

impl<K> Indexer<K> {
    pub(super) fn new(filter: Option<Filter<K>>, indices: impl IntoIterator<Item = Index<K>>) -> Self {
        let indices = indices.into_iter().map(IndexedObjects::new).collect();
        let (by_namespace, unreadable) = (BTreeMap::new(), UnreadableObjects::default());
        Self { filter, trusts_versions: true, by_namespace, unreadable, indices, totals: vec![], len: 0 }
    }

    /// Adds sums. The indexer must be empty.
    pub(super) fn with_sums(mut self, sums: impl IntoIterator<Item = Sum<K>>) -> Self {
        self.totals.extend(sums.into_iter().map(Totals::new));
        self
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.by_namespace.get(namespace)?.get(name).cloned()
    }

    /// The objects that have `value` in the index, sorted by namespace and name. Scans all objects if the informer was
    /// started without the index.
    pub(super) fn by_index(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        if let Some(indexed) = self.indices.iter().find(|indexed| indexed.index.name == index.name) {
            let entries = indexed.by_value.get(value).into_iter().flatten();
            return entries.map(|IndexedObject(object)| Arc::clone(object)).collect();
        }
        let has_value = |object: &&Arc<K>| (index.values)(object).iter().any(|other| other == value);
        self.iter().filter(has_value).cloned().collect()
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.iter().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number of values in each index, in the order of the indices.
    pub(super) fn index_sizes(&self) -> impl Iterator<Item = usize> {
        self.indices.iter().map(|index| index.by_value.len())
    }

    /// The values of an index, and the number of objects with each. Empty if the informer was started without the index.
    pub(super) fn values_of(&self, index: &Index<K>) -> impl Iterator<Item = (&str, usize)> {
        let indexed = self.indices.iter().find(|indexed| indexed.index.name == index.name);
        let values = indexed.into_iter().flat_map(|indexed| &indexed.by_value);
        values.map(|(value, objects)| (value.as_str(), objects.len()))
    }

    /// Whether an object has `value` in the index.
    pub(super) fn has_value(&self, index: &Index<K>, value: &str) -> bool {
        if let Some(indexed) = self.indices.iter().find(|indexed| indexed.index.name == index.name) {
            return indexed.by_value.contains_key(value);
        }
        self.iter().any(|object| (index.values)(object).iter().any(|other| other == value))
    }

    /// The totals of the sum of this name; `None` if the informer was started without it.
    pub(super) fn totals(&self, name: &str) -> Option<&Totals<K>> {
        self.totals.iter().find(|totals| totals.name() == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.by_namespace.values().flat_map(BTreeMap::values)
    }
}

impl<K: Resource> Indexer<K> {
    /// Applies a complete list. A known object that the list does not contain was deleted. If an object of the list is older
    /// than the known one, the server was restored from a backup.
    pub(super) fn replace(&mut self, objects: Vec<DecodedObject<K>>) -> Vec<Delta<K>> {
        let is_outdated = |object: &DecodedObject<K>| {
            let DecodedObject::Readable(object) = object else { return false };
            let (namespace, name) = key(object);
            self.get(&namespace, &name)
                .is_some_and(|known| known.uid() == object.uid() && is_older(object.meta(), known.meta()))
        };
        if objects.iter().any(is_outdated) {
            return self.replace_after_restore(objects);
        }
        self.replace_all(objects)
    }

    /// Applies a complete list of a server that was restored from a backup: an object may differ from the known one with
    /// the same resource version.
    pub(super) fn replace_after_restore(&mut self, objects: Vec<DecodedObject<K>>) -> Vec<Delta<K>> {
        self.trusts_versions = false;
        let deltas = self.replace_all(objects);
        self.trusts_versions = true;
        deltas
    }

    fn replace_all(&mut self, objects: Vec<DecodedObject<K>>) -> Vec<Delta<K>> {
        let mut deleted: BTreeMap<_, _> = self.iter().map(|object| (key(&**object), Arc::clone(object))).collect();
        let (mut deltas, mut unreadable) = (vec![], BTreeSet::new());
        for object in objects {
            let key = object.key();
            deleted.remove(&key);
            if matches!(object, DecodedObject::Unreadable(_)) {
                unreadable.insert(key);
            }
            deltas.extend(self.apply(object));
        }
        self.unreadable.retain(|key| unreadable.contains(key));
        let removals: Vec<_> = deleted.into_values().map(|object| self.remove(object)).collect();
        deltas.splice(0..0, removals);
        deltas
    }

    /// Applies an object that was created or changed.
    pub(super) fn apply(&mut self, object: DecodedObject<K>) -> Vec<Delta<K>> {
        match object {
            DecodedObject::Readable(object) => {
                self.unreadable.remove(&key(&object));
                self.apply_readable(object)
            }
            DecodedObject::Unreadable(object) => self.apply_unreadable(object).into_iter().collect(),
        }
    }

    /// An unreadable object still exists, so its last readable state stays. If the uid differs, the watch missed the deletion
    /// of the known object.
    fn apply_unreadable(&mut self, object: Arc<UnreadableObject>) -> Option<Delta<K>> {
        let metadata = &object.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let known = self.get(namespace.unwrap_or_default(), name.unwrap_or_default());
        let deleted = known.filter(|known| metadata.uid.is_some() && known.uid() != metadata.uid);
        self.unreadable.insert(object);
        deleted.map(|deleted| self.remove(deleted))
    }

    /// An object that does not pass the filter counts as deleted.
    fn apply_readable(&mut self, object: K) -> Vec<Delta<K>> {
        let (namespace, name) = key(&object);
        let known = self.get(&namespace, &name);
        if self.filter.is_some_and(|filter| !filter(&object)) {
            // The delta has the last object that passed the filter.
            return known.into_iter().map(|known| self.remove(known)).collect();
        }
        if self.trusts_versions && known.as_ref().is_some_and(|known| is_same_version(&**known, &object)) {
            return vec![];
        }
        let is_successor = known.as_ref().is_some_and(|known| known.uid() != object.uid());
        // The watch missed the deletion of the known object.
        let mut deltas: Vec<_> = known.filter(|_| is_successor).map(|known| self.remove(known)).into_iter().collect();
        let new = Arc::new(object);
        let old = self.by_namespace.entry(namespace).or_default().insert(name, Arc::clone(&new));
        self.len += usize::from(old.is_none());
        self.index(old.as_ref(), Some(&new));
        deltas.push(Delta { old, new: Some(new) });
        deltas
    }

    /// Applies the final state of an object that was deleted.
    pub(super) fn delete(&mut self, object: DecodedObject<K>) -> Option<Delta<K>> {
        let ((namespace, name), uid) = (object.key(), object.metadata().uid.clone());
        let known = self.get(&namespace, &name);
        self.unreadable.remove_deleted(&(namespace, name), uid.as_deref());
        if known.as_ref().is_some_and(|known| known.uid() != uid) {
            // The delta of its successor came first, and reported this delete.
            return None;
        }
        let last = match object {
            DecodedObject::Readable(object) if self.filter.is_none_or(|filter| filter(&object)) => Arc::new(object),
            DecodedObject::Readable(_) | DecodedObject::Unreadable(_) => known?,
        };
        Some(self.remove(last))
    }

    /// Removes the object with the name of `last`, its final state.
    fn remove(&mut self, last: Arc<K>) -> Delta<K> {
        let (namespace, name) = key(&*last);
        if let Some(names) = self.by_namespace.get_mut(&namespace) {
            let known = names.remove(&name);
            if names.is_empty() {
                self.by_namespace.remove(&namespace);
            }
            self.len -= usize::from(known.is_some());
            self.index(known.as_ref(), None);
        }
        Delta { old: Some(last), new: None }
    }

    fn index(&mut self, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        for index in &mut self.indices {
            index.update(old, new);
        }
        for totals in &mut self.totals {
            totals.update(old.map(AsRef::as_ref), new.map(AsRef::as_ref));
        }
    }
}

impl<K> Cache<K> {
    /// Whether an object has `value` in `index`. An informer that was started without the index scans all its objects.
    pub fn has_index_value(&self, index: &Index<K>, value: &str) -> bool {
        self.indexer.read().has_value(index, value)
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    unreadable_objects::key(object.meta())
}

fn is_same_version<K: Resource>(a: &K, b: &K) -> bool {
    a.uid() == b.uid() && a.resource_version().is_some() && a.resource_version() == b.resource_version()
}
