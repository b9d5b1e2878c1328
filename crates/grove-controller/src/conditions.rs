//! Conditions of an object's status: set one, keep its transition time while its status stays.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// The three values that a condition's status has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl ConditionStatus {
    /// As it stands in the API.
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

/// What a condition shall say now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The condition's type.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A word in CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The generation of the object that was judged.
    pub observed_generation: Option<i64>,
}

/// Replaces the condition of the verdict's type; the transition time moves only when the status does.
pub fn set_status_condition(conditions: &mut Vec<Condition>, verdict: ConditionUpdate, now: Timestamp) {
    let ConditionUpdate { type_, status, reason, message, observed_generation } = verdict;
    let old = conditions.iter().position(|old| old.type_ == type_).map(|at| conditions.remove(at));
    let since = match old {
        Some(old) if old.status == status.as_str() => old.last_transition_time,
        _ => Time(now),
    };
    conditions.push(Condition {
        type_: type_.into(),
        status: status.as_str().into(),
        reason,
        message,
        observed_generation,
        last_transition_time: since,
    });
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

/// Drops the condition of that type, if there is one.
pub fn remove_status_condition(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The condition of that type.
pub fn find_status_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and holds.
pub fn is_status_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_status_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(type_: &'static str, holds: bool, reason: &str) -> ConditionUpdate {
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
        set_status_condition(&mut conditions, verdict("Ready", true, "First"), at(1));
        set_status_condition(&mut conditions, verdict("Ready", true, "Second"), at(2));
        assert_eq!((conditions[0].reason.as_str(), conditions[0].last_transition_time.0), ("Second", at(1)));
        set_status_condition(&mut conditions, verdict("Ready", false, "Third"), at(3));
        assert_eq!((conditions.len(), conditions[0].last_transition_time.0), (1, at(3)));
    }

    #[test]
    fn conditions_are_sorted_by_type() {
        let mut conditions = vec![];
        for type_ in ["Ready", "Available", "Scheduled"] {
            set_status_condition(&mut conditions, verdict(type_, true, "X"), at(1));
        }
        let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, ["Available", "Ready", "Scheduled"]);
        assert!(is_status_condition_true(&conditions, "Ready"));
        remove_status_condition(&mut conditions, "Ready");
        assert!(!is_status_condition_true(&conditions, "Ready"));
    }
}
