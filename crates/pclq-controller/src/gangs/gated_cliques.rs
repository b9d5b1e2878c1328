//! Gated cliques, found by the gang that must be scheduled first: Grove's scheduling gate holds back pods of them until then. These are
//! the cliques of scaled gangs, which wait for the base gang, and in a gang with a `PodGroup` of the workload API the cliques with more
//! pods than their minimum, whose surplus pods wait for the core pods of their gang.

use std::borrow::Cow;

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Index, IndexScope};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// Gated cliques by namespace and name of the gang that must be scheduled first. Other cliques have no value.
pub(crate) const BY_GATING_GANG: Index<PodClique> =
    Index { name: "gating-gang", values: index_values, scope: IndexScope::Namespaced };

/// The gang that must be scheduled before gated pods of the clique, and the index of its first gated pod; `None` if no pod of it is gated.
pub(crate) fn gating_gang(clique: &PodClique) -> Option<(&str, i32)> {
    let label = |key| clique.labels().get(key).map(String::as_str);
    if !clique.annotations().contains_key(labels::POD_GROUP) {
        return label(labels::BASE_POD_GANG).map(|base| (base, 0));
    }
    let minimum = clique.spec.min_available.unwrap_or(clique.spec.replicas).max(0);
    label(labels::POD_GANG).filter(|_| clique.spec.replicas > minimum).map(|own| (own, minimum))
}

/// The cliques that are gated until the gang is scheduled.
///
/// A delta is published after the cache has applied it, so these are at least as new as every delta that triggers the call.
pub(crate) fn cliques_gated_by(cliques: &Cache<PodClique>, namespace: &str, gang: &str) -> Vec<ObjectRef<PodClique>> {
    let gated = cliques.by_index(&BY_GATING_GANG, &gang_key(namespace, gang));
    gated.iter().map(|clique| ObjectRef::from_obj(&**clique)).collect()
}

/// Whether cliques are gated until the gang is scheduled.
pub(crate) fn gates_cliques(cliques: &Cache<PodClique>, namespace: &str, gang: &str) -> bool {
    cliques.has_index_value(&BY_GATING_GANG, &gang_key(namespace, gang))
}

fn index_values(clique: &PodClique) -> Vec<Cow<'_, str>> {
    let key = |gang| Cow::Owned(gang_key(clique.metadata.namespace.as_deref().unwrap_or_default(), gang));
    gating_gang(clique).map(|(gang, _)| key(gang)).into_iter().collect()
}

/// Namespace and name of a gang; neither contains a slash.
pub(crate) fn gang_key(namespace: &str, gang: &str) -> String {
    format!("{namespace}/{gang}")
}
