//! The informers of the objects that the reconcilers read. Those of child kinds follow from the tables of child kinds.

use std::borrow::Cow;

use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, Index, IndexScope, InformerOptions};
use kube::ResourceExt;

use crate::base_gangs::BY_BASE_GANG;
use crate::slim_clique::{SCHEDULED_PODS_BY_SET, SlimClique};
use crate::slim_node::{NODES_BY_LABEL_KEY, SlimNode};
use crate::slim_set::{SETS_BY_TOPOLOGY, SlimSet};

/// The bindings that name a topology object of a scheduler, by the name of that object.
pub(crate) const BINDINGS_BY_REFERENCE: Index<ClusterTopologyBinding> =
    Index { name: "reference", values: references, scope: IndexScope::Cluster };

fn references(binding: &ClusterTopologyBinding) -> Vec<Cow<'_, str>> {
    let bindings = binding.spec.scheduler_topology_bindings.iter();
    bindings.map(|binding| Cow::Borrowed(binding.topology_reference.as_str())).collect()
}

/// The caches of gangs and of the objects that they depend on.
#[derive(Clone)]
pub(crate) struct GangCaches {
    pub(crate) gangs: Cache<PodGang>,
    /// The cliques of the gangs.
    pub(crate) cliques: Cache<SlimClique>,
    /// The gangs with a deletion that keeps their `PodGroup`s.
    pub(crate) orphan_deletions: OrphanDeletions,
    /// The namespaces in which nothing is created.
    pub(crate) terminating_namespaces: TerminatingNamespaces,
    /// The informers of the other kinds.
    pub(crate) informers: SharedInformerFactory,
}

impl GangCaches {
    /// Starts the informers.
    pub(crate) fn start(manager: &Manager) -> Self {
        let (informers, orphan_deletions) = (SharedInformerFactory::new(manager), OrphanDeletions::default());
        let of_gangs = orphan_deletions.clone();
        // Otherwise a permission to create gangs would include PodGroups, which this service creates with its own account.
        let is_managed =
            |gang: &PodGang| gang.labels().get(MANAGED_BY).is_some_and(|manager| manager == GROVE_OPERATOR);
        let gangs = InformerOptions::<PodGang>::default().with_filter(is_managed);
        let gangs = gangs.with_index(BY_BASE_GANG).with_observer(move |delta| of_gangs.record(delta));
        Self {
            gangs: informers.cache_with(gangs),
            cliques: informers.cache_with(InformerOptions::default().with_sum(SCHEDULED_PODS_BY_SET)),
            orphan_deletions,
            terminating_namespaces: manager.start_namespace_informer(),
            informers,
        }
    }
}

/// The caches of topologies and of the objects that their statuses and finalizers depend on.
#[derive(Clone)]
pub(crate) struct TopologyCaches {
    pub(crate) topologies: Cache<ClusterTopology>,
    pub(crate) bindings: Cache<ClusterTopologyBinding>,
    pub(crate) sets: Cache<SlimSet>,
    pub(crate) cliques: Cache<SlimClique>,
    pub(crate) nodes: Cache<SlimNode>,
    /// The `ClusterTopology`s with a deletion that keeps their topology objects.
    pub(crate) orphan_deletions: OrphanDeletions,
    /// The `ClusterTopologyBinding`s with such a deletion.
    pub(crate) binding_orphan_deletions: OrphanDeletions,
    /// The informers of the other kinds.
    pub(crate) informers: SharedInformerFactory,
}

impl TopologyCaches {
    /// Starts the informers that those of gangs do not include.
    pub(crate) fn start(gangs: &GangCaches) -> Self {
        let informers = gangs.informers.clone();
        let [orphan_deletions, binding_orphan_deletions] = [(); 2].map(|()| OrphanDeletions::default());
        let (of_topologies, of_bindings) = (orphan_deletions.clone(), binding_orphan_deletions.clone());
        let topologies = InformerOptions::default().with_observer(move |delta| of_topologies.record(delta));
        let bindings = InformerOptions::default().with_index(BINDINGS_BY_REFERENCE);
        let bindings = bindings.with_observer(move |delta| of_bindings.record(delta));
        Self {
            topologies: informers.cache_with(topologies),
            bindings: informers.cache_with(bindings),
            sets: informers.cache_with(InformerOptions::default().with_index(SETS_BY_TOPOLOGY)),
            cliques: gangs.cliques.clone(),
            nodes: informers.cache_with(InformerOptions::default().with_index(NODES_BY_LABEL_KEY)),
            orphan_deletions,
            binding_orphan_deletions,
            informers,
        }
    }
}

#[cfg(test)]
mod tests;
