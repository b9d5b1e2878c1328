//! Enqueues all objects when this replica starts leading, and when a kind starts or stops to be served.

use std::future::ready;

use futures::{Stream, StreamExt, stream};
use grove_runtime::caches::Cache;
use kube::{Resource, runtime::reflector::ObjectRef};

use crate::manager::Manager;
use crate::triggers::Trigger;

/// A trigger for each object of the cache at each such time: a standby replica has reconciled nothing, and children of a
/// kind that was not served could not be created.
pub(super) fn enqueue_all<K>(
    manager: &Manager,
    cache: Cache<K>,
) -> impl Stream<Item = Trigger<K>> + Send + 'static + use<K>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let leadership = manager.leadership().clone();
    let availability_changed = manager.availability_changed().filter(move |()| ready(leadership.is_held()));
    let triggers = move |()| {
        let objects = cache.all();
        stream::iter(objects.into_iter().map(|object| Trigger::Reconcile(ObjectRef::from_obj(&*object))))
    };
    stream::select(manager.leadership().started_leading(), availability_changed).flat_map(triggers)
}
