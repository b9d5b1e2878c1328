//! Publishes `events.k8s.io/v1` events in the background, so that no reconcile waits for them. `event_correlator.rs` omits repeated
//! warnings. The executor decides which events a stage causes (`executor/stage_events.rs`).

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, atomic::AtomicUsize},
    time::Duration,
};

use grove_runtime::{
    api_error::ApiError,
    client::{REQUEST_TIMEOUT, with_timeout},
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, Recorder},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep},
};

mod event_correlator;

pub(crate) use event_correlator::normalized_message;

use self::event_correlator::EventCorrelator;
use crate::terminating_namespaces::TerminatingNamespaces;

/// Events that may wait for their publication. Further events are dropped: no controller depends on events.
const QUEUE_CAPACITY: usize = 4096;
/// After each publication the broadcaster pauses for this many times its duration, so that a loaded API server receives fewer
/// events.
const PAUSE_FACTOR: u32 = 4;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// A recorder stores each event that it published, about two kilobytes, and drops it only when it publishes another one six minutes
/// later. So the broadcaster replaces the recorder after this many events. Until then, an equal event becomes a series.
const EVENTS_PER_RECORDER: usize = 128;

/// Accepts events and publishes them one after the other. Cheap to clone; all clones share one queue.
#[derive(Clone, Debug)]
pub struct EventBroadcaster {
    queue: mpsc::Sender<Job>,
    reporting_controller: &'static str,
    /// Whether a flush is waiting.
    draining: watch::Sender<bool>,
    /// The number of warnings that the broadcaster remembers.
    remembered_warnings: Arc<AtomicUsize>,
    /// The namespaces in which no event is published.
    terminating_namespaces: Arc<OnceLock<TerminatingNamespaces>>,
}

enum Job {
    Publish(Box<QueuedEvent>),
    Flush(oneshot::Sender<()>),
}

/// An event, the object that it is about, and the controller that reports it.
struct QueuedEvent {
    reporting_controller: &'static str,
    regarding: ObjectReference,
    event: Event,
}

impl EventBroadcaster {
    /// Starts the task that publishes the events. Needs a tokio runtime.
    pub fn start(client: Client, reporting_controller: &'static str) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_CAPACITY);
        let (draining, remembered_warnings) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
        let correlator = EventCorrelator::new(Arc::clone(&remembered_warnings));
        let terminating_namespaces = Arc::default();
        let publisher = EventPublisher {
            recorders: Recorders::new(client),
            correlator,
            terminating_namespaces: Arc::clone(&terminating_namespaces),
        };
        tokio::spawn(publisher.publish_all(jobs, draining.subscribe()));
        Self { queue, reporting_controller, draining, remembered_warnings, terminating_namespaces }
    }

    /// The same broadcaster, whose events carry another reporting controller: a process runs several controllers.
    #[must_use]
    pub fn named(&self, reporting_controller: &'static str) -> Self {
        Self { reporting_controller, ..self.clone() }
    }

    /// A broadcaster that discards all events.
    pub fn discarding() -> Self {
        let (queue, draining) = (mpsc::channel(1).0, watch::Sender::new(false));
        let (remembered_warnings, terminating_namespaces) = (Arc::default(), Arc::default());
        Self { queue, reporting_controller: "", draining, remembered_warnings, terminating_namespaces }
    }

    /// From now on publishes no event about an object in a terminating namespace. The API server would reject it.
    pub(crate) fn skip_terminating_namespaces(&self, namespaces: TerminatingNamespaces) {
        // A process has one informer of namespaces.
        let _ = self.terminating_namespaces.set(namespaces);
    }

    /// The number of warnings that the broadcaster remembers.
    pub(crate) fn remembered_warnings(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.remembered_warnings)
    }

    /// Queues an event about an object, without waiting.
    pub fn record(&self, regarding: ObjectReference, event: Event) {
        let queued = Box::new(QueuedEvent { reporting_controller: self.reporting_controller, regarding, event });
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(Job::Publish(queued)) {
            tracing::warn!("dropped an event because too many events are queued");
        }
    }

    /// Returns when each queued event is published or its publication has failed. After this call the
    /// broadcaster makes no pauses.
    pub async fn flush(&self) {
        self.draining.send_replace(true);
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Job::Flush(done)).await.is_ok() {
            // An error means that the task has ended, and its queue with it.
            let _ = flushed.await;
        }
    }
}

/// Publishes the queued events one after the other.
struct EventPublisher {
    recorders: Recorders,
    correlator: EventCorrelator,
    terminating_namespaces: Arc<OnceLock<TerminatingNamespaces>>,
}

