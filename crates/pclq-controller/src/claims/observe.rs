//! Takes the snapshot of the claims that the pods of a clique use.

use std::collections::BTreeSet;

use grove_api_types::conditions::RESOURCE_CLAIMS_CREATED;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueName, ResourceClaimName};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim, SlimResourceClaimTemplate};
use grove_api_types::resource_sharing::claim_source::{ExternalTemplate, TemplateReference};
use grove_api_types::resource_sharing::clique_claims::{CliqueClaim, CliqueClaims};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::children::{ChildTracker, ObservedChildren};
use grove_controller::conditions::find_status_condition;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Waiting;
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::template_access::denied_template;
use grove_runtime::caches::Cache;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;

use super::clique_owner::{ClaimContent, CliqueOwner};
use super::informers::ClaimCaches;
use super::observed::{
    ObservedClaims, OwnClaim, ReferenceState, ReferencedClaim, TemplateState, pod_index_of_claim, unavailable,
};
use super::retired_claims::RetiredClaims;
use crate::NAME;
use crate::observed::ObservedClique;

/// The claims of the clique.
pub(crate) fn observe(
    tracker: &ChildTracker<CliqueOwner>,
    caches: &ClaimCaches,
    retired_claims: &RetiredClaims,
    observed: &ObservedClique,
) -> ObservedClaims {
    let ObservedClique { clique, is_namespace_terminating, .. } = observed;
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    // Read before the children: a claim that arrives in between is no longer pending, and is among them.
    let pending_creates = tracker.pending_creates(clique);
    let children = tracker.children(clique);
    let has_claims = children.of_kind::<ResourceClaim>().next().is_some();
    let (annotation, invalid) = match in_annotation(clique, has_claims) {
        Ok(claims) => (claims, None),
        Err(reason) => (CliqueClaims::default(), Some(reason)),
    };
    let CliqueClaims { references, claims: own_claims, set_uid } = annotation;
    let retired = retired(retired_claims, clique, &children, &pending_creates);
    let unavailable_templates = unavailable::<SlimResourceClaimTemplate>(caches.templates.availability());
    let denied_templates = caches.access.denied();
    let own_claim = |claim| own(caches, namespace, claim, unavailable_templates.as_ref(), denied_templates.as_ref());
    let backed_off = if *is_namespace_terminating { BackedOffCreates::default() } else { tracker.backed_off(clique) };
    let referenced = |name| referenced(&caches.claims, clique, name, set_uid.as_deref());
    let mut claims = ObservedClaims {
        invalid,
        availability: caches.claims.availability(),
        references: references.into_iter().map(referenced).collect(),
        own: own_claims.into_iter().map(own_claim).collect(),
        children,
        name_conflicts: Vec::new(),
        backed_off,
        pending_creates,
        retired,
        created: BTreeSet::new(),
        read_errors: TemplateReadErrors::default(),
    };
    claims.name_conflicts = name_conflicts(tracker, observed, &claims);
    claims
}

/// The claims of the clique that no new pod uses, because their indices were removed since their creation.
fn retired(
    retired_claims: &RetiredClaims,
    clique: &PodClique,
    children: &ObservedChildren,
    pending_creates: &PendingCreates,
) -> BTreeSet<String> {
    let (clique_name, replicas) = (PodCliqueName::new(clique.name_any()), clique.spec.replicas);
    let active = children.of_kind::<ResourceClaim>().filter(|claim| !is_terminating(&***claim));
    let names = active.filter_map(|claim| claim.metadata.name.as_deref());
    let names = names.chain(pending_creates.children.iter().map(|child| child.name.as_str()));
    let is_removed = |name: &str| pod_index_of_claim(&clique_name, name).is_some_and(|index| index >= replicas);
    let claims = names.map(|name| (name, is_removed(name)));
    retired_claims.observe(clique.metadata.uid.as_deref().unwrap_or_default(), claims)
}

