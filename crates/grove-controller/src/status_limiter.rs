//! When a changed status is written. A significant change is written at once. Every other change is written after a delay that grows with the square
//! of the duration of the process's writes at the moment: (duration / 10 ms)² seconds, at most 30 ([`WriteLatency`]), and at the earliest one second
//! after the last write of the object's status ([`MIN_INTERVAL`]). So while the API server is busy, these writes take little of its time, and a
//! later status supersedes most of them. The status of a new object that is still being started always has the longest delay ([`StatusChange::Starting`]).
//!
//! A status may also be late because the caches are stale. While watch events of creates or deletes are pending, a reconcile writes no status
//! ([`StatusLimiter::withhold`]). If the reconciled object is stale, its status patch ends in a conflict
//! ([`Executor::patch_status`](crate::executor::Executor::patch_status)). In both cases the pending watch event triggers the next reconcile.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A change that is not significant is written at the earliest this long after the last write of the object's status.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// A status is withheld this long while watch events of created or deleted children are pending. The next reconcile after this time writes it:
/// a watch that fails delivers no events.
const MAX_STALE: Duration = Duration::from_secs(10);
/// If a write takes this long, a minor change has a delay of a second. The delay grows with the square of the duration.
const DURATION_FOR_A_SECOND: Duration = Duration::from_millis(10);
/// The delay follows the duration of writes: it is computed again at the latest after this time.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The longest delay. The first status of an object that is being started always has it.
pub const MAX_DELAY: Duration = Duration::from_secs(30);
/// Each write changes the average of the durations by this part of the difference.
const WEIGHT: f64 = 0.125;
/// After this time without a write, the durations of earlier writes say nothing.
const MAX_AGE: Duration = Duration::from_secs(10);

/// How the new status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// A user or another controller may wait for it: availability changed, a create was rejected, or the object became complete.
    Significant,
    /// A later status supersedes this one, for example another number of ready pods.
    Minor,
    /// A minor change of an object that is being started. If all goes well, a status supersedes this one within [`MAX_DELAY`].
    Starting,
}

/// The average duration of the last writes of a process. Cheap to clone; all clones share it.
#[derive(Clone, Debug, Default)]
pub struct WriteLatency(Arc<Mutex<Option<Average>>>);

#[derive(Clone, Copy, Debug)]
struct Average {
    duration: Duration,
    at: Instant,
}

impl WriteLatency {
    /// Records a write of this duration, be it successful or not.
    pub fn record(&self, duration: Duration) {
        let (mut average, now) = (self.0.lock(), Instant::now());
        let earlier = average.filter(|average| now.duration_since(average.at) < MAX_AGE);
        let before = earlier.map_or(Duration::ZERO, |average| average.duration);
        *average = Some(Average { duration: before.mul_f64(1.0 - WEIGHT) + duration.mul_f64(WEIGHT), at: now });
    }

    /// The delay of a minor change.
    fn delay(&self, now: Instant) -> Duration {
        let recent = self.0.lock().filter(|average| now.duration_since(average.at) < MAX_AGE);
        let ratio = recent.map_or(0.0, |average| average.duration.div_duration_f64(DURATION_FOR_A_SECOND));
        Duration::from_secs_f64((ratio * ratio).min(MAX_DELAY.as_secs_f64()))
    }
}

/// Limits the status writes of the objects of one controller.
#[derive(Debug)]
pub struct StatusLimiter {
    min_interval: Duration,
    latency: WriteLatency,
    objects: Mutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects(BTreeMap<String, StatusTimes>);

/// An entry is removed when the object is deleted.
#[derive(Clone, Copy, Debug, Default)]
struct StatusTimes {
    written_at: Option<Instant>,
    /// The first unwritten change.
    unwritten: Option<UnwrittenChange>,
    /// When the first status was withheld since the caches were current, or since the last status was written.
    withheld_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct UnwrittenChange {
    change: StatusChange,
    since: Instant,
}

impl StatusLimiter {
    /// A limiter that has not seen any status. The controllers of a process share the latency.
    pub fn new(latency: WriteLatency) -> Self {
        Self { min_interval: MIN_INTERVAL, latency, objects: Mutex::default() }
    }

    /// The same limiter with another interval than [`MIN_INTERVAL`].
    #[must_use]
    pub fn with_min_interval(self, min_interval: Duration) -> Self {
        Self { min_interval, ..self }
    }

