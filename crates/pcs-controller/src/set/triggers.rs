//! Predicates for the deltas of a set's children.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::predicates::needs_reconcile;
use grove_runtime::caches::Delta;

/// Whether a gang changed in more than its pod references, which pclq-controller writes. A change of the references is
/// visible only in the status of the gang.
pub(super) fn pod_gang_changed_beyond_pod_references(delta: &Delta<PodGang>) -> bool {
    let Delta { old: Some(old), new: Some(new) } = delta else { return needs_reconcile(delta) };
    let compared = |gang: &PodGang| {
        let mut compared = gang.clone();
        compared.spec.podgroups.iter_mut().for_each(|group| group.pod_references.clear());
        let metadata = compared.metadata;
        (compared.spec, metadata.labels, metadata.annotations, metadata.owner_references, metadata.deletion_timestamp)
    };
    compared(old) != compared(new)
}
