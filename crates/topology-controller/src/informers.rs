//! The informers of the objects that the reconciler reads. Those of the `PodGroup`s follow from the table of child kinds.

use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, InformerOptions};
use kube::ResourceExt;

use crate::base_gangs::BY_BASE_GANG;
use crate::slim_clique::SlimClique;

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
            cliques: informers.cache(),
            orphan_deletions,
            terminating_namespaces: manager.start_namespace_informer(),
            informers,
        }
    }
}

#[cfg(test)]
mod tests;
