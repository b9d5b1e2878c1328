//! Plans the removal of Grove's finalizer from a domain. It does not delete the domain: its set or a user does.

use std::time::Duration;

use grove_api_types::finalizers;
use grove_controller::plan::{Plan, Stage, Step};

use super::observed::{ConfirmationResult, Observed};

/// The delay of the next live reads while cliques are expected.
const CLIQUES_RETRY: Duration = Duration::from_secs(10);

/// The plan for one domain.
pub(crate) fn plan(observed: &Observed) -> Plan {
    let removal = Step::remove_finalizer(&observed.domain, finalizers::COMPUTE_DOMAIN);
    let plan = Plan::new().stage(Stage::new("finalizers", removal.filter(|_| observed.is_releasable())));
    if observed.confirmed == ConfirmationResult::CliquesExpected { plan.requeue_after(CLIQUES_RETRY) } else { plan }
}
