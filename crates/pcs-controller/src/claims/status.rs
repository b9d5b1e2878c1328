//! The condition `ResourceClaimsCreated` of sets and of scaling groups. Pure.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::conditions::{self, resource_claims_created as reasons};
use grove_api_types::deletion::is_terminating;
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::children::ObservedChildren;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate, find_status_condition};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::plan::Waiting;
use grove_controller::rejections::rejection_message_of_kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use super::observed::{OwnedClaims, RequiredClaim};
use super::plan::{MAX_NAMED, join_messages};

/// The message if only the children of the owner have claims.
const NO_OWN_CLAIMS: &str =
    "no ResourceClaim belongs to this object itself; the objects that it controls report no problem";

/// The problems of a child that its owner reports, too. The others end by themselves, and each end would be a further status write.
const REPORTED_BY_OWNER: [&str; 6] = [
    reasons::RESOURCE_CLAIMS_NOT_SERVED,
    reasons::RESOURCE_CLAIMS_FORBIDDEN,
    reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND,
    reasons::RESOURCE_CLAIM_NAME_CONFLICT,
    reasons::RESOURCE_CLAIM_REJECTED,
    reasons::RESOURCE_CLAIMS_INVALID,
];

/// What the condition of an owner depends on.
pub(crate) struct ClaimsState<'s, 'a, Owner> {
    pub(crate) claims: &'s OwnedClaims<'a>,
    pub(crate) children: &'s ObservedChildren,
    pub(crate) result: &'s ExecutionResult,
    pub(crate) backed_off: &'s BackedOffCreates,
    pub(crate) conflicts: &'s NameConflicts<'s, Owner>,
}

impl<Owner: Resource<DynamicType = ()>> ClaimsState<'_, '_, Owner> {
    /// The condition of the owner.
    pub(crate) fn condition(&self, owner: &Owner) -> ConditionUpdate {
        let is_existing = |claim: &RequiredClaim<'_, '_>| self.live(claim).is_some_and(|live| !is_terminating(live));
        let (count, existing) = (self.claims.required().count(), self.claims.required().filter(is_existing).count());
        let causes: Vec<Waiting> = self.causes().into_iter().chain(self.causes_of_children()).collect();
        let (status, reason, message) = if let Some(first) = causes.first() {
            let details: Vec<_> = causes.iter().map(|cause| cause.message.as_str()).collect();
            let message = format!("{existing} of {count} ResourceClaims exist; {}", details.join("; "));
            (ConditionStatus::False, first.reason, message)
        } else {
            let message = match count {
                0 => NO_OWN_CLAIMS.to_owned(),
                _ => format!("all {count} ResourceClaims of this level exist"),
            };
            (ConditionStatus::True, reasons::ALL_RESOURCE_CLAIMS_EXIST, message)
        };
        ConditionUpdate {
            type_: conditions::RESOURCE_CLAIMS_CREATED,
            status,
            reason: reason.to_owned(),
            message,
            observed_generation: owner.meta().generation,
        }
    }

    /// The problems of the scaling groups and cliques that the owner controls.
    fn causes_of_children(&self) -> Vec<Waiting> {
        let groups = self.children.of_kind::<PodCliqueScalingGroup>();
        let groups = groups.filter_map(|group| Some((&**group, group.status.as_ref()?.conditions.as_slice())));
        let cliques = self.children.of_kind::<PodClique>();
        let cliques = cliques.filter_map(|clique| Some((&**clique, clique.status.as_ref()?.conditions.as_slice())));
        let mut problems = problems_of_children(groups);
        problems.extend(problems_of_children(cliques));
        problems
    }

    fn live(&self, claim: &RequiredClaim<'_, '_>) -> Option<&ResourceClaim> {
        self.children.get::<ResourceClaim>(claim.name.as_str()).map(AsRef::as_ref)
    }

