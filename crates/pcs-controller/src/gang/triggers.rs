//! The mapper from cliques to the gangs that they trigger.

use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// The gang that the pods of the clique belong to.
pub(super) fn gang_of_clique(delta: &Delta<PodClique>) -> Option<ObjectRef<PodGang>> {
    let clique = delta.object()?;
    let gang = clique.labels().get(labels::POD_GANG)?;
    Some(ObjectRef::new(gang).within(&clique.namespace()?))
}
