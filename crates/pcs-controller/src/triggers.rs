//! Maps deltas of children to the owners that are enqueued, and deletes to the owners whose creates are retried.

use futures::channel::mpsc;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use grove_controller::controller::Trigger;
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::triggers::owners_and_name_waiters;
use grove_runtime::caches::{Cache, Delta};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;

/// Enqueues the owners in a namespace whose creates are backed off when an object of that namespace is deleted, because
/// the delete may release quota.
pub(crate) struct QuotaReleaseNotifier<Owner: Resource<DynamicType = ()>> {
    backoff: CreateBackoff<Owner>,
    retries: mpsc::UnboundedSender<ObjectRef<Owner>>,
}

impl<Owner: Resource<DynamicType = ()>> Clone for QuotaReleaseNotifier<Owner> {
    fn clone(&self) -> Self {
        Self { backoff: self.backoff.clone(), retries: self.retries.clone() }
    }
}

impl<Owner: Resource<DynamicType = ()>> QuotaReleaseNotifier<Owner> {
    /// The notifier, and the owners to retry.
    pub(crate) fn new(backoff: &CreateBackoff<Owner>) -> (Self, mpsc::UnboundedReceiver<ObjectRef<Owner>>) {
        let (retries, receiver) = mpsc::unbounded();
        (Self { backoff: backoff.clone(), retries }, receiver)
    }

    /// Takes a delta of any kind that a quota may count.
    fn on_delta<Child: Resource>(&self, delta: &Delta<Child>) {
        // The receiver is dropped when the service stops.
        self.backoff.reset_on_delete(delta).into_iter().for_each(|owner| drop(self.retries.unbounded_send(owner)));
    }
}

/// The owners to enqueue for the deltas of one kind of child: the current and the previous controller, and the owners that
/// wait for the name. A delta for which `needs_reconcile` is false triggers only a status update.
pub(crate) fn enqueue_owners<Child, Owner>(
    cache: &Cache<Child>,
    deltas: impl Stream<Item = Delta<Child>> + Send + 'static,
    needs_reconcile: fn(&Delta<Child>) -> bool,
    quota: &QuotaReleaseNotifier<Owner>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    Owner: Resource<DynamicType = ()> + 'static,
{
    let (cache, quota) = (cache.clone(), quota.clone());
    let triggers = move |delta: Delta<Child>| {
        quota.on_delta(&delta);
        let needs_reconcile = needs_reconcile(&delta);
        stream::iter(owners_and_name_waiters(&cache, &delta)).map(move |owner| Trigger::new(needs_reconcile, owner))
    };
    deltas.flat_map(triggers).boxed()
}
