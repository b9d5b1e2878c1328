//! The write latency of the API server, compared with its latency without load. The higher it is, the longer the controllers pause
//! between two events, and between two writes that only show progress ([`StatusPolicy`](crate::status_policy::StatusPolicy)). They write
//! no progress while many statuses change, as during the start of a large set.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The weight of the newest write in the moving average.
const EWMA_ALPHA: f64 = 0.2;
/// The baseline of a kind of write is its lowest latency in this window and in the one before. So it adapts to a server that became
/// slower permanently.
const BASELINE_WINDOW: Duration = Duration::from_hours(1);
/// After a write with this ratio of the latency to the baseline, the pause is as long as the latency. An API server without load reaches
/// this ratio on a machine that it shares with other processes.
const HEALTHY_RATIO: f64 = 3.0;
/// Shorter latencies count as this one: the logarithm of zero is infinite.
const MIN_SECONDS: f64 = 1e-6;
/// The longest pause between two writes of progress.
const MAX_PROGRESS_PAUSE: Duration = Duration::from_secs(4);
/// While this many statuses per second change, no progress is written.
const CHANGES_PER_SECOND: usize = 5;
/// The longest pause between two events.
const MAX_EVENT_PAUSE: Duration = Duration::from_millis(500);

/// The latencies of recent writes of this process.
#[derive(Clone, Debug, Default)]
pub struct ApiLatency(Arc<Mutex<Latencies>>);

#[derive(Debug, Default)]
struct Latencies {
    /// The moving average of the logarithm of the pause in seconds: one slow write among many fast ones changes it little.
    ln_pause: Option<f64>,
    /// The lowest latency in seconds, by kind of write. Without any load, a create of a small object is faster than a patch of a large one.
    lowest: BTreeMap<String, f64>,
    lowest_of_previous_window: BTreeMap<String, f64>,
    window_start: Option<Instant>,
    /// When the latest write of progress began.
    progress_began: Option<Instant>,
    /// When the latest statuses changed, at most [`CHANGES_PER_SECOND`].
    changes: VecDeque<Instant>,
}

impl Latencies {
    fn rotate_window(&mut self, now: Instant) {
        let start = *self.window_start.get_or_insert(now);
        if now.duration_since(start) >= BASELINE_WINDOW {
            self.lowest_of_previous_window = std::mem::take(&mut self.lowest);
            self.window_start = Some(now);
        }
    }

    fn add(&mut self, kind: String, latency: Duration) {
        let seconds = latency.as_secs_f64().max(MIN_SECONDS);
        let previous = self.lowest_of_previous_window.get(&kind).copied().unwrap_or(f64::INFINITY);
        let lowest = self.lowest.entry(kind).or_insert(seconds);
        *lowest = lowest.min(seconds);
        let ratio = seconds / lowest.min(previous);
        let ln_pause = (seconds * (ratio / HEALTHY_RATIO).powi(3)).ln();
        self.ln_pause = Some(self.ln_pause.map_or(ln_pause, |average| average + EWMA_ALPHA * (ln_pause - average)));
    }

    /// The latency `l` and the baseline `b` of a write yield `l * (l / b / HEALTHY_RATIO)^3`. So a server that needs ten times as long for a
    /// write gets few writes of progress and events, and they hardly delay the other writes. Zero before the first write.
    fn pause(&self) -> Duration {
        self.ln_pause.map_or(Duration::ZERO, |ln| Duration::try_from_secs_f64(ln.exp()).unwrap_or(Duration::MAX))
    }

    fn add_change(&mut self, now: Instant) {
        self.changes.push_back(now);
        if self.changes.len() > CHANGES_PER_SECOND {
            self.changes.pop_front();
        }
    }

    fn progress_paused_until(&self) -> Option<Instant> {
        let after_write = self.progress_began.map(|began| began + self.pause().min(MAX_PROGRESS_PAUSE));
        let first = self.changes.front().filter(|_| self.changes.len() == CHANGES_PER_SECOND);
        after_write.max(first.map(|first| *first + Duration::from_secs(1)))
    }

    /// The lowest latency of a write of any kind.
    fn lowest(&self) -> Option<f64> {
        self.lowest.values().chain(self.lowest_of_previous_window.values()).copied().reduce(f64::min)
    }
}

impl ApiLatency {
    /// Records the latency of a write that succeeded. The kind is its verb and the kind of the object; their number is bounded.
    pub fn observe(&self, kind: String, latency: Duration) {
        let mut latencies = self.0.lock();
        latencies.rotate_window(Instant::now());
        latencies.add(kind, latency);
    }

    /// Records that a status of an object of this process changed. It may be unwritten.
    pub fn observe_status_change(&self) {
        self.0.lock().add_change(Instant::now());
    }

    /// When this process may begin the next write of progress. The work queue reads it before it starts the reconcile.
    pub fn progress_paused_until(&self) -> Option<Instant> {
        self.0.lock().progress_paused_until()
    }