/// The objects that have names of claims of the clique. A change of such an object triggers the clique.
fn name_conflicts(
    tracker: &ChildTracker<CliqueOwner>,
    clique: &ObservedClique,
    claims: &ObservedClaims,
) -> Vec<NameConflict> {
    if claims.own.is_empty() || clique.is_terminating() || claims.is_too_large(clique) {
        return Vec::new();
    }
    let Ok(identity) = clique.identity() else { return Vec::new() };
    let mut expansion = claims.expansion(clique, &identity);
    // The clique controls the existing ones.
    expansion.claims.retain(|claim| !matches!(claim.content, ClaimContent::Existing));
    tracker.name_conflicts(&clique.clique, &expansion)
}

/// The claims in the annotation of the clique. Users may edit it: a clique that has or had claims needs an annotation that can be decoded.
/// A valid list of other claims cannot be detected here; pcs-controller restores the annotation.
pub(crate) fn in_annotation(clique: &PodClique, owns_claims: bool) -> Result<CliqueClaims, String> {
    let claims = CliqueClaims::from_annotations(clique.annotations()).map_err(|error| error.message(NAME))?;
    let conditions = clique.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let had_claims = owns_claims || find_status_condition(conditions, RESOURCE_CLAIMS_CREATED).is_some();
    match claims {
        None if had_claims => Err(format!(
            "the annotation {} is missing; pcs-controller restores it; if the PodCliqueSet shares no resources any more, delete the \
             PodClique, so that pcs-controller creates it again",
            labels::RESOURCE_CLAIMS
        )),
        claims => Ok(claims.unwrap_or_default()),
    }
}

fn referenced(
    claims: &Cache<ResourceClaim>,
    clique: &PodClique,
    name: ResourceClaimName,
    set_uid: Option<&str>,
) -> ReferencedClaim {
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    let state = match claims.get(namespace, name.as_str()) {
        None => ReferenceState::NotFound,
        Some(claim) => reference_state(clique, set_uid, &claim),
    };
    ReferencedClaim { name, state }
}

/// Whether the pods of the clique may use this claim of its set or of its scaling group. The annotation of the clique has `set_uid`.
pub(crate) fn reference_state(clique: &PodClique, set_uid: Option<&str>, claim: &ResourceClaim) -> ReferenceState {
    if !controller_of(&claim.metadata).is_some_and(|owner| is_of_set_or_group(clique, set_uid, owner)) {
        ReferenceState::NotControlled
    } else if is_terminating(claim) {
        ReferenceState::Terminating
    } else {
        ReferenceState::Usable
    }
}

/// Whether the reference names the set or the scaling group of the clique. One of them controls the clique. An annotation of an older
/// pcs-controller has no `set_uid`.
fn is_of_set_or_group(clique: &PodClique, set_uid: Option<&str>, owner: &OwnerReference) -> bool {
    let controller = controller_of(&clique.metadata);
    let (label, uid) = if is_of_kind::<PodCliqueSet>(owner) {
        let controller = controller.filter(|controller| is_of_kind::<PodCliqueSet>(controller));
        (labels::PART_OF, controller.map(|set| set.uid.as_str()).or(set_uid))
    } else if is_of_kind::<PodCliqueScalingGroup>(owner) {
        let controller = controller.filter(|controller| is_of_kind::<PodCliqueScalingGroup>(controller));
        (labels::SCALING_GROUP, controller.map(|group| group.uid.as_str()))
    } else {
        return false;
    };
    clique.labels().get(label) == Some(&owner.name) && uid.is_none_or(|uid| uid == owner.uid)
}

fn own(
    caches: &ClaimCaches,
    namespace: &str,
    claim: CliqueClaim,
    unavailable_templates: Option<&Waiting>,
    denied_templates: Option<&Waiting>,
) -> OwnClaim {
    let template = match claim.template() {
        TemplateReference::Internal(spec) => TemplateState::Read(ClaimTemplate::from(spec)),
        TemplateReference::External(template @ ExternalTemplate { namespace: other, name }) => {
            let exists = caches.templates.contains(other.unwrap_or(namespace), name);
            let denied = denied_template(denied_templates, namespace, template);
            match unavailable_templates.or(denied) {
                Some(waiting) => TemplateState::Unavailable(waiting.clone()),
                None if exists && template.is_valid() => TemplateState::Unread,
                None => TemplateState::NotFound,
            }
        }
    };
    OwnClaim { claim, template }
}