    /// Why not all claims of the owner exist, the most specific reason first.
    fn causes(&self) -> Vec<Waiting> {
        if let Some(unavailable) = &self.claims.inputs.unavailable {
            return vec![unavailable.clone()];
        }
        let missing: Vec<_> = self.claims.required().filter(|claim| self.live(claim).is_none()).collect();
        let blocked: BTreeSet<Waiting> = missing.iter().filter_map(|claim| self.claims.blocked_by(claim)).collect();
        let (not_found, unreadable): (Vec<_>, Vec<_>) =
            blocked.into_iter().partition(|cause| cause.reason == reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND);
        let conflicts: BTreeMap<_, _> = self.conflicts.waiting_of_kind::<ResourceClaim>().collect();
        let (foreign, of_earlier): (Vec<_>, Vec<_>) =
            conflicts.values().partition(|waiting| waiting.reason != conditions::available::NAME_TERMINATING);
        let rejection = rejection_message_of_kind::<ResourceClaim>(self.result, self.backed_off);
        let terminating: Vec<_> =
            self.claims.required().filter(|claim| self.live(claim).is_some_and(is_terminating)).collect();
        let mut causes = merged(not_found.iter());
        causes.extend(with_reason(reasons::RESOURCE_CLAIM_NAME_CONFLICT, &foreign));
        causes.extend(rejection.map(|message| Waiting::new(reasons::RESOURCE_CLAIM_REJECTED, message)));
        causes.extend(with_reason(reasons::RESOURCE_CLAIM_TERMINATING, &of_earlier));
        causes.extend(named(
            &terminating,
            reasons::RESOURCE_CLAIM_TERMINATING,
            "these claims are being deleted, and are created again after the pods that use them have ended",
        ));
        causes.extend(merged(unreadable.iter()));
        if causes.is_empty() {
            let text = "these claims do not exist yet";
            causes.extend(named(&missing, reasons::RESOURCE_CLAIMS_PENDING, text));
        }
        causes
    }
}

/// One cause with the messages of all; they have the same reason.
fn merged<'w>(causes: impl Iterator<Item = &'w Waiting>) -> Vec<Waiting> {
    let causes: Vec<_> = causes.collect();
    let Some(first) = causes.first() else { return vec![] };
    let messages: Vec<_> = causes.iter().map(|cause| cause.message.as_str()).collect();
    vec![Waiting::new(first.reason, join_messages(&messages))]
}

/// The same with another reason.
fn with_reason(reason: &'static str, causes: &[&Waiting]) -> Option<Waiting> {
    let messages: Vec<_> = causes.iter().map(|cause| cause.message.as_str()).collect();
    (!messages.is_empty()).then(|| Waiting::new(reason, join_messages(&messages)))
}

fn named(claims: &[RequiredClaim<'_, '_>], reason: &'static str, text: &str) -> Option<Waiting> {
    let names: Vec<_> = claims.iter().map(|claim| claim.name.as_str()).collect();
    (!names.is_empty()).then(|| Waiting::new(reason, format!("{text}: {}", join_names(&names, MAX_NAMED))))
}

/// The problems that only a user can solve, from the conditions of the children of one kind. The messages name the first children.
fn problems_of_children<'c, K>(children: impl Iterator<Item = (&'c K, &'c [Condition])>) -> Vec<Waiting>
where
    K: Resource<DynamicType = ()> + 'c,
{
    let mut by_reason: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (child, conditions) in children {
        let condition = find_status_condition(conditions, conditions::RESOURCE_CLAIMS_CREATED);
        let Some(condition) = condition.filter(|condition| condition.status == "False") else { continue };
        let reason = REPORTED_BY_OWNER.into_iter().find(|reason| *reason == condition.reason);
        let Some(reason) = reason else { continue };
        by_reason.entry(reason).or_default().push(format!(
            "{} {}: {}",
            K::kind(&()),
            child.name_any(),
            condition.message
        ));
    }
    let problem = |(reason, messages): (&'static str, Vec<String>)| {
        let (first, rest) = messages.split_first()?;
        let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
        Some(Waiting::new(reason, format!("{first}{more}")))
    };
    by_reason.into_iter().filter_map(problem).collect()
}
