//! Plans the next writes for a gang: none. The reconciler of sets creates and deletes gangs: `set/desired/pod_gang.rs`.

use grove_controller::plan::Plan;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The plan for one gang: it is always empty, because a gang has no children. The status is not part of a plan.
pub(crate) fn plan(_observed: &Observed, _now: Timestamp) -> Plan {
    Plan::new()
}
