//! The mapper from cliques to the gangs that they trigger.

use std::sync::Arc;

use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::slim_clique::SlimClique;

/// The gang that the pods of the clique belong to, if the number of scheduled pods changed.
pub(super) fn gang_of_clique(delta: &Delta<SlimClique>) -> Option<ObjectRef<PodGang>> {
    let clique = delta.object()?;
    let name = clique.labels().get(labels::POD_GANG)?;
    let scheduled = |clique: &Option<Arc<SlimClique>>| clique.as_ref().map(|clique| clique.scheduled_replicas());
    let has_changed = scheduled(&delta.old) != scheduled(&delta.new);
    has_changed.then(|| ObjectRef::new(name).within(&clique.namespace().unwrap_or_default()))
}
