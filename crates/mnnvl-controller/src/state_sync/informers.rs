//! The informers of domains, of the objects of their cliques, of the pods of their daemons, and of the other objects with their label.

use std::borrow::Cow;

use grove_api_types::compute_domain::DOMAIN_LABEL;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_controller::manager::Manager;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_runtime::caches::{Cache, Index, IndexScope, InformerOptions};
use kube::Resource;
use kube::runtime::watcher;

use super::domain::SyncedDomain;
use super::objects::{SlimClaimTemplate, SlimDaemonSet, SlimNode, by_domain};

/// The domain with a UID.
pub(super) const BY_UID: Index<SyncedDomain> = Index { name: "uid", values: uid, scope: IndexScope::Cluster };
/// The objects of the cliques of a domain, by its UID.
pub(super) const CLIQUES_BY_DOMAIN: Index<ComputeDomainClique> =
    Index { name: "domain", values: domain_of_clique, scope: IndexScope::Cluster };

fn uid(domain: &SyncedDomain) -> Vec<Cow<'_, str>> {
    domain.metadata.uid.as_deref().map(Cow::Borrowed).into_iter().collect()
}

/// The UID of the domain in the name of the object: any client may change its labels.
pub(super) fn domain_of_clique(clique: &ComputeDomainClique) -> Vec<Cow<'_, str>> {
    let name = clique.metadata.name.as_deref().unwrap_or_default();
    name.split_once('.').map(|(uid, _)| Cow::Borrowed(uid)).into_iter().collect()
}

/// The caches of the domains and of their objects. The pods of the daemons are in another namespace than the domain.
#[derive(Clone)]
pub(crate) struct StateCaches {
    pub(super) domains: Cache<SyncedDomain>,
    pub(super) cliques: Cache<ComputeDomainClique>,
    pub(super) pods: Cache<DaemonPodObject>,
    pub(super) daemon_sets: Cache<SlimDaemonSet>,
    pub(super) claim_templates: Cache<SlimClaimTemplate>,
    pub(super) nodes: Cache<SlimNode>,
}

impl StateCaches {
    /// Starts the informers. The CRDs may be installed later; until then, the other objects are not read.
    pub(super) fn start(manager: &Manager) -> Self {
        let informers = SharedInformerFactory::new(manager);
        let domains = informers.cache_with(InformerOptions::default().optional().with_index(BY_UID));
        let cliques = informers.cache_with(InformerOptions::default().optional().with_index(CLIQUES_BY_DOMAIN));
        let pods = informers.cache_with(labelled().after_list_of(&domains));
        let daemon_sets = informers.cache_with(labelled().after_list_of(&domains));
        let claim_templates = informers.cache_with(labelled().after_list_of(&domains));
        let nodes = informers.cache_with(labelled().after_list_of(&domains));
        Self { domains, cliques, pods, daemon_sets, claim_templates, nodes }
    }
}

/// The objects with the label of a domain.
fn labelled<K: Resource<DynamicType = ()>>() -> InformerOptions<K> {
    InformerOptions::from(watcher::Config::default().labels(DOMAIN_LABEL)).with_index(by_domain())
}
