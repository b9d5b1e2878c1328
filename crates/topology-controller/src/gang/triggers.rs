//! The mappers from cliques and gangs to the gangs that they trigger.

use futures::{Stream, StreamExt, stream};
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::base_gangs::{BaseGangDelta, BaseGangObserver};
use crate::slim_clique::SlimClique;

/// The gang that the pods of the clique belong to: its `PodGroup` depends on the number of desired pods, and its status also on the number of
/// scheduled pods.
pub(super) fn gang_of_clique(delta: &Delta<SlimClique>) -> Option<Trigger<PodGang>> {
    let clique = delta.object()?;
    let name = clique.labels().get(labels::POD_GANG)?;
    let has_changed =
        |count: fn(&SlimClique) -> i32| delta.old.as_deref().map(count) != delta.new.as_deref().map(count);
    let is_scaled = has_changed(SlimClique::replicas);
    let gang = ObjectRef::new(name).within(&clique.namespace().unwrap_or_default());
    (is_scaled || has_changed(SlimClique::scheduled_replicas)).then(|| Trigger::new(is_scaled, gang))
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
