//! Whether anybody still comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// In so many equal steps a time is waited for: a process that gets no CPU has not looked, however late it is.
const LOOKS: u32 = 10;

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

    /// Returns when nobody came for as long as `linger`, but after `most` at the latest.
    pub(super) async fn ceases(&self, linger: Duration, most: Duration) {
        let ceased = async {
            let (mut before, mut quiet) = (self.came(), 0);
            while quiet < LOOKS {
                sleep(linger / LOOKS).await;
                let now = self.came();
                quiet = if now == before { quiet + 1 } else { 0 };
                before = now;
            }
        };
        if timeout(most, ceased).await.is_err() {
            tracing::warn!("requests still come {most:?} after the request to stop; they are sent here by mistake");
        }
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_those_who_still_come() {
        let (traffic, began) = (Traffic::default(), Instant::now());
        traffic.ceases(SECOND, 9 * SECOND).await;
        assert_eq!(began.elapsed(), SECOND);
        let coming = async {
            for _ in 0..4 {
                sleep(SECOND / 2).await;
                traffic.note();
            }
        };
        let began = Instant::now();
        tokio::join!(traffic.ceases(SECOND, 9 * SECOND), coming);
        assert_eq!(began.elapsed().as_secs(), 3, "a second after the last who came");
    }

    #[tokio::test(start_paused = true)]
    async fn but_not_for_ever() {
        let (traffic, began) = (Traffic::default(), Instant::now());
        let coming = async {
            loop {
                sleep(SECOND / 2).await;
                traffic.note();
            }
        };
        tokio::select! {
            () = traffic.ceases(SECOND, 9 * SECOND) => {}
            () = coming => {}
        }
        assert_eq!(began.elapsed(), 9 * SECOND);
    }
}
