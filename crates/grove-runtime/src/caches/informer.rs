//! The informer of one kind: a reflector, and the cache that it fills.

use std::fmt::Debug;

use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::{
    Availability, Cache, InformerOptions, Writer,
    cache_metrics::CacheMetrics,
    reflector::{Event, Reflector},
    unreadable_objects,
};
use crate::{
    metrics::{Metrics, name_with_group},
    ready::ReadyHandle,
};

/// Starts the informer of one kind on its own task. `ready` completes with the first list, or when the API server does not
/// serve the kind. For an [optional](InformerOptions::optional) informer, it also completes if the list is forbidden. With
/// [`InformerOptions::after_list_of`], it also completes if the other kind is not available.
///
/// `dyntype` names a kind that is known only at run time; it is `()` for all others. After a gap in the watch,
/// [`Cache::subscribe`] yields one delta for each object that differs or was deleted.
pub fn start_informer<K>(
    api: Api<K>,
    dyntype: &K::DynamicType,
    mut options: InformerOptions<K>,
    ready: ReadyHandle,
    metrics: &Metrics,
) -> Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let kind = name_with_group(&K::kind(dyntype), &K::group(dyntype));
    let cache_metrics = CacheMetrics::new(metrics, &kind, &options.indices);
    let reflector = Reflector::new(api, kind.clone(), &options, metrics.clone());
    let prerequisite = options.prerequisite.take();
    let (cache, writer) = Cache::with_writer(options);
    metrics.foreign_owners().add(&kind, cache.clone());
    let mut ready = Some(ready);
    let mut sink = move |event| {
        let availability = match &event {
            Event::Replace(_) | Event::ReplaceAfterRestore(_) => Some(Availability::Served),
            Event::NotServed => Some(Availability::NotServed),
            Event::Forbidden => Some(Availability::Forbidden),
            Event::NotStarted | Event::Error(_) | Event::Apply(_) | Event::Delete(_) => None,
        };
        let is_ready = availability.is_some() || matches!(event, Event::NotStarted);
        if let (Event::Error(error), Some(ready)) = (&event, &ready) {
            ready.set_reason(error);
        }
        unreadable_objects::log(&kind, &writer.apply_event(event).to_log);
        let Writer(store) = &writer;
        cache_metrics.set(&store.indexer.read());
        if availability == Some(Availability::Served) {
            store.relists.send_modify(|relists| *relists += 1);
        }
        if let Some(availability) = availability {
            store.availability.send_if_modified(|was| std::mem::replace(was, availability) != availability);
        }
        if let Some(ready) = ready.take_if(|_| is_ready) {
            if availability == Some(Availability::Forbidden) {
                tracing::warn!(kind, "the service works without the objects of this kind, which it may not read");
            }
            ready.set_ready();
        }
    };
    tokio::spawn(async move {
        if let Some(prerequisite) = prerequisite {
            prerequisite.wait(|| sink(Event::NotStarted)).await;
        }
        reflector.run(sink).await;
    });
    cache
}
