//! The Kubernetes events that services publish about objects. A service publishes them asynchronously and in order.

use futures::TryStreamExt;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};

use crate::namespace::Namespace;
use crate::namespace_state::TIMEOUT;
use crate::poll::poll_until;

/// Waits for an event about the object with this reason, and returns all events of the namespace. They include all events
/// that the same service published before.
///
/// # Panics
/// If no such event appears in time.
pub async fn wait_for(ns: &Namespace, name: &str, reason: &str) -> Vec<Event> {
    let all = Api::<Event>::namespaced(ns.client.clone(), &ns.name);
    let watching = async {
        let events = watcher(all.clone(), watcher::Config::default()).default_backoff().applied_objects();
        let mut events = std::pin::pin!(events);
        loop {
            // The stream restarts a failed watch.
            let Ok(Some(event)) = events.try_next().await else { continue };
            if is_about(&event, name, reason) {
                return;
            }
        }
    };
    let found = tokio::time::timeout(TIMEOUT, watching).await;
    let known = all.list(&ListParams::default()).await.expect("the events").items;
    assert!(found.is_ok(), "no event {reason} about {name}; events: {known:#?}");
    known
}

/// Waits for an event about the object with this reason, and a note that contains the text.
pub async fn wait_for_note(ns: &Namespace, name: &str, reason: &str, text: &str) {
    let has_text = |event: &Event| event.note.as_ref().is_some_and(|note| note.contains(text));
    poll_until(async || {
        let events = ns.api::<Event>().list(&ListParams::default()).await.ok()?.items;
        events.iter().any(|event| is_about(event, name, reason) && has_text(event)).then_some(())
    })
    .await;
}

/// Whether the event is about an object with this name and has this reason.
pub fn is_about(event: &Event, name: &str, reason: &str) -> bool {
    event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(name)
        && event.reason.as_deref() == Some(reason)
}
