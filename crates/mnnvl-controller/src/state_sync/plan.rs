//! Plans the writes of the objects of a domain.

use grove_api_types::compute_domain::STRATEGY_ANNOTATION;
use grove_api_types::deletion::is_terminating;
use grove_api_types::{events, finalizers};
use grove_controller::plan::{Plan, Stage, Step, WarningEvent};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::desired::claim_template::claim_template;
use super::desired::daemon_set::daemon_set;
use super::objects::{ClaimTarget, release};
use super::observed::{DesiredClique, Observed};

mod cliques;
mod teardown;

/// The plan for one domain: begins the synchronization, creates what is missing and keeps the cliques, or stops a terminating domain.
pub(crate) fn plan(observed: &Observed, cliques: &[DesiredClique]) -> Plan {
    if is_terminating(&observed.domain) && observed.may_be_stopped() {
        return teardown::plan(observed, cliques::stage(observed, cliques));
    }
    if let Some(obstacle) = observed.obstacle() {
        let warning = WarningEvent { reason: events::COMPUTE_DOMAIN_NOT_SYNCHRONIZED, note: obstacle.to_string() };
        return Plan::new().with_warnings([warning]);
    }
    match (is_terminating(&observed.domain), observed.domain.is_registered()) {
        (true, _) => Plan::new(),
        (false, false) => Plan::new().stage(Stage::new("registration", [register(observed)])),
        (false, true) => {
            let plan = Plan::new().stage(objects(observed)).stage(cliques::stage(observed, cliques));
            plan.with_warnings(cliques::warnings(cliques)).with_independent_stages()
        }
    }
}

/// The first write to a domain: the finalizer, and the strategy, which stays. The objects follow when the domain has both, so that none
/// outlives the domain.
fn register(observed: &Observed) -> Step {
    let domain = &observed.domain;
    let others = domain.finalizers().iter().map(String::as_str).filter(|it| *it != finalizers::COMPUTE_DOMAIN_STATE);
    let finalizers: Vec<_> = others.chain([finalizers::COMPUTE_DOMAIN_STATE]).collect();
    let strategy = observed.strategy().name();
    let metadata = json!({ "finalizers": finalizers, "annotations": { STRATEGY_ANNOTATION: strategy } });
    Step::merge_patch_with_optimistic_lock(domain, json!({ "metadata": metadata }))
}

/// Creates the `DaemonSet` and the claim templates that are missing, and releases those that another client deleted, so that the next
/// reconcile creates them. They are never changed: a change would restart the IMEX processes of running pods.
fn objects(observed: &Observed) -> Stage {
    let template = |target| match observed.claim_template(target) {
        None => Some(Step::create(&claim_template(observed, target))),
        Some(template) => release_terminating(template),
    };
    let daemon_set = match observed.daemon_set.as_deref() {
        None => Some(Step::create(&daemon_set(observed))),
        Some(daemon_set) => release_terminating(daemon_set),
    };
    let steps = [template(ClaimTarget::Daemon), daemon_set, template(ClaimTarget::Workload)];
    Stage::new("daemons", steps.into_iter().flatten()).with_failure_event(events::COMPUTE_DOMAIN_FAILED)
}

fn release_terminating<K: Resource<DynamicType = ()>>(object: &K) -> Option<Step> {
    release(object).filter(|_| is_terminating(object))
}
