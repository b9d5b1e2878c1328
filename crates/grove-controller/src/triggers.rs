//! Mapping functions: which objects a delta of another object triggers. And the fan-out of one stream of deltas to
//! several controllers.

use futures::{Stream, StreamExt, channel::mpsc, stream::BoxStream};
use grove_api_types::ownership::controller_of;
use grove_runtime::caches::Delta;
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use crate::name_waiters::NameWaiters;

/// Every `Owner` to reconcile because of a delta of a child: its controller, its controller before the change, and the
/// owners that wait for its name. Each of them occurs once.
pub fn owners_and_name_waiters<Child, Owner>(
    waiters: &NameWaiters<Owner>,
    delta: &Delta<Child>,
) -> Vec<ObjectRef<Owner>>
where
    Child: Resource<DynamicType = ()>,
    Owner: Resource<DynamicType = ()>,
{
    let mut owners = controllers_of(delta);
    for waiter in waiters.take(delta) {
        if !owners.contains(&waiter) {
            owners.push(waiter);
        }
    }
    owners
}

/// The controller of the child, and the one that it had before the change, as far as they are of the kind `Owner`.
pub fn controllers_of<Child, Owner>(delta: &Delta<Child>) -> Vec<ObjectRef<Owner>>
where
    Child: Resource,
    Owner: Resource<DynamicType = ()>,
{
    let new = delta.new.as_deref().and_then(controller);
    let old = delta.old.as_deref().and_then(controller).filter(|old| new.as_ref() != Some(old));
    new.into_iter().chain(old).collect()
}

/// Group and kind of the reference have to match. The version may be any, since the API server converts.
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

/// The same deltas for several listeners. A slow listener delays no other. Needs a tokio runtime.
pub fn fan_out<K, const LISTENERS: usize>(
    mut deltas: impl Stream<Item = Delta<K>> + Send + Unpin + 'static,
) -> [BoxStream<'static, Delta<K>>; LISTENERS]
where
    K: Send + Sync + 'static,
{
    let channels = [(); LISTENERS].map(|()| mpsc::unbounded());
    let senders: Vec<_> = channels.iter().map(|(sender, _)| sender.clone()).collect();
    tokio::spawn(async move {
        while let Some(delta) = deltas.next().await {
            for sender in &senders {
                // An error means that this listener has ended; the others still receive the delta.
                let _ = sender.unbounded_send(delta.clone());
            }
        }
    });
    channels.map(|(_, listener)| listener.boxed())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use serde_json::json;

    use super::*;

    fn pod(owner_kind: &str, owner_version: &str, owner: &str) -> Arc<Pod> {
        let owner =
            json!([{ "apiVersion": owner_version, "kind": owner_kind, "name": owner, "uid": "u", "controller": true }]);
        let metadata = json!({ "name": "p", "namespace": "ns", "ownerReferences": owner });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn replica_sets(old: Option<Arc<Pod>>, new: Option<Arc<Pod>>) -> Vec<String> {
        let controllers = controllers_of::<_, ReplicaSet>(&Delta { old, new });
        assert!(controllers.iter().all(|controller| controller.namespace.as_deref() == Some("ns")));
        controllers.into_iter().map(|controller| controller.name).collect()
    }

    #[test]
    fn the_deletion_of_a_child_triggers_its_controller_whatever_the_version_of_the_reference() {
        assert_eq!(replica_sets(Some(pod("ReplicaSet", "apps/v1", "o")), None), ["o"]);
        assert_eq!(replica_sets(Some(pod("ReplicaSet", "apps/v1beta9", "o")), None), ["o"]);
    }

    #[test]
    fn a_child_with_another_controller_triggers_both_and_a_released_child_its_last_controller() {
        let child = || Some(pod("ReplicaSet", "apps/v1", "o"));
        assert_eq!(replica_sets(child(), Some(pod("ReplicaSet", "apps/v1", "other"))), ["other", "o"]);
        assert_eq!(replica_sets(child(), child()), ["o"]);
        assert_eq!(replica_sets(child(), Some(Arc::default())), ["o"]);
    }

    #[test]
    fn a_controller_of_another_kind_or_group_is_not_triggered() {
        assert!(replica_sets(Some(pod("StatefulSet", "apps/v1", "o")), None).is_empty());
        assert!(replica_sets(Some(pod("ReplicaSet", "other.io/v1", "o")), None).is_empty());
    }
}
