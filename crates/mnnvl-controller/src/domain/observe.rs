//! Takes the snapshot of a domain, its set, and what uses the domain from the caches. It sends no requests.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::mnnvl;
use grove_api_types::names::{ComputeDomainName, PodCliqueSetName};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::Cache;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::DomainContext;
use super::observed::{DomainNeed, Observed, Replica, Retention, SetReference, retention};
use crate::lost_owner;
use crate::replica_objects::{BY_DOMAIN, BY_REPLICA, DomainUse, SlimClique, SlimPod, domain_key, replica_key};

/// The snapshot of `domain`.
pub(super) fn observe(ctx: &DomainContext, domain: &ComputeDomain) -> Observed {
    let need = need(&ctx.caches.sets, domain);
    let is_used = is_used(&ctx.caches.cliques, &ctx.caches.pods, domain, retention(domain, &need));
    Observed { domain: domain.clone(), need, is_used, is_confirmed: false }
}

/// Whether a set needs the domain: the one that controls it, otherwise the one to which it belongs although it lost the reference.
pub(super) fn need(sets: &Cache<PodCliqueSet>, domain: &ComputeDomain) -> DomainNeed {
    let namespace = domain.namespace().unwrap_or_default();
    let Some(controller) = controller_of(&domain.metadata) else {
        let Some(set) = lost_owner::labelled_set(domain) else { return DomainNeed::Foreign };
        let is_lost = |owner: &PodCliqueSet| lost_owner::belongs_to(domain, owner);
        let is_needed = sets.get(&namespace, set).is_some_and(|owner| is_lost(&owner));
        let replica = replica(set, domain);
        return if is_needed { DomainNeed::Needed(replica) } else { DomainNeed::NotNeeded(replica) };
    };
    if !is_of_kind::<PodCliqueSet>(controller) {
        return DomainNeed::Foreign;
    }
    let replica = replica(&controller.name, domain);
    match sets.get(&namespace, &controller.name).filter(|set| set.uid().as_ref() == Some(&controller.uid)) {
        Some(set) if is_terminating(&*set) => DomainNeed::NotNeeded(replica),
        Some(set) if mnnvl::required_domain(&set, &domain.name_any()).is_none() => DomainNeed::NotNeeded(replica),
        Some(_) => DomainNeed::Needed(replica),
        None => {
            let (name, uid) = (Some(controller.name.clone()), Some(controller.uid.clone()));
            let metadata = ObjectMeta { name, namespace: Some(namespace), uid, ..ObjectMeta::default() };
            DomainNeed::Unknown(replica, Box::new(SetReference { metadata }))
        }
    }
}

/// The replica of the set that uses the domain.
fn replica(set: &str, domain: &ComputeDomain) -> Replica {
    let index = ComputeDomainName::replica_in(&PodCliqueSetName::new(set), &domain.name_any());
    Replica { set: set.to_owned(), index }
}

/// Whether the caches have something that retains the domain. Without an index of the replica, the API server decides about the cliques.
pub(super) fn is_used(
    cliques: &Cache<SlimClique>,
    pods: &Cache<SlimPod>,
    domain: &ComputeDomain,
    retention: Retention<'_>,
) -> bool {
    let (namespace, template) = (domain.namespace().unwrap_or_default(), domain.claim_template());
    let pods = || pods.by_index(&BY_DOMAIN, &domain_key(&namespace, template));
    match retention {
        Retention::Set | Retention::Nothing => false,
        Retention::Claims(_) => pods().iter().any(|pod| pod.use_of(template) == DomainUse::Claimed),
        Retention::PodsAndCliques(Replica { set, index }) => {
            let key = index.map(|index| replica_key(&namespace, set, &index.to_string()));
            let cliques = key.map(|key| cliques.by_index(&BY_REPLICA, &key)).unwrap_or_default();
            let has_clique = cliques.iter().any(|clique| clique.is_active());
            has_clique || pods().iter().any(|pod| pod.use_of(template) != DomainUse::No)
        }
    }
}
