//! Whether anybody still comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// In so many equal steps a time is waited for: a process that gets no CPU has not looked, however late it is.
const LOOKS: u32 = 10;
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(10);

/// Counts who comes. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    came: Arc<AtomicU64>,
}

impl Traffic {
    /// Somebody came.
    pub(super) fn note(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns when nobody came for as long as `linger`, or when it has looked for as long as `most`, which is at least
    /// twice that. Says whether nobody comes any more.
    pub(super) async fn ceases(&self, linger: Duration, most: Duration) -> bool {
        let step = (linger / LOOKS).max(SHORTEST);
        let (mut before, mut quiet) = (self.came(), 0);
        for _ in 0..most.as_millis() / step.as_millis() {
            sleep(step).await;
            let now = self.came();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet == LOOKS {
                return true;
            }
        }
        false
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::{LONGEST_DELAY, LONGEST_LINGER};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn asked_every(pause: Duration, times: u32, traffic: &Traffic) {
        for _ in 0..times {
            sleep(pause).await;
            traffic.note();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_those_who_still_come() {
        for linger in [SECOND, LONGEST_DELAY] {
            let (traffic, began) = (Traffic::default(), Instant::now());
            assert!(traffic.ceases(linger, LONGEST_LINGER).await);
            assert_eq!(began.elapsed().as_secs(), linger.as_secs());
        }
        let (traffic, began) = (Traffic::default(), Instant::now());
        let (has_ceased, ()) =
            tokio::join!(traffic.ceases(SECOND, LONGEST_LINGER), asked_every(SECOND / 2, 4, &traffic));
        assert_eq!((has_ceased, began.elapsed().as_secs()), (true, 3), "a second after the last who came");
    }

    #[tokio::test(start_paused = true)]
    async fn but_not_for_ever() {
        let (traffic, began) = (Traffic::default(), Instant::now());
        let (has_ceased, ()) =
            tokio::join!(traffic.ceases(SECOND, LONGEST_LINGER), asked_every(SECOND / 2, 100, &traffic));
        assert!(!has_ceased);
        assert_eq!(began.elapsed(), 50 * SECOND, "those who came were there all the time");
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_held_up_has_not_looked() {
        let (traffic, began) = (Traffic::default(), Instant::now());
        let held_up = async { tokio::time::advance(60 * SECOND).await };
        let (has_ceased, ()) = tokio::join!(traffic.ceases(SECOND, LONGEST_LINGER), held_up);
        assert!(has_ceased);
        assert!(began.elapsed() >= 60 * SECOND + SECOND * 9 / 10, "nine looks were still to be taken");
    }
}