    /// Begins a write of progress and the pause after it.
    ///
    /// # Errors
    /// The rest of the pause after the previous one.
    pub fn begin_progress(&self) -> Result<(), Duration> {
        let (mut latencies, now) = (self.0.lock(), Instant::now());
        match latencies.progress_paused_until() {
            Some(until) if until > now => Err(until - now),
            Some(_) | None => {
                latencies.progress_began = Some(now);
                Ok(())
            }
        }
    }

    /// The pause after the publication of an event, which took `latency`. A publication that took less than each write sent no
    /// request, and needs no pause.
    pub fn event_pause(&self, latency: Duration) -> Duration {
        let latencies = self.0.lock();
        match latencies.lowest() {
            Some(lowest) if latency.as_secs_f64() >= lowest => latencies.pause().min(MAX_EVENT_PAUSE),
            Some(_) | None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn observe(latency: &ApiLatency, kind: &str, latencies: impl IntoIterator<Item = u64>) {
        for milliseconds in latencies {
            latency.observe(kind.to_owned(), ms(milliseconds));
        }
    }

    fn pause_after(latencies: impl IntoIterator<Item = u64>) -> u128 {
        let latency = ApiLatency::default();
        observe(&latency, "create pods", latencies);
        latency.0.lock().pause().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_grows_with_the_latency_and_with_its_ratio() {
        assert_eq!(pause_after([]), 0, "no latency is known");
        assert_eq!(pause_after([100]), 3, "there is no baseline yet");
        assert_eq!(pause_after([5; 30]), 0);
        let busy = |latency| [5].into_iter().chain([latency; 50]);
        assert_eq!(pause_after(busy(15)), 14, "three times the baseline: the latency");
        assert_eq!(pause_after(busy(50)), 1851, "ten times the baseline");
        assert_eq!(pause_after(busy(50).chain([5; 20])), 0, "the load has ended");
        assert_eq!(pause_after([5; 30].into_iter().chain([5000])), 46, "one slow write");
        assert_eq!(pause_after([0; 30]), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_write_has_its_own_baseline() {
        let latency = ApiLatency::default();
        observe(&latency, "create services", [3]);
        observe(&latency, "patch podcliques", [15; 30]);
        assert_eq!(latency.event_pause(ms(15)).as_millis(), 0, "such a patch takes longer without load, too");
        observe(&latency, "create services", [15; 50]);
        assert_eq!(latency.event_pause(ms(15)).as_millis(), 69);
    }

    #[tokio::test(start_paused = true)]
    async fn one_write_of_progress_begins_in_each_pause() {
        let latency = ApiLatency::default();
        assert_eq!(latency.progress_paused_until(), None);
        for (observed, pause) in [([5; 60], ms(0)), ([15; 60], ms(15)), ([20; 60], ms(47))] {
            observe(&latency, "create pods", observed);
            tokio::time::advance(MAX_PROGRESS_PAUSE).await;
            assert_eq!(latency.begin_progress(), Ok(()));
            let rest = latency.begin_progress().expect_err("a pause");
            assert!(rest.abs_diff(pause) <= ms(1), "{rest:?}");
            assert_eq!(latency.progress_paused_until(), Some(Instant::now() + rest));
            tokio::time::advance(rest / 2).await;
            assert_eq!(latency.begin_progress(), Err(rest.saturating_sub(rest / 2)));
        }
        observe(&latency, "create pods", [50_000; 30]);
        tokio::time::advance(MAX_PROGRESS_PAUSE).await;
        assert_eq!(latency.begin_progress(), Ok(()));
        assert_eq!(latency.begin_progress(), Err(MAX_PROGRESS_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn no_progress_is_written_while_many_statuses_change() {
        let latency = ApiLatency::default();
        let observe_every = async |interval| {
            for _ in 0..20 {
                tokio::time::advance(interval).await;
                latency.observe_status_change();
            }
        };
        observe_every(ms(100)).await;
        assert_eq!(latency.progress_paused_until(), Some(Instant::now() + ms(600)), "ten changes per second");
        assert_eq!(latency.begin_progress(), Err(ms(600)));
        observe_every(ms(250)).await;
        assert_eq!(latency.begin_progress(), Ok(()), "four changes per second");
    }

    #[tokio::test(start_paused = true)]
    async fn the_baseline_adapts_to_an_api_server_that_became_slower_permanently() {
        let latency = ApiLatency::default();
        observe(&latency, "create pods", [5]);
        for is_loaded in [true, true, false] {
            observe(&latency, "create pods", [50; 30]);
            assert_eq!(latency.event_pause(ms(50)) == MAX_EVENT_PAUSE, is_loaded);
            assert_eq!(latency.event_pause(ms(4)), Duration::ZERO, "no request was sent");
            tokio::time::advance(BASELINE_WINDOW).await;
        }
    }
}
