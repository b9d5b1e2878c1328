//! When an object is enqueued again after a reconcile. The delay of the retry after a failure is that of
//! [`Backoff::for_objects`](grove_runtime::backoff::Backoff::for_objects).

use std::time::Duration;

/// When to enqueue the object again. A trigger may enqueue it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When a trigger names it.
    AwaitChange,
    /// After this time.
    After(Duration),
    /// After this time, for a status that could not be written yet. It has low priority.
    StatusAfter(Duration),
}

impl Requeue {
    /// When to reconcile for this and for a deadline of the plan: at the earlier time. The reconcile sets the other time again.
    #[must_use]
    pub fn or_at(self, time: Option<Duration>) -> Self {
        match (self, time) {
            (Self::AwaitChange, Some(time)) => Self::After(time),
            (Self::After(delay), Some(time)) => Self::After(delay.min(time)),
            (Self::StatusAfter(delay), Some(time)) if time <= delay => Self::After(time),
            (Self::StatusAfter(_), Some(_)) | (_, None) => self,
        }
    }

    /// The time after which the object is reconciled although nothing changes.
    pub(crate) fn delay(self) -> Option<Duration> {
        match self {
            Self::AwaitChange => None,
            Self::After(delay) | Self::StatusAfter(delay) => Some(delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Duration = Duration::from_secs(1);
    const LATE: Duration = Duration::from_secs(2);

    #[test]
    fn the_earlier_of_a_deadline_and_a_status_counts() {
        use Requeue::{After, AwaitChange, StatusAfter};
        for (requeue, deadline, expected) in [
            (AwaitChange, None, AwaitChange),
            (StatusAfter(LATE), None, StatusAfter(LATE)),
            (AwaitChange, Some(LATE), After(LATE)),
            (After(EARLY), Some(LATE), After(EARLY)),
            (After(LATE), Some(EARLY), After(EARLY)),
            (StatusAfter(EARLY), Some(LATE), StatusAfter(EARLY)),
            (StatusAfter(LATE), Some(EARLY), After(EARLY)),
            (StatusAfter(EARLY), Some(EARLY), After(EARLY)),
        ] {
            assert_eq!(requeue.or_at(deadline), expected, "{requeue:?} {deadline:?}");
        }
        assert_eq!([AwaitChange, After(EARLY), StatusAfter(LATE)].map(Requeue::delay), [None, Some(EARLY), Some(LATE)]);
    }
}
