//! Maps deltas of children to the owners that they trigger.

use futures::stream::{self, BoxStream, Stream, StreamExt};
use grove_controller::controller::Trigger;
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::triggers::owners_and_name_waiters;
use grove_runtime::caches::{Cache, Delta};
use kube::Resource;

/// The owners to enqueue for the deltas of one kind of child: the current and the previous controller, and the owners that
/// wait for the name. A delta for which `needs_reconcile` is false triggers only a status update.
///
/// A deletion may release quota, so it also retries the owners in its namespace whose creates are backed off.
pub(crate) fn enqueue_owners<Child, Owner>(
    cache: &Cache<Child>,
    deltas: impl Stream<Item = Delta<Child>> + Send + 'static,
    needs_reconcile: fn(&Delta<Child>) -> bool,
    create_backoff: &CreateBackoff<Owner>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    Owner: Resource<DynamicType = ()> + 'static,
{
    let (cache, create_backoff) = (cache.clone(), create_backoff.clone());
    let triggers = move |delta: Delta<Child>| {
        let retries = create_backoff.reset_on_delete(&delta).into_iter().map(Trigger::Retry);
        let needs_reconcile = needs_reconcile(&delta);
        let owners = owners_and_name_waiters(&cache, &delta).into_iter();
        stream::iter(retries.chain(owners.map(move |owner| Trigger::new(needs_reconcile, owner))))
    };
    deltas.flat_map(triggers).boxed()
}
