//! Plans the release of a domain.

use grove_api_types::finalizers;
use grove_controller::plan::{Plan, Stage, Step};

use super::observed::{Observed, Release};

/// The plan for one domain. A domain that changed since it was observed stays until the next reconcile. So Grove's finalizer is removed
/// only when the domain has a deletion timestamp: the deletion may have met a newer version.
pub(crate) fn plan(observed: &Observed) -> Plan {
    let Observed { domain, .. } = observed;
    let release = observed.release();
    let deletion = (release == Release::Deletion).then(|| Step::delete_with_optimistic_lock(domain));
    let finalizer =
        Step::remove_finalizer(domain, finalizers::COMPUTE_DOMAIN).filter(|_| release == Release::Finalizer);
    Plan::new().stage(Stage::new("unused", deletion)).stage(Stage::new("finalizers", finalizer))
}
