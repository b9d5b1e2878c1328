//! The mappers from cliques and gangs to the gangs that they trigger.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::base_gangs::{BaseGangDelta, BaseGangObserver};
use crate::slim_clique::SlimClique;

/// The gang that the pods of the clique belong to, if the number of scheduled pods changed.
pub(super) fn gang_of_clique(delta: &Delta<SlimClique>) -> Option<ObjectRef<PodGang>> {
    let clique = delta.object()?;
    let name = clique.labels().get(labels::POD_GANG)?;
    let scheduled = |clique: &Option<Arc<SlimClique>>| clique.as_ref().map(|clique| clique.scheduled_replicas());
    let has_changed = scheduled(&delta.old) != scheduled(&delta.new);
    has_changed.then(|| ObjectRef::new(name).within(&clique.namespace().unwrap_or_default()))
}

/// The scaled gangs of base gangs that have become scheduled.
pub(super) fn scaled_gangs(
    gangs: &Cache<PodGang>,
    cliques: &Cache<SlimClique>,
) -> impl Stream<Item = ObjectRef<PodGang>> + Send + 'static + use<> {
    let mut observer = BaseGangObserver::new(gangs, cliques);
    let of_cliques = cliques.subscribe().map(BaseGangDelta::Clique);
    let deltas = stream::select(of_cliques, gangs.subscribe().map(BaseGangDelta::Gang));
    deltas.flat_map(move |delta| stream::iter(observer.observe(&delta)))
}
