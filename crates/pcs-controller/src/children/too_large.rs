//! The limits of the size of a set: what `plan` and `status` report for a set or a group that exceeds one.

use grove_api_types::conditions::{self, available};
use grove_api_types::expansion::dependency_count::{MAX_DEPENDENCIES, MAX_DEPENDENCIES_OF_CLIQUE};
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate};
use grove_controller::plan::Waiting;

/// Why the plan of an object that exceeds this limit has no steps.
pub(crate) fn waiting(limit: SizeLimit) -> Waiting {
    match limit {
        SizeLimit::Objects => {
            let message = format!(
                "the set expands to more than {MAX_OBJECTS} objects, pods included; Grove creates and deletes nothing until the \
                 set, its scaling groups or its cliques have fewer replicas"
            );
            Waiting::new(available::TOO_MANY_OBJECTS, message)
        }
        SizeLimit::StartupDependencies => {
            let message = format!(
                "the PodCliques of the set have more than {MAX_DEPENDENCIES} startup dependencies, or one of them has more than \
                 {MAX_DEPENDENCIES_OF_CLIQUE}; Grove creates and deletes nothing until the set or its scaling groups have fewer \
                 replicas, or the set is created again with a smaller minAvailable"
            );
            Waiting::new(available::TOO_MANY_STARTUP_DEPENDENCIES, message)
        }
    }
}

/// The `Available` condition of such an object.
pub(crate) fn available_condition(limit: SizeLimit, observed_generation: Option<i64>) -> ConditionUpdate {
    let Waiting { reason, message } = waiting(limit);
    let (type_, status, reason) = (conditions::AVAILABLE, ConditionStatus::False, reason.to_owned());
    ConditionUpdate { type_, status, reason, message, observed_generation }
}
