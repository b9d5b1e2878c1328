//! Maps deltas of children to the owners that they trigger.

use std::sync::Arc;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use grove_api_types::ownership::controller_of;
use grove_controller::controller::Trigger;
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::expectations::Expectations;
use grove_controller::name_waiters::NameWaiters;
use grove_controller::triggers::owners_and_name_waiters;
use grove_runtime::caches::{Cache, Delta};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch;

/// The in-memory state about creates of one kind of owner, which deltas of children change.
pub(crate) struct CreateState<Owner> {
    pub(crate) waiters: NameWaiters<Owner>,
    pub(crate) backoff: CreateBackoff<Owner>,
    pub(crate) expectations: Arc<Expectations>,
}

impl<Owner> Clone for CreateState<Owner> {
    fn clone(&self) -> Self {
        let (waiters, backoff) = (self.waiters.clone(), self.backoff.clone());
        Self { waiters, backoff, expectations: Arc::clone(&self.expectations) }
    }
}

/// The owners to enqueue for the deltas of one kind of child: the current and the previous controller, and the owners that
/// wait for the name. A delta for which `needs_reconcile` is false triggers only a status update.
///
/// A deletion ends the expectation of the child. It may release quota, so it also retries the owners in its namespace whose
/// creates are backed off.
pub(crate) fn enqueue_owners<Child, Owner>(
    deltas: impl Stream<Item = Delta<Child>> + Send + 'static,
    needs_reconcile: fn(&Delta<Child>) -> bool,
    creates: &CreateState<Owner>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let CreateState { waiters, backoff, expectations } = creates.clone();
    let triggers = move |delta: Delta<Child>| {
        let deleted = delta.old.as_deref().filter(|_| delta.is_delete());
        if let Some((child, owner)) = deleted.and_then(|child| Some((child, controller_of(child.meta())?))) {
            expectations.observe_deletion(&owner.uid, child);
        }
        let retries = backoff.reset_on_delete(&delta).into_iter().map(Trigger::Retry);
        let needs_reconcile = needs_reconcile(&delta);
        let owners = owners_and_name_waiters(&waiters, &delta).into_iter();
        stream::iter(retries.chain(owners.map(move |owner| Trigger::new(needs_reconcile, owner))))
    };
    deltas.flat_map(triggers).boxed()
}

/// Enqueues all owners for a status update after each relist of a child kind, except for the first list.
pub(crate) fn enqueue_all_on_relist<Owner>(
    owners: &Cache<Owner>,
    relists: Vec<watch::Receiver<u64>>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let owners = owners.clone();
    let relisted = relists.into_iter().map(|relists| {
        let changes = stream::unfold(relists, |mut relists| async move {
            relists.changed().await.ok()?;
            let count = *relists.borrow_and_update();
            Some((count, relists))
        });
        changes.boxed()
    });
    let relisted = stream::select_all(relisted).filter(|count| std::future::ready(*count > 1));
    let all = move |_| stream::iter(owners.all()).map(|owner| Trigger::StatusOnly(ObjectRef::from_obj(&*owner)));
    relisted.flat_map(all).boxed()
}
