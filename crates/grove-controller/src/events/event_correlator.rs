//! Omits warnings that repeat an earlier one, as the event correlator of client-go does.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType};
use tokio::time::Instant;

/// A warning with the same normalized message about the same object is not repeated within this time.
const DEDUP_WINDOW: Duration = Duration::from_mins(10);
/// The broadcaster remembers at most this many warnings.
const MAX_REMEMBERED_WARNINGS: usize = 4096;

/// The warnings that were published within the [`DEDUP_WINDOW`], by object, reason and normalized message.
#[derive(Default)]
pub(super) struct EventCorrelator {
    published: BTreeMap<(String, String, String), Instant>,
    /// The number of the warnings, for a metric.
    count: Arc<AtomicUsize>,
}

/// The message without the words that contain digits: names and numbers. A retry is rejected with other names and numbers, but
/// for the same cause.
pub(crate) fn normalized_message(message: &str) -> String {
    let is_stable = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    message.split_whitespace().filter(is_stable).collect::<Vec<_>>().join(" ")
}

impl EventCorrelator {
    /// Stores the number of the remembered warnings in `count`.
    pub(super) fn new(count: Arc<AtomicUsize>) -> Self {
        Self { published: BTreeMap::new(), count }
    }

    /// Whether the event is not a repetition; remembers a warning.
    pub(super) fn should_publish(&mut self, regarding: &ObjectReference, event: &Event) -> bool {
        if event.type_ == EventType::Normal {
            return true;
        }
        let now = Instant::now();
        self.published.retain(|_, at| now.duration_since(*at) < DEDUP_WINDOW);
        let key = key(regarding, event);
        if self.published.contains_key(&key) {
            return false;
        }
        if self.published.len() >= MAX_REMEMBERED_WARNINGS {
            self.published.clear();
        }
        self.published.insert(key, now);
        self.count.store(self.published.len(), Ordering::Relaxed);
        true
    }

    /// Forgets an event whose publication failed, so that the next equal event is published.
    pub(super) fn forget(&mut self, regarding: &ObjectReference, event: &Event) {
        self.published.remove(&key(regarding, event));
        self.count.store(self.published.len(), Ordering::Relaxed);
    }
}

fn key(regarding: &ObjectReference, event: &Event) -> (String, String, String) {
    let note = event.note.as_deref().unwrap_or_default();
    // A note that names only the first of several objects ends with the count of the others.
    let note = note.rsplit_once(" (and ").map_or(note, |(first, _)| first);
    (regarding.uid.clone().unwrap_or_default(), event.reason.clone(), normalized_message(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(type_: EventType, note: &str) -> Event {
        Event { type_, reason: "R".into(), note: Some(note.into()), action: "a".into(), secondary: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_is_published_once_per_window() {
        let (mut correlator, regarding) = (EventCorrelator::default(), ObjectReference::default());
        let quota = event(EventType::Warning, "exceeded quota");
        assert!(correlator.should_publish(&regarding, &quota));
        assert!(!correlator.should_publish(&regarding, &quota));
        assert!(correlator.should_publish(&regarding, &event(EventType::Warning, "another")));
        tokio::time::advance(DEDUP_WINDOW).await;
        assert!(correlator.should_publish(&regarding, &event(EventType::Warning, "another")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_warning_with_other_names_and_numbers_is_a_duplicate() {
        let (mut correlator, regarding) = (EventCorrelator::default(), ObjectReference::default());
        let note = |name: &str, used: u32, more: &str| {
            format!("create Pod {name}: pods \"{name}\" is forbidden: exceeded quota: q, used: pods={used}{more}")
        };
        assert!(correlator.should_publish(&regarding, &event(EventType::Warning, &note("llm-0-a-xy2zw", 3, ""))));
        assert!(!correlator.should_publish(&regarding, &event(EventType::Warning, &note("llm-0-a-bcdfg", 4, ""))));
        assert!(
            !correlator
                .should_publish(&regarding, &event(EventType::Warning, &note("llm-0-a-bcdfg", 4, " (and 2 more)")))
        );
        assert!(
            correlator.should_publish(
                &regarding,
                &event(EventType::Warning, "create Pod llm-0-a-bcdfg: violates PodSecurity")
            )
        );
    }

    #[tokio::test]
    async fn a_normal_event_is_always_published() {
        let (mut correlator, regarding) = (EventCorrelator::default(), ObjectReference::default());
        assert!(correlator.should_publish(&regarding, &event(EventType::Normal, "Created Pod: a")));
        assert!(correlator.should_publish(&regarding, &event(EventType::Normal, "Created Pod: a")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_warnings_is_limited() {
        let (mut correlator, regarding) = (EventCorrelator::default(), ObjectReference::default());
        for nth in 0..MAX_REMEMBERED_WARNINGS + 10 {
            let letters = format!("{nth:b}").replace('0', "a").replace('1', "b");
            correlator.should_publish(&regarding, &event(EventType::Warning, &letters));
            assert!(correlator.published.len() <= MAX_REMEMBERED_WARNINGS);
        }
    }
}
