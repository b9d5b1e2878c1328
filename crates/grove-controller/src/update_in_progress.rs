//! The condition `UpdateInProgress`, which cliques, scaling groups and sets have.

use grove_api_types::conditions::{UPDATE_IN_PROGRESS, update_in_progress};
use grove_api_types::duration::GoDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::{ConditionStatus, ConditionUpdate, find_status_condition};

/// The state of the update of an object. A variant with a text contains the message for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateState {
    /// It has ended, or the user replaces the pods.
    Ended,
    /// The user has paused it.
    Paused,
    /// It has made no progress for too long.
    DeadlineExceeded(String),
    /// A new pod cannot start.
    Blocked(String),
    /// Pods are being replaced.
    Progressing(String),
}

impl UpdateState {
    /// The condition of an object of this generation.
    pub fn condition(self, observed_generation: Option<i64>) -> ConditionUpdate {
        let (status, reason, message) = match self {
            Self::Ended => {
                (ConditionStatus::False, update_in_progress::NO_ACTIVE_UPDATE, "no update is in progress".to_owned())
            }
            Self::Paused => {
                let remedy = "set spec.updateStrategy.rollingUpdate.paused of the set to false to continue it";
                (ConditionStatus::True, update_in_progress::PAUSED, format!("the update is paused; {remedy}"))
            }
            Self::DeadlineExceeded(message) => {
                (ConditionStatus::Unknown, update_in_progress::PROGRESS_DEADLINE_EXCEEDED, message)
            }
            Self::Blocked(message) => (ConditionStatus::True, update_in_progress::BLOCKED, message),
            Self::Progressing(message) => (ConditionStatus::True, update_in_progress::PROGRESSING, message),
        };
        ConditionUpdate { type_: UPDATE_IN_PROGRESS, status, reason: reason.to_owned(), message, observed_generation }
    }
}

/// Whether the conditions report that the update is paused.
pub fn was_paused(conditions: &[Condition]) -> bool {
    find_status_condition(conditions, UPDATE_IN_PROGRESS)
        .is_some_and(|condition| condition.reason == update_in_progress::PAUSED)
}

/// The message about an exceeded deadline; `blocked` is why a new pod cannot start.
pub fn deadline_message(deadline: &GoDuration, blocked: Option<&str>) -> String {
    let cause = blocked.unwrap_or("the update goes on");
    format!("no progress for the progressDeadline of {}; {cause}", deadline.as_str())
}
