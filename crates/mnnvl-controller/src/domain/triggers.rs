//! The mappers from sets, cliques and pods to the domains that they trigger.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::PART_OF;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::predicates::metadata_or_generation_changed;
use grove_runtime::caches::{Cache, Delta};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use crate::informers::{BY_SET, set_key};
use crate::replica_objects::{SlimClique, SlimPod};

/// The domains of a set that changed in more than its status, or was deleted: those that it controls, and those with its label, which may
/// have lost the reference to it.
pub(super) fn domains_of_set(
    domains: &Cache<ComputeDomain>,
    delta: &Delta<PodCliqueSet>,
) -> Vec<ObjectRef<ComputeDomain>> {
    let Some(set) = delta.object().filter(|_| metadata_or_generation_changed(delta)) else { return vec![] };
    domains_with(domains, &set.namespace().unwrap_or_default(), (&set.name_any(), set.uid()), |_| true)
}

/// The terminating domains of the set of a clique that ceased to be active.
pub(super) fn domains_of_clique(
    sets: &Cache<PodCliqueSet>,
    domains: &Cache<ComputeDomain>,
    delta: &Delta<SlimClique>,
) -> Vec<ObjectRef<ComputeDomain>> {
    terminating_domains(sets, domains, delta, SlimClique::is_active)
}

/// The terminating domains of the set of a pod that ceased to be live.
pub(super) fn domains_of_pod(
    sets: &Cache<PodCliqueSet>,
    domains: &Cache<ComputeDomain>,
    delta: &Delta<SlimPod>,
) -> Vec<ObjectRef<ComputeDomain>> {
    terminating_domains(sets, domains, delta, SlimPod::is_live)
}

fn terminating_domains<K: Resource>(
    sets: &Cache<PodCliqueSet>,
    domains: &Cache<ComputeDomain>,
    delta: &Delta<K>,
    is_active: fn(&K) -> bool,
) -> Vec<ObjectRef<ComputeDomain>> {
    let Some(old) = delta.old.as_ref().filter(|old| is_active(old)) else { return vec![] };
    if delta.new.as_ref().is_some_and(|new| is_active(new)) {
        return vec![];
    }
    let Some(set) = old.labels().get(PART_OF) else { return vec![] };
    let namespace = old.meta().namespace.as_deref().unwrap_or_default();
    let uid = sets.get(namespace, set).and_then(|set| set.uid());
    domains_with(domains, namespace, (set, uid), is_terminating)
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
