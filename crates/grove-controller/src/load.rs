//! How busy the API server is, judged by how long it takes to answer beside how long it takes at leisure.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A server that answers within this many times its quickest answer is at leisure.
const LEISURE: f64 = 3.0;
/// The latest answer counts for so much of what is thought of the server now.
const WEIGHT: f64 = 0.2;
/// The quickest answer is that of this time, or of the one before: a server may become slower for good.
const ERA: Duration = Duration::from_hours(1);
/// No pause is longer, so that a server that is always busy is told a few things every second nevertheless.
const LONGEST: Duration = Duration::from_millis(250);

/// How long writes took. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<Mutex<Answers>>);

/// Times in seconds.
#[derive(Debug, Default)]
struct Answers {
    usual: Option<f64>,
    quickest: Option<f64>,
    quickest_before: Option<f64>,
    since: Option<Instant>,
}

impl Answers {
    fn turn(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= ERA {
            self.quickest_before = self.quickest.take();
            self.since = Some(now);
        }
    }

    fn note(&mut self, took: f64) {
        self.usual = Some(self.usual.map_or(took, |usual| usual + WEIGHT * (took - usual)));
        self.quickest = Some(self.quickest.map_or(took, |quickest| quickest.min(took)));
    }

    fn quickest_of_all(&self) -> Option<f64> {
        [self.quickest, self.quickest_before].into_iter().flatten().reduce(f64::min)
    }
}

impl Load {
    /// A write was accepted after so long.
    pub fn wrote(&self, took: Duration) {
        let mut answers = self.lock();
        answers.turn(Instant::now());
        answers.note(took.as_secs_f64());
    }

    /// How long to wait after something that took so long, and that nobody waited for, before the next of its kind: not at
    /// all for a server at leisure, and the longer the slower it answers. So what is only to be told leaves a busy server to
    /// what has to be done. What took less than any answer did not ask the server.
    pub fn pause_after(&self, took: Duration) -> Duration {
        let answers = self.lock();
        let (Some(usual), Some(quickest)) = (answers.usual, answers.quickest_of_all()) else { return Duration::ZERO };
        if took.as_secs_f64() < quickest {
            return Duration::ZERO;
        }
        let pause = usual * (usual / quickest - LEISURE).max(0.0);
        Duration::try_from_secs_f64(pause).unwrap_or(LONGEST).min(LONGEST)
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn after(answers: impl IntoIterator<Item = u64>) -> Duration {
        let load = Load::default();
        answers.into_iter().for_each(|took| load.wrote(ms(took)));
        load.pause_after(ms(100))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_at_leisure_is_not_spared_and_a_busy_one_is() {
        assert_eq!(after([]), Duration::ZERO, "nothing is known");
        assert_eq!(after([100]), Duration::ZERO, "nothing to compare with");
        assert_eq!(after([9, 5, 7, 10]), Duration::ZERO);
        let busy = [5].into_iter().chain([20; 30]);
        assert_eq!(after(busy.clone()).as_millis(), 19, "four times as slow: once more than leisure allows");
        assert_eq!(after([5].into_iter().chain([500; 30])), LONGEST);
        assert_eq!(after(busy.chain([6; 10])), Duration::ZERO, "it is at leisure again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_became_slower_for_good_is_not_spared_for_ever() {
        let load = Load::default();
        load.wrote(ms(5));
        for spared in [true, true, false] {
            (0..30).for_each(|_| load.wrote(ms(50)));
            assert_eq!(load.pause_after(ms(50)) > Duration::ZERO, spared);
            assert_eq!(load.pause_after(ms(4)), Duration::ZERO, "nothing was asked");
            tokio::time::advance(ERA).await;
        }
    }
}
