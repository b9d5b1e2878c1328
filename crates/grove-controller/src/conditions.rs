//! Conditions of a status: set one, and retain its transition time while its status stays the same.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The controller cannot decide.
    Unknown,
}

impl ConditionStatus {
    /// The value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The condition's type.
    pub type_: &'static str,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The reason, one word in CamelCase.
    pub reason: String,
    /// The message for users.
    pub message: String,
    /// The generation of the object that the condition is about.
    pub observed_generation: Option<i64>,
}

/// Replaces the condition of this type, or inserts it in the order of the types. The transition time changes only with the status.
pub fn set_status_condition(conditions: &mut Vec<Condition>, update: ConditionUpdate, now: Timestamp) {
    let ConditionUpdate { type_, status, reason, message, observed_generation } = update;
    let old = conditions.iter_mut().find(|old| old.type_ == type_);
    let since = match &old {
        Some(old) if old.status == status.as_str() => old.last_transition_time.clone(),
        _ => Time(now),
    };
    let new = Condition {
        type_: type_.into(),
        status: status.as_str().into(),
        reason,
        message,
        observed_generation,
        last_transition_time: since,
    };
    if let Some(old) = old {
        *old = new;
    } else {
        let at = conditions.iter().position(|other| other.type_.as_str() > type_).unwrap_or(conditions.len());
        conditions.insert(at, new);
    }
}

/// Removes the condition of this type, if it exists.
pub fn remove_status_condition(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The condition of this type.
pub fn find_status_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type exists and has the status `True`.
pub fn is_status_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_status_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(type_: &'static str, holds: bool, reason: &str) -> ConditionUpdate {
        ConditionUpdate {
            type_,
            status: holds.into(),
            reason: reason.into(),
            message: String::new(),
            observed_generation: Some(2),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = vec![];
        set_status_condition(&mut conditions, update("Ready", true, "First"), at(1));
        set_status_condition(&mut conditions, update("Ready", true, "Second"), at(2));
        assert_eq!((conditions[0].reason.as_str(), conditions[0].last_transition_time.0), ("Second", at(1)));
        set_status_condition(&mut conditions, update("Ready", false, "Third"), at(3));
        assert_eq!((conditions.len(), conditions[0].last_transition_time.0), (1, at(3)));
    }

    #[test]
    fn conditions_are_inserted_in_the_order_of_their_types_and_keep_their_position() {
        let types = |conditions: &[Condition]| conditions.iter().map(|c| c.type_.clone()).collect::<Vec<_>>();
        let mut conditions = vec![];
        for type_ in ["Ready", "Available", "Scheduled"] {
            set_status_condition(&mut conditions, update(type_, true, "X"), at(1));
        }
        assert_eq!(types(&conditions), ["Available", "Ready", "Scheduled"]);
        conditions.rotate_left(1);
        set_status_condition(&mut conditions, update("Available", false, "X"), at(1));
        assert_eq!(types(&conditions), ["Ready", "Scheduled", "Available"], "another service appended a condition");
        assert!(is_status_condition_true(&conditions, "Ready"));
        remove_status_condition(&mut conditions, "Ready");
        assert!(!is_status_condition_true(&conditions, "Ready"));
    }
}
