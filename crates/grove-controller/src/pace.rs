//! When a status is worth a write. News is told at once; that something comes along is told now and then, and the less
//! often the more objects come along at the same time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{Resource, ResourceExt};
use tokio::time::Instant;

/// Progress of a single object is told this long after it was first made.
const SHORTEST: Duration = Duration::from_millis(500);
/// And this much later for each other object that makes progress: ten tellings in a second leave the API server time for
/// what users wait for.
const CROWD: Duration = Duration::from_millis(100);
/// But never later than this.
const LONGEST: Duration = Duration::from_mins(1);

/// What there is to say of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tidings {
    /// Somebody may wait for it: it serves, it no longer does, something was refused.
    News,
    /// It comes along; the next word will say more.
    Progress,
}

/// Which objects have made progress that was not told yet, and when it is to be.
#[derive(Debug, Default)]
pub struct Pace {
    due: Mutex<BTreeMap<String, Instant>>,
}

impl Pace {
    /// Whether `tidings` of the object are to be told now, or else how long they wait.
    pub fn keep<K: Resource>(&self, object: &K, tidings: Tidings) -> Result<(), Duration> {
        let uid = object.uid().unwrap_or_default();
        let now = Instant::now();
        let mut due = self.lock();
        let crowd = CROWD.saturating_mul(u32::try_from(due.len()).unwrap_or(u32::MAX));
        let when = match tidings {
            Tidings::News => now,
            Tidings::Progress => *due.entry(uid.clone()).or_insert(now + (SHORTEST + crowd).min(LONGEST)),
        };
        if when > now {
            return Err(when - now);
        }
        due.remove(&uid);
        Ok(())
    }

    /// Nothing is to be told of the object any more: all was said, or it is gone.
    pub fn rest<K: Resource>(&self, object: &K) {
        self.lock().remove(&object.uid().unwrap_or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        // No code panics while it holds the lock.
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[tokio::test(start_paused = true)]
    async fn progress_waits_and_news_does_not() {
        let pace = Pace::default();
        assert_eq!(pace.keep(&object("a"), Tidings::Progress), Err(SHORTEST));
        tokio::time::advance(SHORTEST / 2).await;
        assert_eq!(pace.keep(&object("a"), Tidings::Progress), Err(SHORTEST / 2), "more progress waits no longer");
        assert_eq!(pace.keep(&object("a"), Tidings::News), Ok(()));
        assert_eq!(pace.keep(&object("a"), Tidings::Progress), Err(SHORTEST), "the next progress waits anew");
        tokio::time::advance(SHORTEST).await;
        assert_eq!(pace.keep(&object("a"), Tidings::Progress), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_waits_longer_and_never_too_long() {
        let pace = Pace::default();
        for number in 0..100 {
            let _ = pace.keep(&object(&number.to_string()), Tidings::Progress);
        }
        assert_eq!(pace.keep(&object("a"), Tidings::Progress), Err(SHORTEST + CROWD * 100));
        pace.rest(&object("a"));
        pace.rest(&object("0"));
        assert_eq!(pace.keep(&object("b"), Tidings::Progress), Err(SHORTEST + CROWD * 99));
        for number in 100..5000 {
            let _ = pace.keep(&object(&number.to_string()), Tidings::Progress);
        }
        assert_eq!(pace.keep(&object("c"), Tidings::Progress), Err(LONGEST));
    }
}
