//! Fuzzes one item of a list: for any content, the other items are readable, and the name of the item is in use.

use std::any::TypeId;

use kube::Resource;
use kube::core::ClusterResourceScope;
use serde_json::{Value, json};

use crate::fuzz::{self, FuzzConfig, JsonBytes};

/// Inputs per kind.
const INPUTS: u64 = 1000;
/// The names of the other items.
const OTHERS: [&str; 2] = ["before", "after"];

/// A namespace and a name.
pub type Key = (String, String);

/// Checks that random edits of one object of a watched kind affect no other object of this kind: `check_watched_kind!(Kind, fields)`.
/// `Kind` is the type of the objects in the cache, and `fields` has the fields of a valid object except for its metadata.
///
/// It is a macro because the cache is a type of `grove-runtime`, which this crate does not import. The layout test
/// `every_watched_kind_has_a_fuzz_test` requires a call for each kind that a service watches. A kind that has no cache has a test of
/// its own, which calls [`object`].
#[macro_export]
macro_rules! check_watched_kind {
    ($kind:ty, $fields:expr) => {
        let object = $crate::list_items::object::<$kind>(&$fields);
        let cache_with = |items: &[String]| {
            let options = ::grove_runtime::caches::InformerOptions::default();
            let (cache, writer) = ::grove_runtime::caches::Cache::<$kind>::with_writer(options);
            let decode = |item: &String| ::grove_runtime::caches::DecodedObject::from_json(item);
            writer.replace_decoded(items.iter().map(decode).collect());
            cache
        };
        $crate::list_items::check_foreign_namespace(&object, |item: &String, namespace: &str, uid: &str| {
            let cache = cache_with(::std::slice::from_ref(item));
            cache.owned_by(namespace, uid).len() + cache.orphans(namespace).len()
        });
        $crate::list_items::check(&object, |items: &[String], keys: &[$crate::list_items::Key]| {
            let cache = cache_with(items);
            let state = |(namespace, name): &$crate::list_items::Key| {
                cache.contains(namespace, name).then(|| cache.unreadable(namespace, name).is_none())
            };
            keys.iter().map(state).collect()
        })
    };
}

/// An object of the kind `K` with these fields, and with metadata of each type.
pub fn object<K: Resource<DynamicType = (), Scope: 'static>>(fields: &Value) -> Value {
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "o", "uid": "ou", "controller": true });
    let mut object = fields.clone();
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object["metadata"] = json!({
        "name": "edited", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "9999-12-31T23:59:59Z",
        "labels": { "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "o" },
        "annotations": { "k": "v" }, "finalizers": ["f"],
        "ownerReferences": [owner],
        "managedFields": [{ "manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z", "fieldsV1": { "f:spec": {} } }],
    });
    if TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("namespace");
    }
    object
}

/// Puts edits of `object` into another namespace. `count` counts the objects that belong to an owner with this namespace and uid, and the
/// orphans of this namespace. Owners and orphans are looked up by these two indexes only.
///
/// # Panics
/// If an object counts in another namespace than its own.
pub fn check_foreign_namespace(object: &Value, count: impl Fn(&String, &str, &str) -> usize + Sync) {
    let Some(namespace) = object["metadata"]["namespace"].as_str() else { return };
    let check = |_seed: u64, JsonBytes(bytes): &JsonBytes| {
        let Some(mut item) = serde_json::from_slice::<Value>(bytes).ok().filter(|item| item["metadata"].is_object())
        else {
            return Ok(false);
        };
        item["metadata"]["namespace"] = json!("foreign");
        let (text, owners) = (item.to_string(), item["metadata"]["ownerReferences"].as_array());
        let uids = owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str());
        let mut counts_here = false;
        for uid in uids {
            counts_here |= count(&text, "foreign", uid) > 0;
            if count(&text, namespace, uid) > 0 {
                return Err(format!("the object counts for the owner {uid} in {namespace}"));
            }
        }
        Ok(counts_here)
    };
    let config = FuzzConfig { inputs: INPUTS / 10, seed: 1 };
    let outcome = fuzz::run(config, || fuzz::edited_objects(std::slice::from_ref(object)), check, |_| {});
    let outcome = outcome.unwrap_or_else(|failure| panic!("{} in {}", failure.violation, failure.minimal_input));
    assert!(outcome.valid > 0, "{outcome:?}");
}

/// Edits `object`, and puts it into a list between two unchanged objects. `states` fills a cache with a list of JSON objects, and
/// returns the state of the objects with these keys: `None` if the cache has no such object, otherwise whether it is readable.
///
/// # Panics
/// If an edited object makes another object unreadable, or does not use its name.
pub fn check(object: &Value, states: impl Fn(&[String], &[Key]) -> Vec<Option<bool>> + Sync) {
    let other = |name: &str| {
        let mut other = object.clone();
        (other["metadata"]["name"], other["metadata"]["uid"]) = (json!(name), json!(name));
        other.to_string()
    };
    let namespace = object["metadata"]["namespace"].as_str();
    let keys = OTHERS.map(|name| (namespace.unwrap_or_default().to_owned(), name.to_owned()));
    let others = OTHERS.map(other);
    let check = |_seed: u64, JsonBytes(bytes): &JsonBytes| {
        let Some(item) = serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object) else { return Ok(false) };
        let text = |field: &str| item["metadata"][field].as_str().map(str::to_owned);
        // The API server stores a namespace exactly in the objects of namespaced kinds.
        let is_storable = text("namespace").is_some() == namespace.is_some();
        let key = text("name").map(|name| (text("namespace").unwrap_or_default(), name));
        let key = key.filter(|key| is_storable && !keys.contains(key));
        let keys: Vec<_> = keys.iter().cloned().chain(key).collect();
        let states = states(&[others[0].clone(), item.to_string(), others[1].clone()], &keys);
        match *states {
            [Some(true), Some(true)] => Ok(false),
            [Some(true), Some(true), Some(is_readable)] => Ok(is_readable),
            [Some(true), Some(true), None] => Err("the name of the edited object is free".to_owned()),
            _ => Err(format!("another object is not readable: {states:?}")),
        }
    };
    let config = FuzzConfig { inputs: INPUTS, seed: 1 };
    let outcome = fuzz::run(config, || fuzz::edited_objects(std::slice::from_ref(object)), check, |_| {});
    let outcome = outcome.unwrap_or_else(|failure| panic!("{} in {}", failure.violation, failure.minimal_input));
    assert!(outcome.valid > 0 && outcome.valid < outcome.inputs, "{outcome:?}");
}