    /// How much longer the status of the object is withheld because the caches are stale; `None` if they are current, or if the bound
    /// has elapsed.
    pub fn withhold<K: Resource>(&self, object: &K, is_stale: bool) -> Option<Duration> {
        let mut objects = self.objects.lock();
        let times = objects.times(object);
        if !is_stale {
            times.withheld_since = None;
            return None;
        }
        let since = times.withheld_since.get_or_insert_with(Instant::now);
        MAX_STALE.checked_sub(since.elapsed()).filter(|delay| !delay.is_zero())
    }

    /// Whether the changed status of the object may be written now. Call [`record_write`](Self::record_write) after it was written. A failed
    /// write changes no time, so only the backoff of the failed reconcile delays the next attempt.
    ///
    /// # Errors
    /// When to try again.
    pub fn admit<K: Resource>(&self, object: &K, change: StatusChange) -> Result<(), Duration> {
        if change == StatusChange::Significant {
            return Ok(());
        }
        let (mut objects, now) = (self.objects.lock(), Instant::now());
        let times = objects.times(object);
        // The end of the start begins another delay: the services that share the status notice it at the same moment, and would write at once.
        let unwritten = times.unwritten.filter(|unwritten| unwritten.change == change);
        let UnwrittenChange { since, .. } =
            *times.unwritten.insert(unwritten.unwrap_or(UnwrittenChange { change, since: now }));
        let until = |due: Instant| due.saturating_duration_since(now);
        let wait = match times.written_at {
            None if change == StatusChange::Starting => until(since + MAX_DELAY),
            written_at => {
                let interval = written_at.map_or(Duration::ZERO, |written_at| until(written_at + self.min_interval));
                until(since + self.latency.delay(now)).min(MAX_WAIT).max(interval)
            }
        };
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    /// Ends the wait of an object that has the status.
    pub fn end_wait<K: Resource>(&self, object: &K) {
        self.objects.lock().times(object).unwritten = None;
    }

    /// Records a write of the object's status.
    pub fn record_write<K: Resource>(&self, object: &K) {
        *self.objects.lock().times(object) = StatusTimes { written_at: Some(Instant::now()), ..StatusTimes::default() };
    }

    /// Drops everything about an object that was deleted.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.objects.lock().0.remove(&object.uid().unwrap_or_default());
    }

    /// The number of objects whose status was written, waits or is withheld.
    pub fn len(&self) -> usize {
        self.objects.lock().0.len()
    }

    /// Whether no status was written, waits or is withheld.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Objects {
    fn times<K: Resource>(&mut self, object: &K) -> &mut StatusTimes {
        self.0.entry(object.uid().unwrap_or_default()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.into());
        object
    }

    fn limiter() -> StatusLimiter {
        StatusLimiter::new(WriteLatency::default())
    }

    /// Writes the status if the limiter admits it. Otherwise returns the delay.
    fn write(limiter: &StatusLimiter, uid: &str, change: StatusChange) -> Result<(), Duration> {
        limiter.admit(&object(uid), change)?;
        limiter.record_write(&object(uid));
        Ok(())
    }

    fn minor(limiter: &StatusLimiter, uid: &str) -> Result<(), Duration> {
        write(limiter, uid, StatusChange::Minor)
    }

