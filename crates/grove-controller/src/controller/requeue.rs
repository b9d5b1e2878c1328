//! When an object is enqueued again after a successful reconcile.

use std::time::Duration;

use crate::plan::Plan;

/// When to enqueue the object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// When a trigger names it.
    AwaitChange,
    /// After this time, unless a trigger names it before.
    After(Duration),
    /// After this time, to write a status that was withheld.
    StatusAfter(Duration),
    /// After this time, to write a status that shows progress. The queue delays it further while the API server is loaded.
    ProgressAfter(Duration),
}

impl Requeue {
    /// When to reconcile for the plan's deadline and for its `status`, the earlier of both. Progress waits in the queue without a
    /// bound that is short enough for a deadline, so together with a deadline it is an ordinary status.
    pub fn after(plan: &Plan, status: Self) -> Self {
        let Some(deadline) = plan.requeue_after else { return status };
        match status {
            Self::After(delay) | Self::StatusAfter(delay) | Self::ProgressAfter(delay) if delay < deadline => {
                Self::StatusAfter(delay)
            }
            Self::AwaitChange | Self::After(_) | Self::StatusAfter(_) | Self::ProgressAfter(_) => Self::After(deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_deadline_and_status_counts_and_progress_never_delays_a_deadline() {
        const EARLY: Duration = Duration::from_secs(1);
        const LATE: Duration = Duration::from_secs(2);
        for (deadline, status, expected) in [
            (None, Requeue::AwaitChange, Requeue::AwaitChange),
            (None, Requeue::StatusAfter(LATE), Requeue::StatusAfter(LATE)),
            (None, Requeue::ProgressAfter(LATE), Requeue::ProgressAfter(LATE)),
            (Some(LATE), Requeue::AwaitChange, Requeue::After(LATE)),
            (Some(LATE), Requeue::StatusAfter(EARLY), Requeue::StatusAfter(EARLY)),
            (Some(LATE), Requeue::ProgressAfter(EARLY), Requeue::StatusAfter(EARLY)),
            (Some(EARLY), Requeue::ProgressAfter(LATE), Requeue::After(EARLY)),
        ] {
            let plan = Plan { requeue_after: deadline, ..Plan::default() };
            assert_eq!(Requeue::after(&plan, status), expected, "{deadline:?} {status:?}");
        }
    }
}
