//! When a changed status is written. A significant change is written at once. Every other change is written at the earliest one second after
//! the last write of the object's status ([`MIN_INTERVAL`]), and these writes of a process share one token bucket ([`StatusTokens`]), so that
//! they do not delay creates.
//!
//! A status may also be late because the caches are stale. While watch events of creates or deletes are pending, a reconcile writes no status
//! ([`StatusLimiter::withhold`]). If the reconciled object is stale, its status patch ends in a conflict
//! ([`Executor::patch_status`](crate::executor::Executor::patch_status)). In both cases the pending watch event triggers the next reconcile.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grove_runtime::token_bucket::TokenBucket;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A change that is not significant is written at the earliest this long after the last write of the object's status.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// A status is withheld this long while watch events of created or deleted children are pending. The next reconcile after this time writes it:
/// a watch that fails delivers no events.
const MAX_STALE: Duration = Duration::from_secs(10);
/// Changes that are not significant, per second and process.
const TOKENS_PER_SECOND: u32 = 20;
/// So many of these changes are written at once after a pause.
const BURST: u32 = 20;

/// How the new status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    /// A user or another controller may wait for it: availability changed, a create was rejected, or the object became complete.
    Significant,
    /// A later status supersedes this one, for example another number of ready pods.
    Minor,
}

/// The token bucket of the minor status changes of a process. Cheap to clone; all clones share it.
#[derive(Clone, Debug)]
pub struct StatusTokens(Arc<Mutex<TokenBucket>>);

impl Default for StatusTokens {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(TokenBucket::new(Duration::from_secs(1) / TOKENS_PER_SECOND, BURST))))
    }
}

/// Limits the status writes of the objects of one controller.
#[derive(Debug)]
pub struct StatusLimiter {
    min_interval: Duration,
    tokens: StatusTokens,
    objects: Mutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    by_uid: BTreeMap<String, StatusTimes>,
    /// The number of objects with an unwritten change.
    waiting: u32,
}

/// An entry is removed when the object is deleted.
#[derive(Clone, Copy, Debug, Default)]
struct StatusTimes {
    written_at: Option<Instant>,
    /// When the unwritten change may be written.
    due: Option<Instant>,
    /// When the first status was withheld since the caches were current, or since the last status was written.
    withheld_since: Option<Instant>,
}

impl StatusLimiter {
    /// A limiter that has not seen any status. The controllers of a process share the tokens.
    pub fn new(tokens: StatusTokens) -> Self {
        Self { min_interval: MIN_INTERVAL, tokens, objects: Mutex::default() }
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
        let due = times.due.unwrap_or_else(|| times.written_at.map_or(now, |at| (at + self.min_interval).max(now)));
        let is_new = times.due.replace(due).is_none();
        objects.waiting += u32::from(is_new);
        if due > now {
            return Err(due - now);
        }
        if self.tokens.0.lock().try_take(now) {
            return Ok(());
        }
        // The others wait for tokens, too.
        let delay = Duration::from_secs(1) / TOKENS_PER_SECOND * objects.waiting;
        objects.times(object).due = Some(now + delay);
        Err(delay)
    }

    /// Ends the wait of an object that has the status.
    pub fn end_wait<K: Resource>(&self, object: &K) {
        let mut objects = self.objects.lock();
        let was_waiting = objects.times(object).due.take().is_some();
        objects.waiting -= u32::from(was_waiting);
    }

    /// Records a write of the object's status.
    pub fn record_write<K: Resource>(&self, object: &K) {
        self.end_wait(object);
        let mut objects = self.objects.lock();
        let times = objects.times(object);
        (times.written_at, times.withheld_since) = (Some(Instant::now()), None);
    }

    /// Drops everything about an object that was deleted.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.end_wait(object);
        self.objects.lock().by_uid.remove(&object.uid().unwrap_or_default());
    }

    /// The number of objects whose status was written, waits or is withheld.
    pub fn len(&self) -> usize {
        self.objects.lock().by_uid.len()
    }

    /// Whether no status was written, waits or is withheld.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Objects {
    fn times<K: Resource>(&mut self, object: &K) -> &mut StatusTimes {
        self.by_uid.entry(object.uid().unwrap_or_default()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const TOKEN_INTERVAL: Duration = Duration::from_millis(50);

    fn object(uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.into());
        object
    }

    fn limiter() -> StatusLimiter {
        StatusLimiter::new(StatusTokens::default())
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
    async fn minor_changes_share_the_tokens_of_the_process() {
        let (one, tokens) = (limiter(), StatusTokens::default());
        let one = StatusLimiter { tokens: tokens.clone(), ..one };
        let other = StatusLimiter::new(tokens);
        for number in 0..BURST {
            assert_eq!(minor(if number % 2 == 0 { &one } else { &other }, &number.to_string()), Ok(()));
        }
        assert_eq!(minor(&one, "a"), Err(TOKEN_INTERVAL));
        assert_eq!(minor(&one, "b"), Err(TOKEN_INTERVAL * 2), "another object waits, too");
        assert_eq!(minor(&other, "c"), Err(TOKEN_INTERVAL), "of this controller, no other object waits");
        assert_eq!(write(&one, "d", StatusChange::Significant), Ok(()), "it needs no token");
        tokio::time::advance(TOKEN_INTERVAL).await;
        assert_eq!(minor(&one, "a"), Ok(()));
        assert_eq!(minor(&other, "c"), Err(TOKEN_INTERVAL), "the token is taken");
        tokio::time::advance(TOKEN_INTERVAL).await;
        assert_eq!(minor(&one, "b"), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn many_waiting_objects_try_about_as_often_as_there_are_tokens() {
        let (limiter, objects) = (limiter(), 1000);
        let mut due: BTreeMap<_, _> = (0..objects).map(|number| (number.to_string(), Instant::now())).collect();
        let (began, mut attempts) = (Instant::now(), 0);
        while let Some(next) = due.values().min().copied() {
            tokio::time::advance(next.saturating_duration_since(Instant::now())).await;
            for uid in due.iter().filter(|(_, at)| **at <= next).map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
                attempts += 1;
                match minor(&limiter, &uid) {
                    Ok(()) => drop(due.remove(&uid)),
                    Err(delay) => drop(due.insert(uid, Instant::now() + delay)),
                }
            }
        }
        let (seconds, least) = (began.elapsed().as_secs(), u64::from((objects - BURST) / TOKENS_PER_SECOND));
        assert!((least..least * 2).contains(&seconds) && attempts < objects * 4, "{attempts} attempts, {seconds} s");
        assert_eq!(limiter.objects.lock().waiting, 0);
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
        assert_eq!(limiter.objects.lock().waiting, 1);
        limiter.end_wait(&object("a"));
        limiter.end_wait(&object("a"));
        assert_eq!(limiter.objects.lock().waiting, 0);
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
        assert_eq!((limiter.len(), limiter.objects.lock().waiting), (2, 2));
        limiter.forget(&object("a"));
        limiter.forget(&object("b"));
        assert!(limiter.is_empty());
        assert_eq!(limiter.objects.lock().waiting, 0);
    }
}
