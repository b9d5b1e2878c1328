//! The limit of objects per set: what `plan` and `status` report for a set or a group that exceeds it.

use grove_api_types::conditions::{self, available};
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate};
use grove_controller::plan::Waiting;

/// Why the plan of such an object has no steps.
pub(crate) fn waiting() -> Waiting {
    let message = format!(
        "the set expands to more than {MAX_OBJECTS} objects, pods included; Grove creates and deletes nothing until the set, \
         its scaling groups or its cliques have fewer replicas"
    );
    Waiting::new(available::TOO_MANY_OBJECTS, message)
}

/// The `Available` condition of such an object.
pub(crate) fn available_condition(observed_generation: Option<i64>) -> ConditionUpdate {
    let Waiting { reason, message } = waiting();
    let (type_, status, reason) = (conditions::AVAILABLE, ConditionStatus::False, reason.to_owned());
    ConditionUpdate { type_, status, reason, message, observed_generation }
}
