//! When an object is enqueued again after a reconcile. The delay of the retry after a failure is that of
//! [`Backoff::for_objects`](grove_runtime::backoff::Backoff::for_objects).

use std::time::Duration;

use crate::status_throttle::ProgressDelay;

/// When to enqueue the object again. A trigger may enqueue it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When a trigger names it.
    AwaitChange,
    /// After this time.
    After(Duration),
    /// After this time, to write a status that was withheld.
    StatusAfter(Duration),
    /// To write a status that shows progress. All times count from now.
    ProgressAfter {
        /// The object is enqueued after this time.
        due: Duration,
        /// During a pause of progress, the queue holds the object until this time.
        deadline: Duration,
        /// The deadline of the plan. Few workers write progress, so they do not execute the plan of a deadline.
        reconcile_after: Option<Duration>,
    },
}

impl Requeue {
    /// When to reconcile for this and for a deadline of the plan. Progress keeps its own times.
    #[must_use]
    pub fn or_at(self, time: Option<Duration>) -> Self {
        let Some(time) = time else { return self };
        match self {
            Self::AwaitChange => Self::After(time),
            Self::After(delay) | Self::StatusAfter(delay) => Self::After(delay.min(time)),
            Self::ProgressAfter { due, deadline, reconcile_after } => {
                let reconcile_after = Some(reconcile_after.map_or(time, |earlier| earlier.min(time)));
                Self::ProgressAfter { due, deadline, reconcile_after }
            }
        }
    }

    /// When to reconcile for this and for progress. A deadline and a withheld status keep their own times.
    #[must_use]
    pub fn or_for_progress(self, progress: Option<ProgressDelay>) -> Self {
        let Some(ProgressDelay { due, deadline }) = progress else { return self };
        match self {
            Self::AwaitChange => Self::ProgressAfter { due, deadline, reconcile_after: None },
            // A status is withheld because watch events are pending. They trigger a reconcile, whose plan has the progress again.
            Self::StatusAfter(_) => self,
            Self::After(delay) => Self::ProgressAfter { due, deadline, reconcile_after: Some(delay) },
            Self::ProgressAfter { due: other_due, deadline: other_deadline, reconcile_after } => {
                let (due, deadline) = (due.min(other_due), deadline.min(other_deadline));
                Self::ProgressAfter { due, deadline, reconcile_after }
            }
        }
    }

    /// The time after which the object is reconciled although nothing changes, and although progress is paused.
    pub(crate) fn deadline(self) -> Option<Duration> {
        match self {
            Self::AwaitChange => None,
            Self::After(delay) | Self::StatusAfter(delay) => Some(delay),
            Self::ProgressAfter { due: _, deadline, reconcile_after } => {
                Some(reconcile_after.map_or(deadline, |earlier| earlier.min(deadline)))
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

    fn progress(due: Duration, deadline: Duration, reconcile_after: Option<Duration>) -> Requeue {
        Requeue::ProgressAfter { due, deadline, reconcile_after }
    }

    #[test]
    fn the_earlier_of_deadline_and_status_counts_and_progress_has_its_own_times() {
        for (deadline, status, expected) in [
            (None, Requeue::AwaitChange, Requeue::AwaitChange),
            (None, Requeue::StatusAfter(LATE), Requeue::StatusAfter(LATE)),
            (None, progress(EARLY, LATE, None), progress(EARLY, LATE, None)),
            (Some(LATE), Requeue::AwaitChange, Requeue::After(LATE)),
            (Some(LATE), Requeue::After(EARLY), Requeue::After(EARLY)),
            (Some(LATE), Requeue::StatusAfter(EARLY), Requeue::After(EARLY)),
            (Some(EARLY), Requeue::StatusAfter(LATE), Requeue::After(EARLY)),
            (Some(MIDDLE), progress(EARLY, LATE, None), progress(EARLY, LATE, Some(MIDDLE))),
            (Some(LATE), progress(EARLY, LATE, Some(MIDDLE)), progress(EARLY, LATE, Some(MIDDLE))),
            (Some(EARLY), progress(MIDDLE, LATE, Some(LATE)), progress(MIDDLE, LATE, Some(EARLY))),
        ] {
            assert_eq!(status.or_at(deadline), expected, "{deadline:?} {status:?}");
        }
    }

    #[test]
    fn the_earlier_progress_counts_and_a_deadline_or_a_withheld_status_keeps_its_time() {
        let delay = Some(ProgressDelay { due: EARLY, deadline: LATE });
        for (requeue, expected) in [
            (Requeue::AwaitChange, progress(EARLY, LATE, None)),
            (Requeue::After(MIDDLE), progress(EARLY, LATE, Some(MIDDLE))),
            (Requeue::StatusAfter(MIDDLE), Requeue::StatusAfter(MIDDLE)),
            (progress(MIDDLE, MIDDLE, Some(LATE)), progress(EARLY, MIDDLE, Some(LATE))),
        ] {
            assert_eq!(requeue.or_for_progress(delay), expected, "{requeue:?}");
            assert_eq!(requeue.or_for_progress(None), requeue);
        }
    }

    #[test]
    fn progress_is_a_deadline_only_when_the_load_no_longer_delays_it() {
        for (requeue, expected) in [
            (Requeue::AwaitChange, None),
            (Requeue::After(EARLY), Some(EARLY)),
            (Requeue::StatusAfter(EARLY), Some(EARLY)),
            (progress(EARLY, LATE, None), Some(LATE)),
            (progress(EARLY, LATE, Some(MIDDLE)), Some(MIDDLE)),
            (progress(EARLY, MIDDLE, Some(LATE)), Some(MIDDLE)),
        ] {
            assert_eq!(requeue.deadline(), expected, "{requeue:?}");
        }
    }
}
