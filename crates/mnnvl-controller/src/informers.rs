//! The informers of the objects that the reconcilers read.

use std::borrow::Cow;

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::labels;
use grove_api_types::mnnvl;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::manager::Manager;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, Index, IndexScope, InformerOptions};
use kube::ResourceExt;

use crate::replica_objects::{BY_DOMAIN, BY_REPLICA, SlimClique, SlimPod, is_of_replica, may_use_a_domain};

/// The domains with the label of a set, by the namespace and the name of the set.
pub(crate) const BY_SET: Index<ComputeDomain> =
    Index { name: "set", values: set_of_domain, scope: IndexScope::Namespaced };

fn set_of_domain(domain: &ComputeDomain) -> Vec<Cow<'_, str>> {
    let namespace = domain.metadata.namespace.as_deref().unwrap_or_default();
    let set = domain.labels().get(labels::PART_OF);
    set.map(|set| Cow::Owned(set_key(namespace, set))).into_iter().collect()
}

/// Namespace and name of a set; neither contains a slash.
pub(crate) fn set_key(namespace: &str, set: &str) -> String {
    format!("{namespace}/{set}")
}

/// The caches of sets, of their domains, and of the objects that use the domains.
#[derive(Clone)]
pub(crate) struct MnnvlCaches {
    pub(crate) sets: Cache<PodCliqueSet>,
    pub(crate) domains: Cache<ComputeDomain>,
    /// The cliques of all sets.
    pub(crate) cliques: Cache<SlimClique>,
    /// The pods of all sets that have a claim from a template.
    pub(crate) pods: Cache<SlimPod>,
    /// The namespaces: nothing is created in the terminating ones, and each domain has a reference to its namespace.
    pub(crate) namespaces: TerminatingNamespaces,
    /// The informers of the child kinds.
    pub(crate) informers: SharedInformerFactory,
}

/// Drops the pod specs of a set, of which only a request for GPUs counts, and its claim templates: a thousand sets with large pod specs
/// would need gigabytes.
fn drop_unread_fields(set: &mut PodCliqueSet) {
    set.annotations_mut().remove(labels::LAST_APPLIED);
    let template = &mut set.spec.template;
    template.resource_claim_templates.clear();
    for clique in &mut template.cliques {
        clique.spec.pod_spec = mnnvl::only_gpu_request(&clique.spec.pod_spec);
    }
}

impl MnnvlCaches {
    /// Starts the informers. Domains are an optional kind: their CRD may be installed later. Until then, the cliques and pods are not read.
    pub(crate) fn start(manager: &Manager) -> Self {
        let informers = SharedInformerFactory::new(manager);
        let sets = InformerOptions::<PodCliqueSet>::default().with_transform(drop_unread_fields);
        let domains = informers.cache_with(InformerOptions::default().optional().with_index(BY_SET));
        let cliques = InformerOptions::default().with_filter(is_of_replica).with_index(BY_REPLICA);
        let pods = InformerOptions::default().with_filter(may_use_a_domain).with_index(BY_DOMAIN);
        let (cliques, pods) = (cliques.after_list_of(&domains), pods.after_list_of(&domains));
        Self {
            sets: informers.cache_with(sets),
            domains,
            cliques: informers.cache_with(cliques),
            pods: informers.cache_with(pods),
            namespaces: manager.start_namespace_informer_with_uids(),
            informers,
        }
    }
}

#[cfg(test)]
mod tests;
