//! What wakes a reconciler beside the changes of objects: the lead that begins, a kind that comes to be served, relief.

use std::{future::ready, time::Duration};

use futures::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use kube::{Resource, runtime::reflector::ObjectRef};

use super::store::Store;
use crate::controllers::Controllers;

/// News of relief that come together lead to one try; who keeps the books has often not closed them when they come.
const MOMENT: Duration = Duration::from_millis(500);

/// Every object, each time this replica begins to lead, for what happened before was for another one to act on; and each
/// time the API server comes to know a kind, or ceases to.
pub(super) fn everything<K>(service: &Controllers, store: Store<K>) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let led = service.leadership().clone();
    let kinds_changed = service.served_kinds_changed().filter(move |()| ready(led.is_held()));
    let of_store = move |()| {
        let objects: Vec<_> = store.state().iter().map(|object| ObjectRef::from_obj(&*object.0)).collect();
        stream::iter(objects)
    };
    stream::select(service.leadership().started_leading(), kinds_changed).flat_map(of_store)
}

/// The objects that were named in a moment, each once, when it has passed.
pub(super) fn gathered<K>(
    named: SelectAll<BoxStream<'static, ObjectRef<K>>>,
) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + 'static,
{
    let moments = stream::unfold(named, |mut named| async move {
        let first = named.next().await?;
        tokio::time::sleep(MOMENT).await;
        let mut all = vec![first];
        while let Some(Some(next)) = named.next().now_or_never() {
            if !all.contains(&next) {
                all.push(next);
            }
        }
        Some((stream::iter(all), named))
    });
    moments.flatten()
}
