//! Fills [`Observed`] from the caches, and says which changes wake which gang.

use futures::stream::{BoxStream, StreamExt};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Change;
use grove_runtime::controller::Wake;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::observed::Observed;
use crate::children::by_name;
use crate::watch::Caches;

/// What wakes the reconciler.
pub struct Changes {
    /// The gangs themselves.
    pub(super) gangs: BoxStream<'static, Change<PodGang>>,
    /// The gangs some of whose cliques changed.
    pub(super) touched: BoxStream<'static, Wake<PodGang>>,
}

/// What of the changes of gangs and cliques wakes gangs.
pub(crate) fn changes(
    gangs: BoxStream<'static, Change<PodGang>>,
    cliques: BoxStream<'static, Change<PodClique>>,
) -> Changes {
    let touched = cliques.filter_map(async |change| of_clique(&change));
    Changes { gangs, touched: touched.boxed() }
}

/// The gang that the clique is scheduled with. It is only told something; there is nothing to be done about it here.
fn of_clique(change: &Change<PodClique>) -> Option<Wake<PodGang>> {
    let clique = change.latest()?;
    let gang = clique.labels().get(labels::POD_GANG)?;
    Some(Wake::Tell(ObjectRef::new(gang).within(&clique.namespace()?)))
}

/// What is known about `gang` now.
pub(super) fn observe(caches: &Caches, gang: &PodGang) -> Observed {
    let namespace = gang.namespace().unwrap_or_default();
    let groups = gang.spec.podgroups.iter();
    let cliques = groups.filter_map(|group| caches.cliques.get(&namespace, &group.name));
    let has_set = caches.set_of(gang).is_some_and(|set| !is_terminating(&*set));
    Observed { gang: gang.clone(), cliques: by_name(cliques), has_set }
}
