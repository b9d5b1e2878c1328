//! Throttles the status writes of an object: a significant change is written at once, progress at intervals, and later while
//! the API server is loaded. A status from stale caches is withheld for a bounded time.
//!
//! [`status_policy`](crate::status_policy) has the delays, and lists the other reasons for a late status.

use std::{collections::BTreeMap, time::Duration};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
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
    /// When it may be written, if the API server is not loaded.
    pub due: Duration,
    /// When it is written in any case.
    pub deadline: Duration,
}

/// The objects with unwritten progress.
#[derive(Debug)]
pub struct StatusThrottle {
    policy: StatusPolicy,
    latency: ApiLatency,
    unwritten_by_uid: Mutex<BTreeMap<String, UnwrittenProgress>>,
    /// When the first status since the last admitted one was withheld.
    withheld_since_by_uid: Mutex<BTreeMap<String, Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct UnwrittenProgress {
    /// When it may be written, if the API server is not loaded.
    due: Instant,
    /// When it is written in any case.
    deadline: Instant,
}

impl StatusThrottle {
    /// A throttle without delayed statuses.
    pub fn new(policy: StatusPolicy, latency: ApiLatency) -> Self {
        Self { policy, latency, unwritten_by_uid: Mutex::default(), withheld_since_by_uid: Mutex::default() }
    }

    /// How much longer the status of the object is withheld because the caches are stale; `None` if the bound has elapsed.
    pub fn withhold<K: Resource>(&self, object: &K) -> Option<Duration> {
        let mut withheld_since_by_uid = self.withheld_since_by_uid.lock();
        let since = withheld_since_by_uid.entry(object.uid().unwrap_or_default()).or_insert_with(Instant::now);
        self.policy.max_stale_delay.checked_sub(since.elapsed()).filter(|delay| !delay.is_zero())
    }

    /// Whether the status of the object may be written now. The status is not stale, or its bound has elapsed.
    ///
    /// # Errors
    /// The times of the write.
    pub fn admit<K: Resource>(&self, object: &K, change: StatusChange) -> Result<(), ProgressDelay> {
        let uid = object.uid().unwrap_or_default();
        let now = Instant::now();
        self.withheld_since_by_uid.lock().remove(&uid);
        let mut unwritten_by_uid = self.unwritten_by_uid.lock();
        let others = unwritten_by_uid.len() - usize::from(unwritten_by_uid.contains_key(&uid));
        let interval = self.policy.progress_interval(others);
        if change == StatusChange::Progress {
            let deadline = now + self.policy.max_progress_delay;
            let first = UnwrittenProgress { due: now + interval, deadline };
            let progress = *unwritten_by_uid.entry(uid.clone()).or_insert(first);
            let deadline = progress.deadline.saturating_duration_since(now);
            if progress.due > now {
                return Err(ProgressDelay { due: progress.due - now, deadline });
            }
            // The work queue checks the load again, so that an object under load is reconciled once.
            if !deadline.is_zero() && self.latency.is_loaded(&self.policy) {
                return Err(ProgressDelay { due: self.policy.progress_interval.min(deadline), deadline });
            }
        }
        unwritten_by_uid.remove(&uid);
        Ok(())
    }

    /// The number of objects with a delayed or withheld status.
    pub fn len(&self) -> usize {
        self.unwritten_by_uid.lock().len() + self.withheld_since_by_uid.lock().len()
    }

    /// Whether no status is delayed or withheld.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the delayed status of an object that was deleted, or that has the status again.
    pub fn forget<K: Resource>(&self, object: &K) {
        let uid = object.uid().unwrap_or_default();
        self.unwritten_by_uid.lock().remove(&uid);
        self.withheld_since_by_uid.lock().remove(&uid);
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

    /// The time until the progress is due, if its write is delayed.
    fn admit(throttle: &StatusThrottle, object: &ConfigMap, change: StatusChange) -> Result<(), Duration> {
        throttle.admit(object, change).map_err(|delay| delay.due)
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_the_first_observation_of_the_progress() {
        let (throttle, max) = (StatusThrottle::new(POLICY, ApiLatency::default()), POLICY.max_progress_delay);
        let first = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(first, Err(ProgressDelay { due: INTERVAL, deadline: max }));
        tokio::time::advance(INTERVAL / 2).await;
        let second = throttle.admit(&object("a"), StatusChange::Progress);
        assert_eq!(second, Err(ProgressDelay { due: INTERVAL / 2, deadline: max.saturating_sub(INTERVAL / 2) }));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_delayed_and_a_significant_change_is_not() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!(
            admit(&throttle, &object("a"), StatusChange::Progress),
            Err(INTERVAL / 2),
            "more progress adds no delay"
        );
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Significant), Ok(()));
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL), "a new interval begins");
        tokio::time::advance(INTERVAL).await;
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_interval_grows_with_the_number_of_objects_up_to_a_bound() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        for number in 0..50 {
            let _ = admit(&throttle, &object(&number.to_string()), StatusChange::Progress);
        }
        let per_object = POLICY.progress_interval_per_object;
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL + per_object * 50));
        throttle.forget(&object("a"));
        throttle.forget(&object("0"));
        assert_eq!(admit(&throttle, &object("b"), StatusChange::Progress), Err(INTERVAL + per_object * 49));
        for number in 100..5000 {
            let _ = admit(&throttle, &object(&number.to_string()), StatusChange::Progress);
        }
        assert_eq!(admit(&throttle, &object("c"), StatusChange::Progress), Err(POLICY.max_progress_interval));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loaded_api_server_delays_progress_up_to_a_deadline() {
        let latency = ApiLatency::default();
        let load =
            |average| [5].into_iter().chain([average; 30]).for_each(|ms| latency.observe(Duration::from_millis(ms)));
        let throttle = StatusThrottle::new(POLICY, latency.clone());
        let began = Instant::now();
        while let Err(delay) = admit(&throttle, &object("a"), StatusChange::Progress) {
            assert_eq!(delay, INTERVAL);
            tokio::time::advance(delay).await;
            load(50);
        }
        assert_eq!(began.elapsed(), POLICY.max_progress_delay);
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL));
        assert_eq!(
            admit(&throttle, &object("b"), StatusChange::Progress),
            Err(INTERVAL + POLICY.progress_interval_per_object)
        );
        tokio::time::advance(INTERVAL * 2).await;
        load(15);
        assert_eq!(
            admit(&throttle, &object("b"), StatusChange::Progress),
            Ok(()),
            "progress writes cause such a latency"
        );
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Significant), Ok(()), "the load does not delay it");
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Err(INTERVAL));
        tokio::time::advance(INTERVAL * 2).await;
        assert_eq!(admit(&throttle, &object("a"), StatusChange::Progress), Ok(()), "the last write was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn no_entry_about_a_withheld_status_stays_after_the_object_or_the_write() {
        let throttle = StatusThrottle::new(POLICY, ApiLatency::default());
        for _ in 0..2 {
            assert_eq!(throttle.withhold(&object("a")), Some(POLICY.max_stale_delay));
            throttle.forget(&object("a"));
            assert!(throttle.withheld_since_by_uid.lock().is_empty());
            assert_eq!(throttle.withhold(&object("a")), Some(POLICY.max_stale_delay));
            assert_eq!(admit(&throttle, &object("a"), StatusChange::Significant), Ok(()));
            assert!(throttle.withheld_since_by_uid.lock().is_empty());
        }
    }
}
