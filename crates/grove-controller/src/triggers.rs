//! From a change of one object to the object whose reconciliation it calls for.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt, channel::mpsc, stream::BoxStream};
use grove_api_types::ownership::controller_of;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use grove_runtime::caches::{Cache, Change};

/// Every `Owner` that a change of a child concerns: who controls it, who controlled it until now, and who wants its name.
pub fn concerned<Child, Owner>(cache: &Cache<Child>, change: &Change<Child>) -> Vec<ObjectRef<Owner>>
where
    Child: Resource<DynamicType = ()>,
    Owner: Resource<DynamicType = ()>,
{
    let mut owners: Vec<_> = owners_of(change).into_iter().chain(cache.seekers(change)).collect();
    let mut told = Vec::new();
    owners.retain(|owner: &ObjectRef<Owner>| {
        let is_new = !told.contains(owner);
        told.push(owner.clone());
        is_new
    });
    owners
}

/// The controlling owner of the changed child, and the one that it had before, if they are an `Owner`.
pub fn owners_of<Child, Owner>(change: &Change<Child>) -> Vec<ObjectRef<Owner>>
where
    Child: Resource,
    Owner: Resource<DynamicType = ()>,
{
    let after = change.after.as_deref().and_then(controller);
    let before = change.before.as_deref().and_then(controller).filter(|before| after.as_ref() != Some(before));
    after.into_iter().chain(before).collect()
}

/// The controlling owner of the changed child, if it is an `Owner`.
pub fn owner_of<Child, Owner>(change: &Change<Child>) -> Option<ObjectRef<Owner>>
where
    Child: Resource,
    Owner: Resource<DynamicType = ()>,
{
    owners_of(change).into_iter().next()
}

/// Group and kind count, the version does not.
fn controller<Child, Owner>(child: &Child) -> Option<ObjectRef<Owner>>
where
    Child: Resource,
    Owner: Resource<DynamicType = ()>,
{
    let owner = controller_of(child.meta())?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (owner.kind == Owner::kind(&()) && group == Owner::group(&())).then(|| {
        let object = ObjectRef::new(&owner.name);
        child.namespace().iter().fold(object, |object, namespace| object.within(namespace))
    })
}

/// Whether more than the status changed. For kinds that others report the status of, never for the reconciled kind
/// itself: its own status must come back once, else a stale comparison could leave an old one standing.
pub fn changed_spec_or_labels<K: Resource>(change: &Change<K>) -> bool {
    let Change { before: Some(before), after: Some(after) } = change else { return true };
    let (before, after) = (before.meta(), after.meta());
    changed_otherwise(before, after) || before.labels != after.labels || before.annotations != after.annotations
}

/// Whether more changed than the status and labels or annotations that others added, as the API server adds the
/// topology of its node to a pod that is bound.
pub fn changed_what_was_there<K: Resource>(change: &Change<K>) -> bool {
    let Change { before: Some(before), after: Some(after) } = change else { return true };
    let (before, after) = (before.meta(), after.meta());
    changed_otherwise(before, after)
        || !has_all(after.labels.as_ref(), before.labels.as_ref())
        || !has_all(after.annotations.as_ref(), before.annotations.as_ref())
}

fn changed_otherwise(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    before.generation != after.generation
        || before.finalizers != after.finalizers
        || before.owner_references != after.owner_references
        || before.deletion_timestamp != after.deletion_timestamp
}

fn has_all(all: Option<&BTreeMap<String, String>>, some: Option<&BTreeMap<String, String>>) -> bool {
    some.into_iter().flatten().all(|(key, value)| all.and_then(|all| all.get(key)) == Some(value))
}

/// The same changes for several listeners, each at its own pace. Needs a tokio runtime.
pub fn fan_out<K, const LISTENERS: usize>(
    mut changes: impl Stream<Item = Change<K>> + Send + Unpin + 'static,
) -> [BoxStream<'static, Change<K>>; LISTENERS]
where
    K: Send + Sync + 'static,
{
    let channels = [(); LISTENERS].map(|()| mpsc::unbounded());
    let senders: Vec<_> = channels.iter().map(|(sender, _)| sender.clone()).collect();
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            for sender in &senders {
                // A listener that has ended keeps nothing from the others.
                let _ = sender.unbounded_send(change.clone());
            }
        }
    });
    channels.map(|(_, listener)| listener.boxed())
}

