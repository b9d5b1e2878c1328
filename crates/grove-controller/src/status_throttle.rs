//! Throttles the status writes of an object: a significant change is written at once, progress at intervals, and after a
//! pause that grows with the load of the API server. No progress is written while many statuses change. A status from stale
//! caches is withheld for a bounded time.
//!
//! [`status_policy`](crate::status_policy) has the delays, and lists the other reasons for a late status.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{api_latency::ApiLatency, status_policy::StatusPolicy};

/// How the new status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// A user or another controller may wait for it: availability changed, a create was rejected, or the object became complete.
    Significant,
    /// The object makes progress; a later status supersedes this one.
    Progress,
}

/// When delayed progress is written. Both times count from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressDelay {
    /// When it may be written, unless progress is paused.
    pub due: Duration,
    /// When it is written in any case.
    pub deadline: Duration,
}

/// The objects with unwritten progress, or with a withheld status. A failed write changes none of their times, so only the backoff
/// of the failed reconcile delays the next attempt.
#[derive(Debug)]
pub struct StatusThrottle {
    policy: StatusPolicy,
    latency: ApiLatency,
    unwritten_by_uid: Mutex<BTreeMap<String, UnwrittenProgress>>,
    /// The hash of the unwritten changes of the status.
    changes_by_uid: Mutex<BTreeMap<String, u64>>,
    /// When the first status was withheld since the caches were current, or since the last status was written.
    withheld_since_by_uid: Mutex<BTreeMap<String, Instant>>,
    /// When the status of the object was written last. Empty if the policy has no `min_write_interval`.
    written_at_by_uid: Mutex<BTreeMap<String, Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct UnwrittenProgress {
    /// When it may be written, unless progress is paused.
    due: Instant,
    /// When it is written in any case.
    deadline: Instant,
}

impl StatusThrottle {
    /// A throttle without delayed statuses.
    pub fn new(policy: StatusPolicy, latency: ApiLatency) -> Self {
        Self {
            policy,
            latency,
            unwritten_by_uid: Mutex::default(),
            changes_by_uid: Mutex::default(),
            withheld_since_by_uid: Mutex::default(),
            written_at_by_uid: Mutex::default(),
        }
    }

    /// How much longer the status of the object is withheld because the caches are stale; `None` if they are current, or if the bound
    /// has elapsed.
    pub fn withhold<K: Resource>(&self, object: &K, is_stale: bool) -> Option<Duration> {
        let uid = object.uid().unwrap_or_default();
        let mut withheld_since_by_uid = self.withheld_since_by_uid.lock();
        if !is_stale {
            withheld_since_by_uid.remove(&uid);
            return None;
        }
        let since = withheld_since_by_uid.entry(uid).or_insert_with(Instant::now);
        self.policy.max_stale_delay.checked_sub(since.elapsed()).filter(|delay| !delay.is_zero())
    }

    /// Records the unwritten changes of the status. If many objects get other changes, the progress of all objects waits.
    pub fn observe<K: Resource>(&self, object: &K, changes: &Value) {
        let mut hasher = DefaultHasher::new();
        changes.hash(&mut hasher);
        let hash = hasher.finish();
        if self.changes_by_uid.lock().insert(object.uid().unwrap_or_default(), hash) != Some(hash) {
            self.latency.observe_status_change();
        }
    }

    /// Whether the status of the object may be written now. The status is not stale, or its bound has elapsed. Call
    /// [`record_write`](Self::record_write) after it was written.
    ///
    /// # Errors
    /// The times of the write.
    pub fn admit<K: Resource>(&self, object: &K, change: StatusChange) -> Result<(), ProgressDelay> {
        if change == StatusChange::Significant {
            return Ok(());
        }
        let (uid, now) = (object.uid().unwrap_or_default(), Instant::now());
        let mut unwritten_by_uid = self.unwritten_by_uid.lock();
        let others = unwritten_by_uid.len() - usize::from(unwritten_by_uid.contains_key(&uid));
        let due = (now + self.policy.progress_interval(others)).max(self.next_write(&uid).unwrap_or(now));
        let deadline = due.max(now + self.policy.progress_deadline(others));
        let progress = *unwritten_by_uid.entry(uid).or_insert(UnwrittenProgress { due, deadline });
        let deadline = progress.deadline.saturating_duration_since(now);
        if progress.due > now {
            return Err(ProgressDelay { due: progress.due - now, deadline });
        }
        if others < self.policy.progress_burst || deadline.is_zero() {
            return Ok(());
        }
        // The work queue reads the pause, too, so that few objects are reconciled in vain.
        let paused = |pause: Duration| ProgressDelay { due: pause.min(deadline), deadline };
        self.latency.begin_progress().map_err(paused)
    }

    /// When the interval after the last status write of the object ends.
    fn next_write(&self, uid: &str) -> Option<Instant> {
        self.written_at_by_uid.lock().get(uid).map(|written_at| *written_at + self.policy.min_write_interval)
    }

    /// The number of objects with delayed progress.
    pub fn delayed(&self) -> usize {
        self.unwritten_by_uid.lock().len()
    }

