//! Starts one informer per kind, and holds their caches.

use futures::stream::{BoxStream, StreamExt};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::controllers::Controllers;
use grove_controller::slim::SlimPod;
use grove_controller::triggers::fan_out;
use grove_runtime::caches::{Cache, Delta, Index, InformerOptions};

use crate::dependents::BY_BASE_GANG;
use crate::pod;
use crate::tombstones::Tombstones;

/// `PodClique`s, and the objects that their reconciler reads.
pub(crate) struct Caches {
    /// All cliques.
    pub(crate) cliques: Cache<PodClique>,
    /// The pods that a clique controls or could adopt.
    pub(crate) pods: Cache<SlimPod>,
    /// All gangs.
    pub(crate) gangs: Cache<PodGang>,
    /// The last deleted pods of each clique. Read them after `pods`, so that no pod is missed.
    pub(crate) tombstones: Tombstones,
}

/// The deltas of all informers.
pub(crate) struct Deltas {
    pub(crate) cliques: BoxStream<'static, Delta<PodClique>>,
    /// A second copy, for the cliques that depend on the base gang of another clique.
    pub(crate) cliques_for_dependents: BoxStream<'static, Delta<PodClique>>,
    pub(crate) pods: BoxStream<'static, Delta<SlimPod>>,
    pub(crate) gangs: BoxStream<'static, Delta<PodGang>>,
}

/// Starts the informers.
pub(crate) fn start(service: &Controllers) -> (Caches, Deltas) {
    let clique_options = InformerOptions::default().with_index(BY_BASE_GANG);
    let (cliques, clique_deltas) = service.start_informer::<PodClique>(clique_options);
    let [own_deltas, cliques_for_dependents] = fan_out(clique_deltas);
    // A label selector would not do: users can edit labels, and a live pod outside of the selection would be replaced.
    let pod_options = InformerOptions::default().with_filter(pod::is_grove_pod).with_index(Index::ORPHANS);
    let tombstones = Tombstones::new(&cliques);
    let recorder = tombstones.clone();
    let pod_options = pod_options.with_observer(move |delta| recorder.record(delta));
    let (pods, pod_deltas) = service.start_informer::<SlimPod>(pod_options);
    let (gangs, gang_deltas) = service.start_informer::<PodGang>(InformerOptions::default());
    let (pod_deltas, gang_deltas) = (pod_deltas.boxed(), gang_deltas.boxed());
    let deltas = Deltas { cliques: own_deltas, cliques_for_dependents, pods: pod_deltas, gangs: gang_deltas };
    (Caches { cliques, pods, gangs, tombstones }, deltas)
}
