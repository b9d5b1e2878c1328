//! Starts one informer per kind, and holds their caches.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::slim_pod::SlimPod;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, Index, InformerOptions};

use crate::claims::{BY_CLAIM_AND_TEMPLATE, ClaimCaches};
use crate::clique_memory::CliqueMemory;
use crate::gangs::{BY_GATING_GANG, PODS_BY_GANG};
use crate::pod;
use crate::startup::{BY_PARENT, InitContainer};
use crate::tombstones::Tombstones;

/// `PodClique`s, the objects that their reconciler reads, and what it remembers.
pub(crate) struct PclqCaches {
    /// All cliques.
    pub(crate) cliques: Cache<PodClique>,
    /// The pods that a clique controls or could adopt.
    pub(crate) pods: Cache<SlimPod>,
    /// All gangs.
    pub(crate) gangs: Cache<PodGang>,
    /// The claims and their templates.
    pub(crate) claims: ClaimCaches,
    /// The last deleted pods of each clique. Read them after `pods`, so that no pod is missed.
    pub(crate) tombstones: Tombstones,
    /// The cliques with a deletion that keeps their pods.
    pub(crate) orphan_deletions: OrphanDeletions,
    /// The namespaces in which nothing is created.
    pub(crate) terminating_namespaces: TerminatingNamespaces,
    /// How pods wait for other cliques.
    pub(crate) init_container: InitContainer,
    /// The informers of the child kinds.
    pub(crate) informers: SharedInformerFactory,
    /// What the reconciler remembers.
    pub(crate) memory: CliqueMemory,
}

/// Starts the informers. `init_container` are the settings of the process.
pub(crate) fn start(manager: &Manager, init_container: InitContainer) -> PclqCaches {
    let orphan_deletions = OrphanDeletions::default();
    let recorder = orphan_deletions.clone();
    let clique_options = InformerOptions::default().with_index(BY_GATING_GANG).with_sum(PODS_BY_GANG);
    let clique_options = clique_options.with_index(BY_CLAIM_AND_TEMPLATE).with_index(BY_PARENT);
    let clique_options = clique_options.with_observer(move |delta| recorder.record(delta));
    let cliques = manager.start_informer::<PodClique>(clique_options);
    // No label selector: users can edit labels, and the reconciler would replace a live pod that the selector excludes.
    let pod_options = InformerOptions::default().with_filter(pod::is_grove_pod).with_index(Index::ORPHANS);
    let tombstones = Tombstones::new(&cliques);
    let recorder = tombstones.clone();
    let pod_options = pod_options.with_observer(move |delta| recorder.record(delta));
    let pods = manager.start_informer::<SlimPod>(pod_options);
    let gangs = manager.start_informer::<PodGang>(InformerOptions::default());
    let informers = SharedInformerFactory::new(manager);
    PclqCaches {
        cliques,
        pods,
        gangs,
        claims: ClaimCaches::start(manager, &informers),
        tombstones,
        orphan_deletions,
        terminating_namespaces: manager.start_namespace_informer(),
        init_container,
        informers,
        memory: CliqueMemory::default(),
    }
}

#[cfg(test)]
mod tests;
