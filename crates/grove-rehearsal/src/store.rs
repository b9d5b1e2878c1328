//! Objects of one kind, and what the API server does with the writes to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Objects by name.
pub(crate) type Store<K> = BTreeMap<String, Arc<K>>;

/// What the API server adds to a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The number of the write.
    pub(crate) version: u64,
    /// Its time.
    pub(crate) now: Timestamp,
}

impl Stamp {
    fn apply(self, metadata: &mut ObjectMeta, changes_spec: bool) {
        metadata.resource_version = Some(self.version.to_string());
        if metadata.uid.is_none() {
            metadata.uid = Some(format!("uid-{}", self.version));
            metadata.creation_timestamp = Some(Time(self.now));
            metadata.generation = Some(1);
        } else if changes_spec {
            metadata.generation = metadata.generation.map(|generation| generation + 1);
        }
    }
}

/// Stores a new object; `false` if one of its name exists, or the value is not of the kind.
pub(crate) fn create<K>(store: &mut Store<K>, value: Value, stamp: Stamp) -> bool
where
    K: Resource + DeserializeOwned,
{
    let Ok(mut object) = serde_json::from_value::<K>(value) else { return false };
    let Some(name) = object.meta().name.clone().filter(|name| !store.contains_key(name)) else { return false };
    stamp.apply(object.meta_mut(), false);
    store.insert(name, Arc::new(object));
    true
}

/// Changes an object; `false` if it does not exist, has another resource version than the change expects, or the result is not of the kind.
pub(crate) fn change<K>(store: &mut Store<K>, name: &str, stamp: Stamp, change: impl FnOnce(&mut Value) -> bool) -> bool
where
    K: Resource + Serialize + DeserializeOwned,
{
    let Some(old) = store.get(name) else { return false };
    let Ok(before) = serde_json::to_value(&**old) else { return false };
    let mut after = before.clone();
    if !change(&mut after) {
        return false;
    }
    let changes_spec = before.get("spec") != after.get("spec");
    let Ok(mut object) = serde_json::from_value::<K>(after) else { return false };
    stamp.apply(object.meta_mut(), changes_spec);
    store.insert(name.to_owned(), Arc::new(object));
    true
}

/// Applies a merge patch, which may name the resource version that it expects.
pub(crate) fn merge(object: &mut Value, mut patch: Value) -> bool {
    let expected = patch.get_mut("metadata").and_then(Value::as_object_mut).and_then(|it| it.remove("resourceVersion"));
    let is_current = expected.is_none_or(|expected| object["metadata"]["resourceVersion"] == expected);
    if is_current {
        json_patch::merge(object, &patch);
    }
    is_current
}