    /// The number of objects with a withheld status.
    pub fn withheld(&self) -> usize {
        self.withheld_since_by_uid.lock().len()
    }

    /// Drops the delayed status of an object that has the status.
    pub fn end_delay<K: Resource>(&self, object: &K) {
        let uid = object.uid().unwrap_or_default();
        self.unwritten_by_uid.lock().remove(&uid);
        self.changes_by_uid.lock().remove(&uid);
        self.withheld_since_by_uid.lock().remove(&uid);
    }

    /// Drops the delayed status of an object after a write of its status.
    pub fn record_write<K: Resource>(&self, object: &K) {
        self.end_delay(object);
        if !self.policy.min_write_interval.is_zero() {
            self.written_at_by_uid.lock().insert(object.uid().unwrap_or_default(), Instant::now());
        }
    }

    /// Drops everything about an object that was deleted.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.end_delay(object);
        self.written_at_by_uid.lock().remove(&object.uid().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const POLICY: StatusPolicy = StatusPolicy::DEFAULT;
    const INTERVAL: Duration = POLICY.progress_interval;

    fn object(uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.into());
        object
    }

    /// Writes the status if the throttle admits it. Otherwise returns the time until the progress is due.
    fn write(throttle: &StatusThrottle, object: &ConfigMap, change: StatusChange) -> Result<(), Duration> {
        throttle.admit(object, change).map_err(|delay| delay.due)?;
        throttle.record_write(object);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_the_first_observation_of_the_progress() {
        let (throttle, max) = (StatusThrottle::new(POLICY, ApiLatency::default()), POLICY.progress_deadline);
        let first = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(first, Err(ProgressDelay { due: INTERVAL, deadline: max }));
        tokio::time::advance(INTERVAL / 2).await;
        let second = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(second, Err(ProgressDelay { due: INTERVAL / 2, deadline: max.saturating_sub(INTERVAL / 2) }));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_delayed_and_a_significant_change_is_not() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        assert_eq!(write(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!(
            write(&throttle, &object("a"), StatusChange::Progress),
            Err(INTERVAL / 2),
            "more progress adds no delay"
        );
        assert_eq!(write(&throttle, &object("a"), StatusChange::Significant), Ok(()));
        assert_eq!(write(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL), "a new interval begins");
        tokio::time::advance(INTERVAL).await;
        assert_eq!(write(&throttle, &object("a"), StatusChange::Progress), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_interval_and_the_deadline_grow_with_the_number_of_objects_up_to_a_bound() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        let admit = |uid: &str| throttle.admit(&object(uid), StatusChange::Progress);
        let delay = |others: u32| {
            let due = INTERVAL + POLICY.progress_interval_per_object * others;
            let deadline = POLICY.progress_deadline + POLICY.progress_deadline_per_object * others;
            Err(ProgressDelay { due, deadline })
        };
        for number in 0..50 {
            let _ = admit(&number.to_string());
        }
        assert_eq!(admit("a"), delay(50));
        throttle.forget(&object("a"));
        throttle.forget(&object("0"));
        assert_eq!(admit("b"), delay(49));
        for number in 100..5000 {
            let _ = admit(&number.to_string());
        }
        let longest = ProgressDelay { due: POLICY.max_progress_interval, deadline: POLICY.max_progress_deadline };
        assert_eq!(admit("c"), Err(longest));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_waits_for_the_interval_after_the_last_write() {
        let spaced = POLICY.progress_deadline * 2;
        let zero = Duration::ZERO;
        let policy =
            StatusPolicy { progress_interval: zero, max_progress_interval: zero, min_write_interval: spaced, ..POLICY };
        let throttle = StatusThrottle::new(policy, ApiLatency::default());
        let progress = |uid| throttle.admit(&object(uid), StatusChange::Progress);
        assert_eq!(write(&throttle, &object("a"), StatusChange::Progress), Ok(()), "the first change");
        let delay = |due| Err(ProgressDelay { due, deadline: due });
        assert_eq!(progress("a"), delay(spaced));
        assert_eq!(progress("b"), Ok(()), "another object");
        tokio::time::advance(spaced / 4).await;
        assert_eq!(write(&throttle, &object("a"), StatusChange::Significant), Ok(()), "it is never delayed");
        assert_eq!(progress("a"), delay(spaced), "each write begins an interval");
        throttle.end_delay(&object("a"));
        tokio::time::advance(spaced / 4).await;
        assert_eq!(progress("a").map_err(|delay| delay.due), Err(spaced / 4 * 3), "the object had the status");
        tokio::time::advance(spaced / 4 * 3).await;
        assert_eq!(write(&throttle, &object("a"), StatusChange::Progress), Ok(()));
        throttle.forget(&object("a"));
        assert_eq!(progress("a"), Ok(()), "an object of this uid was deleted");
        assert!(throttle.written_at_by_uid.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_without_an_interval_after_writes_records_no_writes() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        throttle.record_write(&object("a"));
        assert!(throttle.written_at_by_uid.lock().is_empty());
    }

    /// The latency of an API server with load, for which the pause is longer than an interval.
    fn observe_load(latency: &ApiLatency) {
        for milliseconds in [5].into_iter().chain([100; 30]) {
            latency.observe(String::new(), Duration::from_millis(milliseconds));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loaded_api_server_delays_progress_up_to_a_deadline() {
        let latency = ApiLatency::default();
        observe_load(&latency);
        let policy = StatusPolicy { progress_burst: 1, ..POLICY };
        let (throttle, began) = (StatusThrottle::new(policy, latency.clone()), Instant::now());
        let progress = |uid| write(&throttle, &object(uid), StatusChange::Progress);
        assert_eq!(progress("a"), Err(INTERVAL));
        assert_eq!(progress("b"), Err(INTERVAL + POLICY.progress_interval_per_object));
        assert_eq!(progress("c"), Err(INTERVAL + POLICY.progress_interval_per_object * 2));
        tokio::time::advance(INTERVAL * 2).await;
        assert_eq!(latency.begin_progress(), Ok(()), "progress of another controller");
        let pause = latency.progress_paused_until().expect("a pause") - Instant::now();
        assert!(pause > INTERVAL, "{pause:?}");
        let delay = ProgressDelay { due: pause, deadline: POLICY.progress_deadline.saturating_sub(INTERVAL * 2) };
        assert_eq!(throttle.admit(&object("a"), StatusChange::Progress), Err(delay));
        assert_eq!(write(&throttle, &object("d"), StatusChange::Significant), Ok(()), "no pause delays it");
        tokio::time::advance(pause).await;
        assert_eq!(progress("a"), Ok(()));
        assert_eq!(progress("b"), Err(pause), "one write in each pause");
        let deadline = began + POLICY.progress_deadline(1);
        tokio::time::advance(deadline - Instant::now()).await;
        assert_eq!(latency.begin_progress(), Ok(()), "progress of another controller");
        assert_eq!(progress("b"), Ok(()), "at its deadline");
        assert_eq!(progress("c"), Ok(()), "a pause delays no progress of few objects");
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_does_not_change_delays_no_progress_of_others() {
        let latency = ApiLatency::default();
        let throttle = StatusThrottle::new(POLICY, latency.clone());
        for _ in 0..100 {
            throttle.observe(&object("a"), &Value::from("scheduled"));
        }
        assert_eq!(latency.begin_progress(), Ok(()), "the same status");
        for number in 0..100 {
            throttle.observe(&object("a"), &Value::from(number));
        }
        assert_eq!(latency.begin_progress(), Err(Duration::from_secs(1)));
        throttle.end_delay(&object("a"));
        assert!(throttle.changes_by_uid.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_changes_neither_the_times_of_progress_nor_the_bound_of_a_withheld_status() {
        let (latency, max) = (ApiLatency::default(), POLICY.progress_deadline);
        let throttle = StatusThrottle::new(StatusPolicy { progress_burst: 0, ..POLICY }, latency.clone());
        assert_eq!(throttle.withhold(&object("a"), true), Some(POLICY.max_stale_delay));
        let first = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(first, Err(ProgressDelay { due: INTERVAL, deadline: max }));
        tokio::time::advance(max / 2).await;
        for change in [StatusChange::Progress, StatusChange::Significant, StatusChange::Progress] {
            assert_eq!(throttle.admit(&object("a"), change), Ok(()), "the retry is not delayed");
            assert_eq!(throttle.withhold(&object("a"), true), None, "the status is not withheld again");
        }
        observe_load(&latency);
        let pause = latency.progress_paused_until().expect("a pause") - Instant::now();
        let paused = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(paused, Err(ProgressDelay { due: pause, deadline: max / 2 }));
    }

    #[tokio::test(start_paused = true)]
    async fn no_entry_about_a_withheld_status_stays_after_the_object_or_the_write_or_the_pending_events() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        let withheld = || throttle.withhold(&object("a"), true);
        for _ in 0..2 {
            assert_eq!(withheld(), Some(POLICY.max_stale_delay));
            throttle.forget(&object("a"));
            assert_eq!(throttle.withheld(), 0);
            assert_eq!(withheld(), Some(POLICY.max_stale_delay));
            assert_eq!(write(&throttle, &object("a"), StatusChange::Significant), Ok(()));
            assert_eq!(throttle.withheld(), 0);
            assert_eq!(withheld(), Some(POLICY.max_stale_delay));
            assert_eq!(throttle.withhold(&object("a"), false), None);
            assert_eq!(throttle.withheld(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_and_withheld_statuses_are_counted_separately_until_their_objects_are_deleted() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        let counts = || (throttle.delayed(), throttle.withheld());
        for uid in ["a", "b"] {
            assert!(throttle.admit(&object(uid), StatusChange::Progress).is_err());
        }
        assert!(throttle.withhold(&object("a"), true).is_some());
        assert_eq!(counts(), (2, 1));
        throttle.forget(&object("a"));
        assert_eq!(counts(), (1, 0));
        throttle.forget(&object("b"));
        assert_eq!(counts(), (0, 0));
    }
}
