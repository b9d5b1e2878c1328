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
    /// After this time, to write a status that was delayed.
    StatusAfter(Duration),
}

impl Requeue {
    /// The earlier of the plan's deadline and the delay of the status.
    pub fn after(plan: &Plan, status_delay: Option<Duration>) -> Self {
        match (plan.requeue_after, status_delay) {
            (Some(deadline), Some(status_delay)) if status_delay < deadline => Self::StatusAfter(status_delay),
            (Some(deadline), _) => Self::After(deadline),
            (None, Some(status_delay)) => Self::StatusAfter(status_delay),
            (None, None) => Self::AwaitChange,
        }
    }
}
