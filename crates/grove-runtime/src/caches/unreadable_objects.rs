//! Objects that exist in the API server and that could not be decoded.
//!
//! One such object must not affect any other. So each object of a list and of a watch is decoded on its own.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::object_decoding::{decode, decode_identity, reason_without_values};

/// An object that exists in the API server and that could not be decoded. Its name is in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadableObject {
    /// Its name, namespace, uid, resource version, owner references and deletion timestamp.
    pub metadata: ObjectMeta,
    /// Why it could not be decoded. The text contains no value of the object.
    pub reason: String,
}

impl UnreadableObject {
    fn key(&self) -> (String, String) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&self.metadata.namespace), text(&self.metadata.name))
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

    /// The namespace and the name. The namespace of a cluster-scoped object is empty.
    pub(super) fn key(&self) -> (String, String) {
        let metadata = self.metadata();
        (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
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
    by_name: BTreeMap<(String, String), Arc<UnreadableObject>>,
    changes: UnreadableChanges,
}

/// What happened to the unreadable objects of one kind.
#[derive(Debug, Default)]
pub(super) struct UnreadableChanges {
    /// The objects that appeared, changed, were repaired or were deleted.
    pub(super) changed: Vec<Arc<UnreadableObject>>,
    /// Those among them that were not unreadable before, or that were unreadable for another reason.
    pub(super) to_log: Vec<Arc<UnreadableObject>>,
}

impl UnreadableObjects {
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<UnreadableObject>> {
        // Nearly always there are none, and then a lookup needs no key.
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<UnreadableObject>> {
        self.by_name.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn insert(&mut self, object: Arc<UnreadableObject>) {
        let known = self.by_name.insert(object.key(), Arc::clone(&object));
        if known.as_ref() == Some(&object) {
            return;
        }
        if known.is_none_or(|known| known.reason != object.reason) {
            self.changes.to_log.push(Arc::clone(&object));
        }
        self.changes.changed.push(object);
    }

    /// Removes the object of this name because it is readable again, or deleted.
    pub(super) fn remove(&mut self, key: &(String, String)) {
        self.changes.changed.extend(self.by_name.remove(key));
    }

    /// Removes the object because the object with this uid was deleted. An unreadable successor stays.
    pub(super) fn remove_deleted(&mut self, key: &(String, String), uid: Option<&str>) {
        let is_successor = |known: &Arc<UnreadableObject>| {
            known.metadata.uid.as_deref().zip(uid).is_some_and(|(known, deleted)| known != deleted)
        };
        if !self.by_name.get(key).is_some_and(is_successor) {
            self.remove(key);
        }
    }

    /// Removes all objects except those with these names.
    pub(super) fn retain(&mut self, is_listed: impl Fn(&(String, String)) -> bool) {
        let missing: Vec<_> = self.by_name.keys().filter(|key| !is_listed(key)).cloned().collect();
        for key in &missing {
            self.remove(key);
        }
    }

    pub(super) fn take_changes(&mut self) -> UnreadableChanges {
        std::mem::take(&mut self.changes)
    }
}
