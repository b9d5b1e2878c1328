//! Announcements as `events.k8s.io/v1` objects, published in the background so that no reconciliation waits for them.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder as Publisher},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};

use grove_runtime::{api_error::ApiError, client::REQUEST_TIMEOUT};

use crate::api_latency::ApiLatency;

/// Announcements that may wait; more are dropped, for events are a courtesy.
const QUEUE: usize = 4096;
/// One publication takes no longer.
/// After each publication comes a pause this many times as long, so that a server that is slow to answer, because it has
/// much to do, is asked for few.
const SHARE: u32 = 4;
/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The same warning about the same object is not repeated sooner, however often its cause is tried again.
const QUIET: Duration = Duration::from_mins(10);

/// Takes announcements. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventBroadcaster {
    queue: mpsc::Sender<Job>,
    reporter: &'static str,
    /// Whether somebody waits for all of them.
    hurry: watch::Sender<bool>,
}

enum Job {
    Publish(Box<Announced>),
    Flush(oneshot::Sender<()>),
}

/// An event, what it is about, and in whose name it is published.
struct Announced {
    reporter: &'static str,
    about: ObjectReference,
    event: Event,
}

impl EventBroadcaster {
    /// Starts the task that publishes in the name of `reporter`.
    pub fn start(client: Client, reporter: &'static str, latency: ApiLatency) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let hurry = watch::Sender::new(false);
        tokio::spawn(publish_all(client, jobs, hurry.subscribe(), latency));
        Self { queue, reporter, hurry }
    }

    /// The same, in the name of `reporter`: a service may be several controllers.
    #[must_use]
    pub fn named(&self, reporter: &'static str) -> Self {
        Self { reporter, ..self.clone() }
    }

    /// A recorder whose announcements go nowhere.
    pub fn discarding() -> Self {
        Self { queue: mpsc::channel(1).0, reporter: "", hurry: watch::Sender::new(false) }
    }

    /// Announces `event` about an object, without waiting.
    pub fn record(&self, about: ObjectReference, event: Event) {
        let announced = Box::new(Announced { reporter: self.reporter, about, event });
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(Job::Publish(announced)) {
            tracing::warn!("too many events are waiting; one was dropped");
        }
    }

    /// Returns once everything announced so far is published or given up; from then on without pauses.
    pub async fn flush(&self) {
        self.hurry.send_replace(true);
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Job::Flush(done)).await.is_ok() {
            // An error means that the task is gone, and its queue with it.
            let _ = flushed.await;
        }
    }
}

async fn publish_all(
    client: Client,
    mut jobs: mpsc::Receiver<Job>,
    mut hurry: watch::Receiver<bool>,
    latency: ApiLatency,
) {
    let mut warnings = Warnings::default();
    let mut publishers = BTreeMap::new();
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Publish(announced) => {
                let Announced { reporter, about, event } = *announced;
                let publisher =
                    publishers.entry(reporter).or_insert_with(|| Publisher::new(client.clone(), reporter.into()));
                if warnings.is_news(&about, &event) {
                    let began = Instant::now();
                    if !publish(publisher, &about, &event).await {
                        warnings.forget(&about, &event);
                    }
                    let took = began.elapsed();
                    let pause = (took * SHARE).min(LONGEST_PAUSE).max(latency.throttle_delay(took));
                    // An error means that nobody can hurry any more.
                    let hurried = hurry.wait_for(|hurry| *hurry);
                    tokio::select! { () = sleep(pause) => {}, _ = hurried => {} }
                }
            }
            // The receiver may have given up waiting.
            Job::Flush(done) => drop(done.send(())),
        }
    }
}

/// Says whether it was published.
async fn publish(publisher: &Publisher, about: &ObjectReference, event: &Event) -> bool {
    let trouble = match timeout(REQUEST_TIMEOUT, publisher.publish(event, about)).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => ApiError::from(&error).to_string(),
        Err(_) => "no answer".into(),
    };
    tracing::debug!(reason = event.reason, "an event was not published: {trouble}");
    false
}

/// Remembers which warnings were told, and when: about what, for which reason, and the gist.
#[derive(Default)]
struct Warnings {
    told: BTreeMap<(String, String, String), Instant>,
}

/// A note without the words that have digits, and without the count of further ones at its end. What is tried again is
/// refused with other names and numbers, and that is no news.
fn gist(note: &str) -> String {
    let note = note.rsplit_once(" (and ").map_or(note, |(first, _)| first);
    let is_stable = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    note.split_whitespace().filter(is_stable).collect::<Vec<_>>().join(" ")
}

