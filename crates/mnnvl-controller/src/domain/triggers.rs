//! The mappers from sets, cliques and pods to the domains that they trigger.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::names::{ComputeDomainName, PodCliqueSetName};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::predicates::metadata_or_generation_changed;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::informers::{BY_SET, set_key};
use crate::replica_objects::{DomainUse, SlimClique, SlimPod};

/// The domains of a set that changed in more than its status, or was deleted: those that it controls, and those with its label, which may
/// have lost the reference to it.
pub(super) fn domains_of_set(
    domains: &Cache<ComputeDomain>,
    delta: &Delta<PodCliqueSet>,
) -> Vec<ObjectRef<ComputeDomain>> {
    let Some(set) = delta.object().filter(|_| metadata_or_generation_changed(delta)) else { return vec![] };
    domains_with(domains, &set.namespace().unwrap_or_default(), (&set.name_any(), set.uid()), |_| true)
}

/// The domains of the replica of a clique that ceased to be active.
pub(super) fn domains_of_clique(
    sets: &Cache<PodCliqueSet>,
    domains: &Cache<ComputeDomain>,
    delta: &Delta<SlimClique>,
) -> Vec<ObjectRef<ComputeDomain>> {
    let Some(old) = delta.old.as_ref().filter(|old| old.is_active()) else { return vec![] };
    if delta.new.as_ref().is_some_and(|new| new.is_active()) {
        return vec![];
    }
    let Some((set, replica)) = old.labels().get(PART_OF).zip(old.labels().get(SET_REPLICA)) else { return vec![] };
    let namespace = old.metadata.namespace.as_deref().unwrap_or_default();
    let uid = sets.get(namespace, set).and_then(|set| set.uid());
    let name = PodCliqueSetName::new(set);
    let is_of_replica = |domain: &ComputeDomain| {
        let index = ComputeDomainName::replica_in(&name, &domain.name_any());
        index.is_none_or(|index| *replica == index.to_string())
    };
    domains_with(domains, namespace, (set, uid), is_of_replica)
}

/// The domains that a pod used until it ended.
pub(super) fn domains_of_pod(domains: &Cache<ComputeDomain>, delta: &Delta<SlimPod>) -> Vec<ObjectRef<ComputeDomain>> {
    let Some(old) = &delta.old else { return vec![] };
    let namespace = old.metadata.namespace.as_deref().unwrap_or_default();
    let is_used = |pod: &SlimPod, template: &str| pod.use_of(template) != DomainUse::No;
    let has_ended =
        |template: &&str| is_used(old, template) && !delta.new.as_ref().is_some_and(|new| is_used(new, template));
    // The name of a domain of Grove is that of its claim template.
    let ended = old.templates().filter(has_ended).filter_map(|template| domains.get(namespace, template));
    ended.map(|domain| ObjectRef::from_obj(&*domain)).collect()
}

fn domains_with(
    domains: &Cache<ComputeDomain>,
    namespace: &str,
    (set, uid): (&str, Option<String>),
    is_selected: impl Fn(&ComputeDomain) -> bool,
) -> Vec<ObjectRef<ComputeDomain>> {
    let controlled = uid.map(|uid| domains.owned_by(namespace, &uid)).unwrap_or_default();
    let labelled = domains.by_index(&BY_SET, &set_key(namespace, set));
    let all = controlled.into_iter().chain(labelled).filter(|domain| is_selected(domain));
    all.map(|domain| ObjectRef::from_obj(&*domain)).collect()
}
