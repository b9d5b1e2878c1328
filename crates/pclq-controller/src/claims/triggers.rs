//! The cliques that a change of a claim or of a template triggers. The claims that a clique controls trigger it as its children: see
//! `grove_controller::children`.

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::controller_of;
use grove_api_types::resource_claim::{ResourceClaim, SlimResourceClaimTemplate};
use grove_api_types::resource_sharing::claim_source::TemplateReference;
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::controller::ControllerBuilder;
use grove_controller::resource_claims::created_template;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta, Index, IndexScope};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::informers::ClaimCaches;

/// Cliques by the claims of their set and of their scaling group that their pods use, and by the `ResourceClaimTemplate`s of their own
/// claims, which may be in another namespace.
pub(crate) const BY_CLAIM_AND_TEMPLATE: Index<PodClique> =
    Index { name: "claims", values: index_values, scope: IndexScope::Cluster };

const CLAIM: &str = "claim";
const TEMPLATE: &str = "template";

/// Adds what changes the use of claims and templates: see [`cliques_of_claim`], [`cliques_of_template`], and whether templates of other
/// namespaces may be used.
pub(crate) fn watch(
    controller: ControllerBuilder<PodClique>,
    caches: &ClaimCaches,
    cliques: &Cache<PodClique>,
) -> ControllerBuilder<PodClique> {
    let ClaimCaches { claims, templates, access } = caches;
    let [for_claims, for_templates] = [(); 2].map(|()| cliques.clone());
    controller
        .watches(claims.subscribe().flat_map(move |delta| stream::iter(cliques_of_claim(&for_claims, &delta))))
        .watches(templates.subscribe().flat_map(move |delta| stream::iter(cliques_of_template(&for_templates, &delta))))
        .watches(access.owners_after_change(cliques).map(Trigger::Reconcile))
}

/// The cliques with pods that use the claim, if the delta changes whether they may use it. The status of a claim changes often.
fn cliques_of_claim(cliques: &Cache<PodClique>, delta: &Delta<ResourceClaim>) -> Vec<ObjectRef<PodClique>> {
    let state = |claim: &Option<Arc<ResourceClaim>>| {
        let claim = claim.as_ref()?;
        let owner = controller_of(&claim.metadata).map(|owner| (owner.kind.clone(), owner.uid.clone()));
        Some((claim.metadata.uid.clone(), owner, is_terminating(&**claim)))
    };
    let claim = delta.object().filter(|_| state(&delta.old) != state(&delta.new));
    claim.map(|claim| cliques_with(cliques, CLAIM, &claim.metadata)).unwrap_or_default()
}

/// The cliques with claims from the template, if the delta creates it.
fn cliques_of_template(
    cliques: &Cache<PodClique>,
    delta: &Delta<SlimResourceClaimTemplate>,
) -> Vec<ObjectRef<PodClique>> {
    let created = created_template(delta);
    created.map(|template| cliques_with(cliques, TEMPLATE, &template.metadata)).unwrap_or_default()
}

fn cliques_with(cliques: &Cache<PodClique>, kind: &str, object: &ObjectMeta) -> Vec<ObjectRef<PodClique>> {
    let (namespace, name) = (object.namespace.as_deref().unwrap_or_default(), object.name.as_deref());
    let value = index_value(kind, namespace, name.unwrap_or_default());
    cliques.by_index(&BY_CLAIM_AND_TEMPLATE, &value).iter().map(|clique| ObjectRef::from_obj(&**clique)).collect()
}

/// No part contains a slash.
fn index_value(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

fn index_values(clique: &PodClique) -> Vec<Cow<'_, str>> {
    let Ok(Some(claims)) = CliqueClaims::from_annotations(clique.annotations()) else { return Vec::new() };
    let own_namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    let references = claims.references.iter().map(|claim| index_value(CLAIM, own_namespace, claim.as_str()));
    let external = |template: TemplateReference<'_>| match template {
        TemplateReference::Internal(_) => None,
        TemplateReference::External(external) => {
            Some(index_value(TEMPLATE, external.namespace.unwrap_or(own_namespace), external.name))
        }
    };
    let templates = claims.claims.iter().filter_map(|claim| external(claim.template()));
    references.chain(templates).map(Cow::Owned).collect()
}

#[cfg(test)]
mod tests;
