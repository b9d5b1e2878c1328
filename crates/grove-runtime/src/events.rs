//! Announcements as `events.k8s.io/v1` objects, published in the background so that no reconciliation waits for them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder as Publisher},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

/// Announcements that may wait; more are dropped, for events are a courtesy.
const QUEUE: usize = 1024;
/// One publication takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same warning about the same object is not repeated sooner, however often its cause is tried again.
const QUIET: Duration = Duration::from_mins(10);

/// Takes announcements. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Job>,
}

enum Job {
    Publish(Box<(ObjectReference, Event)>),
    Flush(oneshot::Sender<()>),
}

impl Recorder {
    /// Starts the task that publishes in the name of `controller`.
    pub fn start(client: Client, controller: &str) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        tokio::spawn(publish_all(Publisher::new(client, controller.into()), jobs));
        Self { queue }
    }

    /// A recorder whose announcements go nowhere.
    pub fn silent() -> Self {
        Self { queue: mpsc::channel(1).0 }
    }

    /// Announces `event` about an object, without waiting.
    pub fn record(&self, about: ObjectReference, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(Job::Publish(Box::new((about, event)))) {
            tracing::warn!("too many events are waiting; one was dropped");
        }
    }

    /// Returns once everything announced so far is published or given up.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Job::Flush(done)).await.is_ok() {
            // An error means that the task is gone, and its queue with it.
            let _ = flushed.await;
        }
    }
}

async fn publish_all(publisher: Publisher, mut jobs: mpsc::Receiver<Job>) {
    let mut warnings = Warnings::default();
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Publish(announcement) => {
                let (about, event) = *announcement;
                if warnings.is_news(&about, &event) {
                    publish(&publisher, &about, &event).await;
                }
            }
            // The receiver may have given up waiting.
            Job::Flush(done) => drop(done.send(())),
        }
    }
}

async fn publish(publisher: &Publisher, about: &ObjectReference, event: &Event) {
    let trouble = match timeout(PATIENCE, publisher.publish(event, about)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".into(),
    };
    tracing::debug!(reason = event.reason, "an event was not published: {trouble}");
}

/// Remembers which warnings were told.
#[derive(Default)]
struct Warnings {
    told: BTreeMap<(String, String), (String, Instant)>,
}

impl Warnings {
    fn is_news(&mut self, about: &ObjectReference, event: &Event) -> bool {
        if event.type_ == EventType::Normal {
            return true;
        }
        let now = Instant::now();
        self.told.retain(|_, (_, at)| now.duration_since(*at) < QUIET);
        let key = (about.uid.clone().unwrap_or_default(), event.reason.clone());
        let note = event.note.clone().unwrap_or_default();
        if self.told.get(&key).is_some_and(|(told, _)| *told == note) {
            return false;
        }
        self.told.insert(key, (note, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: EventType, note: &str) -> Event {
        Event { type_, reason: "R".into(), note: Some(note.into()), action: "a".into(), secondary: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_told_once_in_a_while() {
        let (mut warnings, about) = (Warnings::default(), ObjectReference::default());
        let quota = event(EventType::Warning, "exceeded quota");
        assert!(warnings.is_news(&about, &quota));
        assert!(!warnings.is_news(&about, &quota));
        assert!(warnings.is_news(&about, &event(EventType::Warning, "another")));
        tokio::time::advance(QUIET).await;
        assert!(warnings.is_news(&about, &event(EventType::Warning, "another")));
    }

    #[tokio::test]
    async fn what_was_done_is_always_news() {
        let (mut warnings, about) = (Warnings::default(), ObjectReference::default());
        assert!(warnings.is_news(&about, &event(EventType::Normal, "Created Pod: a")));
        assert!(warnings.is_news(&about, &event(EventType::Normal, "Created Pod: a")));
    }

    #[tokio::test]
    async fn flushing_a_silent_recorder_returns() {
        Recorder::silent().flush().await;
    }
}
