//! Objects that exist in the API server and that could not be decoded.
//!
//! One such object must not affect any other. So each object of a list and of a watch is decoded on its own. The cache keeps the last
//! state of the object that could be decoded (`indexer.rs`). ADR 19 lists what the owner of the object does: it
//! neither creates nor patches the object, and reports a name conflict (`name_conflict.rs` and `children/step_filter.rs` of
//! grove-controller).

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::object_decoding::{decode, decode_identity, reason_without_values};

/// An object that exists in the API server and that could not be decoded. Its name is in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadableObject {
    /// Its name, namespace, uid, resource version, labels, owner references and deletion timestamp.
    pub metadata: ObjectMeta,
    /// Why it could not be decoded. The text contains no value of the object.
    pub reason: String,
}

/// Logs each object once, without any of its values: they may be secret.
pub(super) fn log(kind: &str, objects: &[Arc<UnreadableObject>]) {
    for object in objects {
        let UnreadableObject { metadata, reason } = &**object;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        tracing::warn!(kind, namespace, name, reason, "the object could not be decoded; it counts as existing");
    }
}

/// The namespace and the name of an object. The namespace of a cluster-scoped object is empty.
pub(super) fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

impl UnreadableObject {
    /// Whether both are the same object, and name the same owners in their references and labels.
    fn has_same_owners(&self, other: &Self) -> bool {
        let (one, two) = (&self.metadata, &other.metadata);
        one.uid == two.uid && one.labels == two.labels && one.owner_references == two.owner_references
    }
}

/// An object of a list or of a watch event.
#[derive(Clone, Debug)]
pub enum DecodedObject<K> {
    /// The object.
    Readable(K),
    /// It could not be decoded.
    Unreadable(Arc<UnreadableObject>),
}

impl<K: Resource> DecodedObject<K> {
    /// The metadata. For an unreadable object only a part of it.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Readable(object) => object.meta(),
            Self::Unreadable(object) => &object.metadata,
        }
    }

    /// The namespace and the name.
    pub(super) fn key(&self) -> (String, String) {
        key(self.metadata())
    }
}

impl<K: Resource + DeserializeOwned> DecodedObject<K> {
    /// Decodes an object from JSON.
    pub fn from_json(json: &str) -> Self {
        match decode(json) {
            Ok(object) => Self::Readable(object),
            Err(error) => {
                let reason = reason_without_values(&error);
                Self::Unreadable(Arc::new(UnreadableObject { metadata: decode_identity(json), reason }))
            }
        }
    }
}

/// The unreadable objects of one kind, and what happened to them since the last call of [`take_changes`](Self::take_changes).
#[derive(Debug, Default)]
pub(super) struct UnreadableObjects {
    /// By namespace and name, so that a lookup allocates no key. A namespace without objects has no entry.
    by_namespace: BTreeMap<String, BTreeMap<String, Arc<UnreadableObject>>>,
    changes: UnreadableChanges,
}

/// What happened to the unreadable objects of one kind.
#[derive(Debug, Default)]
pub(super) struct UnreadableChanges {
    /// The objects that appeared, changed, were repaired or were deleted. If a change may concern other owners than the old state of
    /// the object, the old state precedes the new one, like the old object of a delta.
    pub(super) changed: Vec<Arc<UnreadableObject>>,
    /// Those among them that were not unreadable before, or that were unreadable for another reason.
    pub(super) to_log: Vec<Arc<UnreadableObject>>,
}

impl UnreadableObjects {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<UnreadableObject>> {
        self.by_namespace.get(namespace)?.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<UnreadableObject>> {
        self.by_namespace.values().flat_map(BTreeMap::values)
    }

    /// The objects of a namespace, sorted by name.
    pub(super) fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<UnreadableObject>> {
        self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub(super) fn len(&self) -> usize {
        self.by_namespace.values().map(BTreeMap::len).sum()
    }

    pub(super) fn insert(&mut self, object: Arc<UnreadableObject>) {
        let (namespace, name) = key(&object.metadata);
        let known = self.by_namespace.entry(namespace).or_default().insert(name, Arc::clone(&object));
        if known.as_ref() == Some(&object) {
            return;
        }
        if known.as_ref().is_none_or(|known| known.reason != object.reason) {
            self.changes.to_log.push(Arc::clone(&object));
        }
        self.changes.changed.extend(known.filter(|known| !known.has_same_owners(&object)));
        self.changes.changed.push(object);
    }

    /// Removes the object of this name because it is readable again, or deleted.
    pub(super) fn remove(&mut self, (namespace, name): &(String, String)) {
        let Some(by_name) = self.by_namespace.get_mut(namespace) else { return };
        self.changes.changed.extend(by_name.remove(name));
        if by_name.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }

    /// Removes the object because the object with this uid was deleted. An unreadable successor stays.
    pub(super) fn remove_deleted(&mut self, key: &(String, String), uid: Option<&str>) {
        let is_successor = |known: &Arc<UnreadableObject>| {
            known.metadata.uid.as_deref().zip(uid).is_some_and(|(known, deleted)| known != deleted)
        };
        let (namespace, name) = key;
        if !self.get(namespace, name).is_some_and(is_successor) {
            self.remove(key);
        }
    }

    /// Removes all objects except those with these names.
    pub(super) fn retain(&mut self, is_listed: impl Fn(&(String, String)) -> bool) {
        let missing: Vec<_> = self.all().map(|object| key(&object.metadata)).filter(|key| !is_listed(key)).collect();
        for key in &missing {
            self.remove(key);
        }
    }

    pub(super) fn take_changes(&mut self) -> UnreadableChanges {
        std::mem::take(&mut self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str, name: &str) -> Arc<UnreadableObject> {
        let metadata =
            ObjectMeta { namespace: Some(namespace.into()), name: Some(name.into()), ..ObjectMeta::default() };
        Arc::new(UnreadableObject { metadata, reason: "r".into() })
    }

    #[test]
    fn objects_of_a_namespace_are_found_and_an_empty_namespace_has_no_entry() {
        let mut objects = UnreadableObjects::default();
        for (namespace, name) in [("ns", "b"), ("ns", "a"), ("other", "a")] {
            objects.insert(object(namespace, name));
        }
        let keys = |objects: &UnreadableObjects, namespace: &str| {
            objects.of_namespace(namespace).map(|object| key(&object.metadata).1).collect::<Vec<_>>()
        };
        assert_eq!((keys(&objects, "ns"), keys(&objects, "none")), (vec!["a".into(), "b".into()], vec![]));
        assert_eq!((objects.len(), objects.all().count()), (3, 3));
        assert!(objects.get("other", "a").is_some() && objects.get("other", "b").is_none());
        objects.remove(&("other".into(), "b".into()));
        objects.remove(&("other".into(), "a".into()));
        assert_eq!(objects.by_namespace.keys().collect::<Vec<_>>(), ["ns"]);
        objects.retain(|(_, name)| name == "b");
        assert_eq!((keys(&objects, "ns"), objects.len()), (vec!["b".into()], 1));
        assert_eq!(objects.take_changes().changed.len(), 5, "three objects appeared and two were deleted");
    }
}
