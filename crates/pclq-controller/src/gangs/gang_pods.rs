//! The number of the desired pods of a gang. The cache of cliques sums it, so no reconcile of a clique reads the other cliques of its gang.

use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, IndexScope, Sum};
use kube::ResourceExt;

use super::gated_cliques::gang_key;

/// The number of the desired pods of each gang.
pub(crate) const PODS_BY_GANG: Sum<PodClique> =
    Sum { name: "gang-pods", value: key_of_gang, amount: desired_pods, scope: IndexScope::Namespaced };

/// The number of references that fit into the gang beside its pod groups; `None` if references to all desired pods fit. Admission denies
/// larger gangs.
pub(crate) fn max_references(
    cliques: &Cache<PodClique>,
    (namespace, gang): (&str, &str),
    groups: usize,
) -> Option<usize> {
    let max = MAX_GANG_SIZE.saturating_sub(groups);
    (cliques.sum(&PODS_BY_GANG, &gang_key(namespace, gang)) > max).then_some(max)
}

/// The number of desired pods of a clique.
pub(crate) fn desired_pods(clique: &PodClique) -> usize {
    usize::try_from(clique.spec.replicas).unwrap_or_default()
}

/// Namespace and name of the gang of a clique.
fn key_of_gang(clique: &PodClique) -> Option<String> {
    let gang = clique.labels().get(labels::POD_GANG)?;
    Some(gang_key(clique.metadata.namespace.as_deref().unwrap_or_default(), gang))
}
