//! Plans the removal of Grove's finalizer from a domain. It does not delete the domain: its set or a user does.

use grove_api_types::finalizers;
use grove_controller::plan::{Plan, Stage, Step};

use super::observed::Observed;

/// The plan for one domain.
pub(crate) fn plan(observed: &Observed) -> Plan {
    let removal = Step::remove_finalizer(&observed.domain, finalizers::COMPUTE_DOMAIN);
    Plan::new().stage(Stage::new("finalizers", removal.filter(|_| observed.is_releasable())))
}