    #[tokio::test(start_paused = true)]
    async fn a_minor_change_waits_for_the_interval_after_the_last_write_and_a_significant_change_does_not() {
        let limiter = limiter();
        assert_eq!(minor(&limiter, "a"), Ok(()), "the first change");
        assert_eq!(minor(&limiter, "a"), Err(MIN_INTERVAL));
        assert_eq!(minor(&limiter, "b"), Ok(()), "another object");
        tokio::time::advance(MIN_INTERVAL / 2).await;
        assert_eq!(minor(&limiter, "a"), Err(MIN_INTERVAL / 2));
        assert_eq!(write(&limiter, "a", StatusChange::Significant), Ok(()));
        assert_eq!(minor(&limiter, "a"), Err(MIN_INTERVAL), "each write begins an interval");
        tokio::time::advance(MIN_INTERVAL).await;
        assert_eq!(minor(&limiter, "a"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_minor_change_waits_longer_while_writes_take_long() {
        let limiter = limiter();
        let take = |millis: u64| (0..50).for_each(|_| limiter.latency.record(Duration::from_millis(millis)));
        let wait = |uid: &str| minor(&limiter, uid).err().map_or(0, |wait| wait.as_millis());
        take(5);
        assert!((225..=250).contains(&wait("idle")), "{} ms", wait("idle"));
        take(30);
        assert_eq!(wait("busy"), MAX_WAIT.as_millis(), "9 s, if the writes do not become faster");
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(
            (800..=1000).contains(&wait("busy")),
            "{} ms: another change does not begin the delay again",
            wait("busy")
        );
        take(2000);
        assert_eq!([wait("busy"), wait("overload")], [MAX_WAIT.as_millis(); 2]);
        assert_eq!(write(&limiter, "overload", StatusChange::Significant), Ok(()));
        tokio::time::advance(Duration::from_secs(9)).await;
        take(30);
        assert_eq!(minor(&limiter, "busy"), Ok(()), "the writes have become faster");
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(wait("later"), 0, "the last write was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_status_of_an_object_that_is_being_started_waits_longer() {
        let limiter = limiter();
        let starting = |uid: &str| write(&limiter, uid, StatusChange::Starting);
        assert_eq!([starting("a"), starting("b")], [Err(MAX_DELAY), Err(MAX_DELAY)]);
        tokio::time::advance(MAX_DELAY / 2).await;
        assert_eq!(minor(&limiter, "a"), Ok(()), "it has started");
        assert_eq!(starting("b"), Err(MAX_DELAY / 2));
        tokio::time::advance(MAX_DELAY / 2).await;
        assert_eq!([starting("a"), starting("b")], [Ok(()), Ok(())], "a has a status");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_start_begins_another_delay() {
        let limiter = limiter();
        (0..50).for_each(|_| limiter.latency.record(Duration::from_millis(10)));
        let starting = || write(&limiter, "a", StatusChange::Starting).expect_err("the start takes long").as_secs();
        assert_eq!(starting(), 30);
        tokio::time::advance(Duration::from_secs(5)).await;
        let started = || minor(&limiter, "a").err().map_or(0, |delay| delay.as_millis());
        assert!((900..=1000).contains(&started()), "{} ms", started());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(started(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_slow_write_says_little() {
        let limiter = limiter();
        limiter.latency.record(Duration::from_millis(80));
        assert_eq!(minor(&limiter, "a"), Err(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_delays_nothing_and_an_equal_status_ends_the_wait() {
        let limiter = limiter();
        limiter.record_write(&object("a"));
        let admit = || limiter.admit(&object("a"), StatusChange::Minor);
        assert_eq!(admit(), Err(MIN_INTERVAL));
        tokio::time::advance(MIN_INTERVAL).await;
        for _ in 0..3 {
            assert_eq!(admit(), Ok(()), "the retry is not delayed");
        }
        limiter.end_wait(&object("a"));
        limiter.latency.record(Duration::from_secs(1));
        assert_eq!(admit(), Err(MAX_WAIT), "the next change has a delay of its own");
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_withheld_for_a_bounded_time() {
        let limiter = limiter();
        let withheld = |is_stale| limiter.withhold(&object("a"), is_stale);
        assert_eq!(withheld(true), Some(MAX_STALE));
        tokio::time::advance(MAX_STALE / 2).await;
        assert_eq!(withheld(true), Some(MAX_STALE / 2));
        tokio::time::advance(MAX_STALE / 2).await;
        assert_eq!(withheld(true), None);
        for end in [
            |limiter: &StatusLimiter| limiter.record_write(&object("a")),
            |limiter: &StatusLimiter| assert_eq!(limiter.withhold(&object("a"), false), None),
            |limiter: &StatusLimiter| limiter.forget(&object("a")),
        ] {
            end(&limiter);
            assert_eq!(withheld(true), Some(MAX_STALE), "the bound begins again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_has_an_entry_until_it_is_deleted() {
        let limiter = limiter();
        for uid in ["a", "b"] {
            limiter.record_write(&object(uid));
            assert_eq!(minor(&limiter, uid), Err(MIN_INTERVAL));
        }
        assert_eq!(limiter.len(), 2);
        limiter.forget(&object("a"));
        limiter.forget(&object("b"));
        assert!(limiter.is_empty());
    }
}
