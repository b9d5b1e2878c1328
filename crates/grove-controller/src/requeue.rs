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
    /// After this time, to write a status that was withheld.
    StatusAfter(Duration),
    /// To write a status that shows progress. Both times count from now.
    ProgressAfter {
        /// The object is enqueued after this time.
        due: Duration,
        /// While the API server is loaded, the queue holds the object until this time.
        deadline: Duration,
    },
}

impl Requeue {
    /// When to reconcile for this and for the `deadline` of a plan or of a retry, the earlier of both. The queue holds progress
    /// until that deadline at most.
    #[must_use]
    pub fn or_at(self, deadline: Option<Duration>) -> Self {
        match (self, deadline) {
            (Self::ProgressAfter { due, deadline: end }, Some(deadline)) if due < deadline => {
                Self::ProgressAfter { due, deadline: end.min(deadline) }
            }
            (Self::After(delay) | Self::StatusAfter(delay), Some(deadline)) if delay < deadline => self,
            (_, Some(deadline)) => Self::After(deadline),
            (_, None) => self,
        }
    }

    /// Not before this time, because the API server demands it.
    #[must_use]
    pub(crate) fn not_before(self, earliest: Duration) -> Self {
        match self {
            Self::AwaitChange => self,
            Self::After(delay) => Self::After(delay.max(earliest)),
            Self::StatusAfter(delay) => Self::StatusAfter(delay.max(earliest)),
            Self::ProgressAfter { due, deadline } => {
                Self::ProgressAfter { due: due.max(earliest), deadline: deadline.max(earliest) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Duration = Duration::from_secs(1);
    const MIDDLE: Duration = Duration::from_secs(2);
    const LATE: Duration = Duration::from_secs(3);

    fn progress(due: Duration, deadline: Duration) -> Requeue {
        Requeue::ProgressAfter { due, deadline }
    }

    #[test]
    fn the_earlier_of_deadline_and_status_counts_and_progress_never_delays_a_deadline() {
        for (deadline, status, expected) in [
            (None, Requeue::AwaitChange, Requeue::AwaitChange),
            (None, Requeue::StatusAfter(LATE), Requeue::StatusAfter(LATE)),
            (None, progress(EARLY, LATE), progress(EARLY, LATE)),
            (Some(LATE), Requeue::AwaitChange, Requeue::After(LATE)),
            (Some(LATE), Requeue::StatusAfter(EARLY), Requeue::StatusAfter(EARLY)),
            (Some(EARLY), Requeue::StatusAfter(LATE), Requeue::After(EARLY)),
            (Some(MIDDLE), progress(EARLY, LATE), progress(EARLY, MIDDLE)),
            (Some(LATE), progress(EARLY, MIDDLE), progress(EARLY, MIDDLE)),
            (Some(EARLY), progress(MIDDLE, LATE), Requeue::After(EARLY)),
        ] {
            assert_eq!(status.or_at(deadline), expected, "{deadline:?} {status:?}");
        }
    }
}