impl Warnings {
    fn is_news(&mut self, about: &ObjectReference, event: &Event) -> bool {
        if event.type_ == EventType::Normal {
            return true;
        }
        let now = Instant::now();
        self.told.retain(|_, at| now.duration_since(*at) < QUIET);
        let key = key(about, event);
        if self.told.contains_key(&key) {
            return false;
        }
        self.told.insert(key, now);
        true
    }

    /// It was not told after all, so the next of its kind is news.
    fn forget(&mut self, about: &ObjectReference, event: &Event) {
        self.told.remove(&key(about, event));
    }
}

fn key(about: &ObjectReference, event: &Event) -> (String, String, String) {
    let gist = event.note.as_deref().map(gist).unwrap_or_default();
    (about.uid.clone().unwrap_or_default(), event.reason.clone(), gist)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Resource;
    use serde_json::json;

    use super::*;
    use grove_runtime::metrics::Metrics;
    use grove_test_support::mock_api_server::{self, MockResponse, config_map};

    use crate::{
        executor::Executor,
        plan::{Plan, Stage, Step},
    };

    /// The one event as it is sent, for readers of `kubectl get events` and of `reportingController`.
    #[tokio::test]
    async fn a_stage_is_told_as_one_event_in_the_name_of_its_controller() {
        let (client, log) = mock_api_server::client(|asked| MockResponse::ok(asked.body.clone()));
        let recorder = EventBroadcaster::start(client.clone(), "some-service", ApiLatency::default());
        let executor = Executor::new(client, recorder.clone(), Metrics::new().unwrap())
            .with_reporting_controller("map-controller");
        let mut subject: ConfigMap = serde_json::from_value(config_map("subject", 1, "owner")).unwrap();
        subject.metadata.uid = Some("u".into());
        let children = ["a", "b"].map(|name| {
            let child: ConfigMap = serde_json::from_value(config_map(name, 1, "u")).unwrap();
            Step::delete(&child)
        });
        let stage = Stage::new("surplus", children).with_event("MapDeleteSuccessful", "MapDeleteFailed", "Deleted");
        assert!(executor.execute(&subject, &Plan::new().stage(stage)).await.succeeded());
        recorder.flush().await;
        let events: Vec<_> = log.requests().into_iter().filter(|asked| asked.path.contains("/events")).collect();
        assert_eq!(events.len(), 1, "one per stage");
        let mut event = events[0].body.clone();
        for varying in ["eventTime", "reportingInstance"] {
            assert!(event[varying].is_string(), "{varying} is missing in {event}");
            event[varying] = json!("…");
        }
        event["metadata"]["name"] = json!("…");
        expect![[r#"
            {
              "action": "surplus",
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

    #[tokio::test(start_paused = true)]
    async fn other_names_and_numbers_are_no_news() {
        let (mut warnings, about) = (Warnings::default(), ObjectReference::default());
        let note = |name: &str, used: u32, more: &str| {
            format!("create Pod {name}: pods \"{name}\" is forbidden: exceeded quota: q, used: pods={used}{more}")
        };
        assert!(warnings.is_news(&about, &event(EventType::Warning, &note("llm-0-a-xy2zw", 3, ""))));
        assert!(!warnings.is_news(&about, &event(EventType::Warning, &note("llm-0-a-bcdfg", 4, ""))));
        assert!(!warnings.is_news(&about, &event(EventType::Warning, &note("llm-0-a-bcdfg", 4, " (and 2 more)"))));
        assert!(warnings.is_news(&about, &event(EventType::Warning, "create Pod llm-0-a-bcdfg: violates PodSecurity")));
    }

    #[tokio::test]
    async fn what_was_done_is_always_news() {
        let (mut warnings, about) = (Warnings::default(), ObjectReference::default());
        assert!(warnings.is_news(&about, &event(EventType::Normal, "Created Pod: a")));
        assert!(warnings.is_news(&about, &event(EventType::Normal, "Created Pod: a")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_that_was_not_published_is_told_the_next_time() {
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let (client, log) = mock_api_server::client(move |asked| {
            let is_first = begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            if is_first { MockResponse::error(500, "InternalError") } else { MockResponse::ok(asked.body.clone()) }
        });
        let recorder = EventBroadcaster::start(client, "some-service", ApiLatency::default());
        let about = ObjectReference { namespace: Some("ns".into()), uid: Some("u".into()), ..Default::default() };
        for _ in 0..3 {
            recorder.record(about.clone(), event(EventType::Warning, "exceeded quota"));
        }
        recorder.flush().await;
        assert_eq!(log.requests().len(), 2, "one that was refused, one that was published, and no more");
    }

    #[tokio::test]
    async fn flushing_a_silent_recorder_returns() {
        EventBroadcaster::discarding().flush().await;
    }
}
