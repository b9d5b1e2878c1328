//! The informers of domains, of the objects of their cliques, and of the pods of their daemons.

use std::borrow::Cow;

use grove_api_types::compute_domain::DOMAIN_LABEL;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_controller::manager::Manager;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_runtime::caches::{Cache, Index, IndexScope, InformerOptions};
use kube::ResourceExt;
use kube::runtime::watcher;

use super::domain::SyncedDomain;

/// The domain with a UID.
pub(super) const BY_UID: Index<SyncedDomain> = Index { name: "uid", values: uid, scope: IndexScope::Cluster };
/// The pods of the daemons of a domain, by its UID. They are in another namespace than the domain.
pub(super) const PODS_BY_DOMAIN: Index<DaemonPodObject> =
    Index { name: "domain", values: domain_of_pod, scope: IndexScope::Cluster };
/// The objects of the cliques of a domain, by its UID.
pub(super) const CLIQUES_BY_DOMAIN: Index<ComputeDomainClique> =
    Index { name: "domain", values: domain_of_clique, scope: IndexScope::Cluster };

fn uid(domain: &SyncedDomain) -> Vec<Cow<'_, str>> {
    domain.metadata.uid.as_deref().map(Cow::Borrowed).into_iter().collect()
}

/// The UID of the domain in the label of the pod.
pub(super) fn domain_of_pod(pod: &DaemonPodObject) -> Vec<Cow<'_, str>> {
    pod.labels().get(DOMAIN_LABEL).map(|uid| Cow::Borrowed(uid.as_str())).into_iter().collect()
}

/// The UID of the domain in the name of the object: any client may change its labels.
pub(super) fn domain_of_clique(clique: &ComputeDomainClique) -> Vec<Cow<'_, str>> {
    let name = clique.metadata.name.as_deref().unwrap_or_default();
    name.split_once('.').map(|(uid, _)| Cow::Borrowed(uid)).into_iter().collect()
}

/// Starts the informers. The CRDs may be installed later; until then, the pods are not read.
pub(super) fn start(manager: &Manager) -> (Cache<SyncedDomain>, Cache<ComputeDomainClique>, Cache<DaemonPodObject>) {
    let informers = SharedInformerFactory::new(manager);
    let domains = informers.cache_with(InformerOptions::default().optional().with_index(BY_UID));
    let cliques = informers.cache_with(InformerOptions::default().optional().with_index(CLIQUES_BY_DOMAIN));
    let labelled = watcher::Config::default().labels(DOMAIN_LABEL);
    let pods = InformerOptions::from(labelled).with_index(PODS_BY_DOMAIN).after_list_of(&domains);
    (domains, cliques, informers.cache_with(pods))
}
