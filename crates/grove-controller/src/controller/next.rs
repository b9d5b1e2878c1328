//! When an object is to be looked at next, by the word of its last reconciliation.

use std::time::Duration;

use crate::plan::Plan;

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Event,
    /// At a known deadline, if nothing changes before.
    Deadline(Duration),
    /// To tell of progress that is not told yet.
    Telling(Duration),
}

impl Next {
    /// As the plan says, but not later than what is left to tell is due.
    pub fn after(plan: &Plan, telling: Option<Duration>) -> Self {
        match (plan.revisit, telling) {
            (Some(deadline), Some(telling)) if telling < deadline => Self::Telling(telling),
            (Some(deadline), _) => Self::Deadline(deadline),
            (None, Some(telling)) => Self::Telling(telling),
            (None, None) => Self::Event,
        }
    }
}
