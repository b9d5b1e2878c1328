//! The condition of a set about its domains. When it is written: `grove-controller/src/status_limiter.rs`. pcs-controller writes the other
//! fields and conditions.

use grove_api_types::conditions::{self, compute_domains_created};
use grove_api_types::deletion::is_terminating;
use grove_api_types::mnnvl::{self, RequiredDomain};
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::PodCliqueSetStatus;
use grove_controller::conditions::{
    ConditionStatus, ConditionUpdate, find_status_condition, remove_status_condition, set_status_condition,
};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Plan, Waiting};
use grove_controller::rejections::{RejectedObjects, rejection_message};
use grove_controller::status_limiter::StatusChange;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use super::plan::MAX_NAMED;

/// The status of the set, in which only the condition of this service differs. A set that uses no domains has no such condition.
pub(crate) fn status(observed: &Observed, plan: &Plan, result: &ExecutionResult, now: Timestamp) -> PodCliqueSetStatus {
    let mut status = observed.set.status.clone().unwrap_or_default();
    if observed.uses_domains() {
        set_status_condition(&mut status.conditions, condition(observed, plan, result), now);
    } else {
        remove_status_condition(&mut status.conditions, conditions::COMPUTE_DOMAINS_CREATED);
    }
    status
}

/// A change of the reason is significant. Another message is a minor change. So is the first `ComputeDomainsCreated` of a set if all domains exist:
/// no controller waits for it, and `Available` reports whether replicas still wait for their domains.
pub(crate) fn status_change(observed: &Observed, new: &PodCliqueSetStatus) -> StatusChange {
    let old = observed.set.status.as_ref().and_then(reason);
    let is_minor = match (old, reason(new)) {
        (None, Some(new)) => new == compute_domains_created::ALL_COMPUTE_DOMAINS_EXIST,
        (old, new) => old == new,
    };
    if is_minor { StatusChange::Minor } else { StatusChange::Significant }
}

fn reason(status: &PodCliqueSetStatus) -> Option<&str> {
    let condition = find_status_condition(&status.conditions, conditions::COMPUTE_DOMAINS_CREATED);
    condition.map(|condition| condition.reason.as_str())
}

fn condition(observed: &Observed, plan: &Plan, result: &ExecutionResult) -> ConditionUpdate {
    let required = if observed.is_too_large() { vec![] } else { mnnvl::required_domains(&observed.set).collect() };
    let exists = |required: &&RequiredDomain<'_>| observed.domain(required.name.as_str()).is_some();
    let (count, existing) = (required.len(), required.iter().filter(exists).count());
    let causes = causes(observed, plan, result, &required);
    let (status, reason, message) = match causes.first() {
        Some(first) => {
            let details: Vec<_> = causes.iter().map(|cause| cause.message.as_str()).collect();
            let message = format!("{existing} of {count} ComputeDomains exist; {}", details.join("; "));
            (ConditionStatus::False, first.reason, message)
        }
        None if count == 0 => {
            let message = "the set has no replica that needs a ComputeDomain".to_owned();
            (ConditionStatus::True, compute_domains_created::ALL_COMPUTE_DOMAINS_EXIST, message)
        }
        None => {
            let message = format!("all {count} ComputeDomains exist");
            (ConditionStatus::True, compute_domains_created::ALL_COMPUTE_DOMAINS_EXIST, message)
        }
    };
    ConditionUpdate {
        type_: conditions::COMPUTE_DOMAINS_CREATED,
        status,
        reason: reason.to_owned(),
        message,
        observed_generation: observed.set.metadata.generation,
    }
}

/// About domains that a client deleted.
const TERMINATING: &str = "these domains are being deleted, and NVIDIA's driver serves no pods with them; the next ones are created when no \
                           pod has a claim of these; delete the pods of their replicas to replace them";

/// Why not all domains are as the set needs them; the first cause is the reason of the condition.
fn causes(observed: &Observed, plan: &Plan, result: &ExecutionResult, required: &[RequiredDomain<'_>]) -> Vec<Waiting> {
    let rejection = rejection_message(result, &observed.backed_off, RejectedObjects::Named);
    let mut causes: Vec<Waiting> = plan.waiting.iter().take(MAX_NAMED).cloned().collect();
    causes.extend(rejection.map(|(reason, message)| Waiting::new(reason, message)));
    let live = |required: &RequiredDomain<'_>| observed.domain(required.name.as_str());
    let missing = |required: &RequiredDomain<'_>| causes.is_empty() && live(required).is_none();
    let terminating = |required: &RequiredDomain<'_>| live(required).is_some_and(is_terminating);
    let differs = |required: &RequiredDomain<'_>| {
        let name = required.name.as_str();
        live(required).is_some_and(|live| live.spec.num_nodes != 0 || live.claim_template() != name)
    };
    let of_domains = [
        (
            named(required, missing),
            compute_domains_created::COMPUTE_DOMAINS_MISSING,
            "these domains do not exist yet".to_owned(),
        ),
        (named(required, terminating), compute_domains_created::COMPUTE_DOMAIN_TERMINATING, TERMINATING.to_owned()),
        (
            named(required, differs),
            compute_domains_created::COMPUTE_DOMAIN_SPEC_DIFFERS,
            "the specs of these domains are not those of Grove, and are immutable; delete the set and create it again"
                .to_owned(),
        ),
    ];
    let of_domains = of_domains.into_iter().filter(|(names, _, _)| !names.is_empty());
    let of_domains: Vec<_> = of_domains
        .map(|(names, reason, text)| Waiting::new(reason, format!("{text}: {}", join_names(&names, MAX_NAMED))))
        .collect();
    causes.extend(of_domains);
    causes
}

fn named<'a>(required: &'a [RequiredDomain<'_>], is_affected: impl Fn(&RequiredDomain<'_>) -> bool) -> Vec<&'a str> {
    required.iter().filter(|required| is_affected(required)).map(|required| required.name.as_str()).collect()
}
