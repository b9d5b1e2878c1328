//! Predicates: whether a delta of an object needs a reconcile.
//!
//! In controller-runtime, a predicate that returns false drops the event. Here a false `needs_reconcile` drops nothing: the
//! delta then triggers a reconcile with low priority, which waits longer and runs behind other reconciles.
//!
//! kube's `runtime::predicates` compare the hash of one object with the hash stored for its name. These compare the old
//! and the new object of a delta: a label that another controller adds differs from a label that changes, and no
//! store of hashes is needed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use grove_runtime::caches::Delta;

/// Whether an owner has to be reconciled because of this delta of a child. A child that was created, or whose status
/// changed, only needs an update of the owner's status.
pub fn needs_reconcile<K: Resource>(delta: &Delta<K>) -> bool {
    delta.old.is_some() && metadata_or_generation_changed_ignoring_additions(delta)
}

/// Whether the object was created or deleted, or its generation, labels, annotations, owners, finalizers or deletion
/// timestamp changed. An update of the status alone changes none of them.
pub fn metadata_or_generation_changed<K: Resource>(delta: &Delta<K>) -> bool {
    let Delta { old: Some(old), new: Some(new) } = delta else { return true };
    let (old, new) = (old.meta(), new.meta());
    other_metadata_changed(old, new) || old.labels != new.labels || old.annotations != new.annotations
}

/// Like [`metadata_or_generation_changed`], but added labels and annotations are ignored: the API server adds the
/// topology of the node to the labels of a pod that is bound.
pub fn metadata_or_generation_changed_ignoring_additions<K: Resource>(delta: &Delta<K>) -> bool {
    let Delta { old: Some(old), new: Some(new) } = delta else { return true };
    let (old, new) = (old.meta(), new.meta());
    other_metadata_changed(old, new)
        || !contains(new.labels.as_ref(), old.labels.as_ref())
        || !contains(new.annotations.as_ref(), old.annotations.as_ref())
}

fn other_metadata_changed(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.generation != new.generation
        || old.finalizers != new.finalizers
        || old.owner_references != new.owner_references
        || old.deletion_timestamp != new.deletion_timestamp
}

fn contains(all: Option<&BTreeMap<String, String>>, some: Option<&BTreeMap<String, String>>) -> bool {
    some.into_iter().flatten().all(|(key, value)| all.and_then(|all| all.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn pod(generation: i64, labels: &[(&str, &str)]) -> Arc<Pod> {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let metadata = json!({ "name": "p", "namespace": "ns", "generation": generation, "labels": labels });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn an_update_of_the_status_alone_changes_neither_metadata_nor_generation() {
        let delta = |old, new| Delta { old: Some(pod(old, &[])), new: Some(pod(new, &[])) };
        assert!(!metadata_or_generation_changed(&delta(1, 1)));
        assert!(metadata_or_generation_changed(&delta(1, 2)));
        assert!(metadata_or_generation_changed(&Delta { old: Some(pod(1, &[])), new: None }));
    }

    #[test]
    fn an_added_label_is_ignored_and_a_changed_or_removed_label_is_not() {
        let changed = |old: &[_], new: &[_]| {
            metadata_or_generation_changed_ignoring_additions(&Delta { old: Some(pod(1, old)), new: Some(pod(1, new)) })
        };
        assert!(!changed(&[("a", "1")], &[("a", "1"), ("topology.kubernetes.io/zone", "z")]));
        assert!(changed(&[("a", "1")], &[("a", "2")]));
        assert!(changed(&[("a", "1")], &[("b", "1")]));
        assert!(changed(&[("a", "1")], &[]));
    }
}