/// Whether a change of a child may call for an act of its owner. That it came, or that its status changed, is only to be
/// told.
pub fn calls_for_act<K: Resource>(change: &Change<K>) -> bool {
    change.before.is_some() && changed_what_was_there(change)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use serde_json::json;

    use super::*;

    fn pod(generation: i64, owner_kind: &str, owner_version: &str) -> Arc<Pod> {
        let owner =
            json!([{ "apiVersion": owner_version, "kind": owner_kind, "name": "o", "uid": "u", "controller": true }]);
        let meta = json!({ "name": "p", "namespace": "ns", "generation": generation, "ownerReferences": owner });
        Arc::new(serde_json::from_value(json!({ "metadata": meta })).unwrap())
    }

    fn gone(before: Arc<Pod>) -> Change<Pod> {
        Change { before: Some(before), after: None }
    }

    #[test]
    fn the_controlling_owner_is_woken_even_by_a_deletion() {
        let owner = owner_of::<_, ReplicaSet>(&gone(pod(1, "ReplicaSet", "apps/v1")));
        assert_eq!(owner, Some(ObjectRef::new("o").within("ns")));
        assert_eq!(owner_of::<_, ReplicaSet>(&gone(pod(1, "ReplicaSet", "apps/v1beta9"))), owner);
    }

    #[test]
    fn a_child_that_changes_hands_wakes_both_and_one_that_is_released_its_last() {
        let names = |change: &Change<Pod>| {
            owners_of::<_, ReplicaSet>(change).into_iter().map(|owner| owner.name).collect::<Vec<_>>()
        };
        let mut other = (*pod(1, "ReplicaSet", "apps/v1")).clone();
        other.owner_references_mut()[0].name = "other".into();
        let (before, after) = (Some(pod(1, "ReplicaSet", "apps/v1")), Some(Arc::new(other)));
        assert_eq!(names(&Change { before: before.clone(), after }), ["other", "o"]);
        assert_eq!(names(&Change { before: before.clone(), after: before.clone() }), ["o"]);
        assert_eq!(names(&Change { before, after: Some(Arc::default()) }), ["o"]);
    }

    #[test]
    fn owners_of_other_kinds_or_groups_are_not_woken() {
        assert_eq!(owner_of::<_, ReplicaSet>(&gone(pod(1, "StatefulSet", "apps/v1"))), None);
        assert_eq!(owner_of::<_, ReplicaSet>(&gone(pod(1, "ReplicaSet", "other.io/v1"))), None);
    }

    #[test]
    fn a_change_of_status_alone_is_told_from_others() {
        let change = |before, after| Change {
            before: Some(pod(before, "ReplicaSet", "apps/v1")),
            after: Some(pod(after, "ReplicaSet", "apps/v1")),
        };
        assert!(!changed_spec_or_labels(&change(1, 1)));
        assert!(changed_spec_or_labels(&change(1, 2)));
        assert!(changed_spec_or_labels(&gone(pod(1, "ReplicaSet", "apps/v1"))));
    }

    #[test]
    fn labels_that_others_add_are_told_from_labels_that_change() {
        let labelled = |labels: &[(&str, &str)]| {
            let mut pod = (*pod(1, "ReplicaSet", "apps/v1")).clone();
            pod.labels_mut().extend(labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())));
            Some(Arc::new(pod))
        };
        let change = |before: &[_], after: &[_]| Change { before: labelled(before), after: labelled(after) };
        assert!(!changed_what_was_there(&change(&[("a", "1")], &[("a", "1"), ("topology.kubernetes.io/zone", "z")])));
        assert!(changed_what_was_there(&change(&[("a", "1")], &[("a", "2")])));
        assert!(changed_what_was_there(&change(&[("a", "1")], &[("b", "1")])));
        assert!(changed_what_was_there(&change(&[("a", "1")], &[])));
    }
}
