//! The events that services publish about objects: in the background, each service one after the other.

use futures::TryStreamExt;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};

use crate::namespace::Namespace;
use crate::world::LIMIT;

/// Waits until an event about the object gives this reason, and returns all events of the namespace: whatever its service
/// announced before is among them.
///
/// # Panics
/// When there is none for too long.
pub async fn until(ns: &Namespace, name: &str, reason: &str) -> Vec<Event> {
    let all = Api::<Event>::namespaced(ns.client.clone(), &ns.name);
    let following = async {
        let events = watcher(all.clone(), watcher::Config::default()).default_backoff().applied_objects();
        let mut events = std::pin::pin!(events);
        loop {
            // A watch that failed is begun again.
            let Ok(Some(event)) = events.try_next().await else { continue };
            if is_about(&event, name, reason) {
                return;
            }
        }
    };
    let told = tokio::time::timeout(LIMIT, following).await;
    let known = all.list(&ListParams::default()).await.expect("the events").items;
    assert!(told.is_ok(), "nobody announces {reason} of {name}, but {known:#?}");
    known
}

/// Whether the event is about an object of this name, for this reason.
pub fn is_about(event: &Event, name: &str, reason: &str) -> bool {
    event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(name)
        && event.reason.as_deref() == Some(reason)
}