impl EventPublisher {
    async fn publish_all(mut self, mut jobs: mpsc::Receiver<Job>, mut draining: watch::Receiver<bool>) {
        while let Some(job) = jobs.recv().await {
            match job {
                Job::Publish(queued) => {
                    if let Some(took) = self.publish(*queued).await {
                        let pause = (took * PAUSE_FACTOR).min(MAX_PAUSE);
                        // An error means that no broadcaster exists any more.
                        let flushed = draining.wait_for(|draining| *draining);
                        tokio::select! { () = sleep(pause) => {}, _ = flushed => {} }
                    }
                }
                // The receiver may have stopped waiting.
                Job::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// The duration of the request; `None` if the event is not published.
    async fn publish(&mut self, queued: QueuedEvent) -> Option<Duration> {
        let QueuedEvent { reporting_controller, regarding, event } = queued;
        if self.is_in_terminating_namespace(&regarding) || !self.correlator.should_publish(&regarding, &event) {
            return None;
        }
        let began = Instant::now();
        if !publish(self.recorders.next(reporting_controller), &regarding, &event).await {
            self.correlator.forget(&regarding, &event);
        }
        Some(began.elapsed())
    }

    fn is_in_terminating_namespace(&self, regarding: &ObjectReference) -> bool {
        let namespaces = self.terminating_namespaces.get().zip(regarding.namespace.as_ref());
        namespaces.is_some_and(|(terminating, namespace)| terminating.contains(namespace))
    }
}

/// The recorder of each reporting controller, and the number of its events.
struct Recorders {
    client: Client,
    by_controller: BTreeMap<&'static str, (Recorder, usize)>,
}

impl Recorders {
    fn new(client: Client) -> Self {
        Self { client, by_controller: BTreeMap::new() }
    }

    /// The recorder for the next event of the controller.
    #[expect(clippy::disallowed_methods, reason = "the recorder writes the events of this queue")]
    fn next(&mut self, controller: &'static str) -> &Recorder {
        let new = || (Recorder::new(self.client.clone(), controller.into()), 0);
        let (recorder, events) = self.by_controller.entry(controller).or_insert_with(new);
        if *events == EVENTS_PER_RECORDER {
            (*recorder, *events) = new();
        }
        *events += 1;
        recorder
    }
}

/// Whether the API server accepted the event.
async fn publish(recorder: &Recorder, regarding: &ObjectReference, event: &Event) -> bool {
    let published = with_timeout(REQUEST_TIMEOUT, recorder.publish(event, regarding)).await;
    if let Err(error) = &published {
        tracing::debug!(reason = event.reason, "could not publish an event: {}", ApiError::from(error));
    }
    published.is_ok()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Resource;
    use serde_json::json;

    use std::sync::atomic::Ordering;

    use kube::runtime::events::EventType;

    use super::*;
    use grove_runtime::metrics::Metrics;
    use grove_test_support::mock_api_server::{self, MockResponse, config_map};

    use crate::{
        executor::Executor,
        plan::{Plan, Stage, Step},
    };

    /// The event in the form that the API server stores.
    #[tokio::test]
    async fn a_stage_publishes_one_event_with_its_reporting_controller() {
        let (client, log) = mock_api_server::client(|request| MockResponse::ok(request.body.clone()));
        let broadcaster = EventBroadcaster::start(client.clone(), "some-service");
        let executor = Executor::new(client, broadcaster.clone(), Metrics::new().unwrap())
            .with_reporting_controller("map-controller");
        let mut subject: ConfigMap = serde_json::from_value(config_map("subject", 1, "owner")).unwrap();
        subject.metadata.uid = Some("u".into());
        let children = ["a", "b"].map(|name| {
            let child: ConfigMap = serde_json::from_value(config_map(name, 1, "u")).unwrap();
            Step::delete(&child)
        });
        let stage = Stage::new("scale-in", children).with_event("MapDeleteSuccessful", "MapDeleteFailed", "Deleted");
        assert!(executor.execute(&subject, &Plan::new().stage(stage)).await.succeeded());
        broadcaster.flush().await;
        let events: Vec<_> = log.requests().into_iter().filter(|request| request.path.contains("/events")).collect();
        assert_eq!(events.len(), 1, "one per stage");
        let mut event = events[0].body.clone();
        for varying in ["eventTime", "reportingInstance"] {
            assert!(event[varying].is_string(), "{varying} is missing in {event}");
            event[varying] = json!("…");
        }
        event["metadata"]["name"] = json!("…");
        expect![[r#"
            {
              "action": "scale-in",
              "apiVersion": "events.k8s.io/v1",
              "eventTime": "…",
              "kind": "Event",
              "metadata": {
                "name": "…",
                "namespace": "ns"
              },
              "note": "Deleted ConfigMaps: a, b",
              "reason": "MapDeleteSuccessful",
              "regarding": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "subject",
                "namespace": "ns",
                "uid": "u"
              },
              "reportingController": "map-controller",
              "reportingInstance": "…",
              "type": "Normal"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&event).unwrap());
        assert_eq!(events[0].path, "/apis/events.k8s.io/v1/namespaces/ns/events");
        assert_eq!(subject.object_ref(&()).uid.as_deref(), Some("u"));
    }

    fn event(type_: EventType, note: &str) -> Event {
        Event { type_, reason: "R".into(), note: Some(note.into()), action: "a".into(), secondary: None }
    }

    #[tokio::test]
    async fn a_recorder_is_replaced_before_it_stores_many_events() {
        let (client, _) = mock_api_server::client(|request| MockResponse::ok(request.body.clone()));
        let mut recorders = Recorders::new(client);
        for _ in 0..EVENTS_PER_RECORDER {
            recorders.next("a");
        }
        assert_eq!(recorders.by_controller["a"].1, EVENTS_PER_RECORDER);
        recorders.next("a");
        recorders.next("b");
        assert_eq!((recorders.by_controller["a"].1, recorders.by_controller["b"].1), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_publication_of_a_warning_is_repeated_with_the_next_occurrence() {
        let begun = AtomicUsize::new(0);
        let (client, log) = mock_api_server::client(move |request| {
            let is_first = begun.fetch_add(1, Ordering::SeqCst) == 0;
            if is_first { MockResponse::error(500, "InternalError") } else { MockResponse::ok(request.body.clone()) }
        });
        let broadcaster = EventBroadcaster::start(client, "some-service");
        let regarding = ObjectReference { namespace: Some("ns".into()), uid: Some("u".into()), ..Default::default() };
        for _ in 0..3 {
            broadcaster.record(regarding.clone(), event(EventType::Warning, "exceeded quota"));
        }
        broadcaster.flush().await;
        assert_eq!(log.requests().len(), 2, "one was rejected and one was published");
    }

    #[tokio::test]
    async fn flushing_a_discarding_broadcaster_returns() {
        EventBroadcaster::discarding().flush().await;
    }
}
