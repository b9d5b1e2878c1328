//! Takes the snapshot of a domain from the caches. It sends no requests.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::{PodCliqueSetName, PodGangName};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_api_types::{labels, mnnvl};
use grove_runtime::caches::Cache;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::observed::{ConfirmationResult, Observed, Owner, Replica, SetReference};
use crate::context::DomainContext;
use crate::lost_owner;
use crate::replica_objects::{BY_REPLICA_OF_CLIQUE, BY_REPLICA_OF_POD, SlimClique, SlimPod, replica_key};

/// The snapshot of `domain`.
pub(super) fn observe(ctx: &DomainContext, domain: &ComputeDomain) -> Observed {
    let owner = owner(&ctx.caches.sets, domain);
    let namespace = domain.namespace().unwrap_or_default();
    let is_used = match &owner {
        Owner::Active(replica) => is_used(&ctx.caches.cliques, &ctx.caches.pods, &namespace, replica),
        Owner::None | Owner::NotCached(_) | Owner::Terminating => false,
    };
    Observed { domain: domain.clone(), owner, is_used, confirmed: ConfirmationResult::No }
}

/// The set of the domain: the one that controls it, otherwise the one to which it belongs although it lost the reference.
pub(super) fn owner(sets: &Cache<PodCliqueSet>, domain: &ComputeDomain) -> Owner {
    let namespace = domain.namespace().unwrap_or_default();
    let Some(controller) = controller_of(&domain.metadata) else {
        let set = domain.labels().get(labels::PART_OF).and_then(|name| sets.get(&namespace, name));
        let set = set.filter(|set| lost_owner::belongs_to(domain, set));
        return set.map_or(Owner::None, |set| Owner::Active(replica(&set, domain)));
    };
    if !is_of_kind::<PodCliqueSet>(controller) {
        return Owner::None;
    }
    match sets.get(&namespace, &controller.name).filter(|set| set.uid().as_ref() == Some(&controller.uid)) {
        Some(set) if is_terminating(&*set) => Owner::Terminating,
        Some(set) => Owner::Active(replica(&set, domain)),
        None => {
            let (name, uid) = (Some(controller.name.clone()), Some(controller.uid.clone()));
            let metadata = ObjectMeta { name, namespace: Some(namespace), uid, ..ObjectMeta::default() };
            Owner::NotCached(Box::new(SetReference { metadata }))
        }
    }
}

/// The replica that uses the domain: the one that needs it, otherwise the one that its label names.
fn replica(set: &PodCliqueSet, domain: &ComputeDomain) -> Replica {
    let name = domain.name_any();
    let required = mnnvl::required_domain(set, &name);
    let labelled = || domain.labels().get(labels::SET_REPLICA)?.parse().ok();
    let required = required.map(|required| required.replica);
    let base_gang = |replica| PodGangName::base(&PodCliqueSetName::new(set.name_any()), replica);
    Replica { set: set.name_any(), index: required.or_else(labelled), base_gang: required.map(base_gang) }
}

/// Whether a clique of the replica may create pods, or a pod of the replica is live. Without an index, the confirmation decides.
pub(super) fn is_used(
    cliques: &Cache<SlimClique>,
    pods: &Cache<SlimPod>,
    namespace: &str,
    Replica { set, index, base_gang: _ }: &Replica,
) -> bool {
    let Some(index) = index else { return false };
    let key = replica_key(namespace, set, &index.to_string());
    let has_cliques = cliques.by_index(&BY_REPLICA_OF_CLIQUE, &key).iter().any(|clique| clique.is_active());
    has_cliques || pods.by_index(&BY_REPLICA_OF_POD, &key).iter().any(|pod| pod.is_live())
}
