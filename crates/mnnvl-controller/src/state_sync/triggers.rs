//! The mappers from pods and cliques to the domains that they trigger.

use std::borrow::Cow;

use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_runtime::caches::{Cache, Delta};
use kube::runtime::reflector::ObjectRef;

use super::domain::SyncedDomain;
use super::informers::{BY_UID, domain_of_clique, domain_of_pod};

/// The domains of the pod before and after the change.
pub(super) fn domains_of_pod(
    domains: &Cache<SyncedDomain>,
    delta: &Delta<DaemonPodObject>,
) -> Vec<ObjectRef<SyncedDomain>> {
    domains_of(domains, delta, domain_of_pod)
}

/// The domain of the object of a clique.
pub(super) fn domains_of_clique(
    domains: &Cache<SyncedDomain>,
    delta: &Delta<ComputeDomainClique>,
) -> Vec<ObjectRef<SyncedDomain>> {
    domains_of(domains, delta, domain_of_clique)
}

fn domains_of<K>(
    domains: &Cache<SyncedDomain>,
    delta: &Delta<K>,
    uids: fn(&K) -> Vec<Cow<'_, str>>,
) -> Vec<ObjectRef<SyncedDomain>> {
    let versions = delta.old.iter().chain(&delta.new);
    let found = versions.flat_map(|object| uids(object)).flat_map(|uid| domains.by_index(&BY_UID, &uid));
    found.map(|domain| ObjectRef::from_obj(&*domain)).collect()
}
