//! Scaled cliques: the cliques of scaled gangs, found by their base gang. Their pods are gated until the base gang is
//! scheduled.

use std::borrow::Cow;

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Index};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// Cliques by namespace and name of their base gang. The cliques of base gangs have no value.
pub(crate) const BY_BASE_GANG: Index<PodClique> = Index { name: "base-gang", values: base_gang };

/// The scaled cliques of a base gang.
///
/// A delta is published after the cache has applied it, so these are at least as new as every delta that triggers the call.
pub(crate) fn scaled_cliques_of(cliques: &Cache<PodClique>, namespace: &str, gang: &str) -> Vec<ObjectRef<PodClique>> {
    let scaled = cliques.by_index(&BY_BASE_GANG, &gang_key(namespace, gang));
    scaled.iter().map(|clique| ObjectRef::from_obj(&**clique)).collect()
}

/// Whether a base gang has scaled cliques.
pub(crate) fn has_scaled_cliques(cliques: &Cache<PodClique>, namespace: &str, gang: &str) -> bool {
    cliques.has_index_value(&BY_BASE_GANG, &gang_key(namespace, gang))
}

fn base_gang(clique: &PodClique) -> Vec<Cow<'_, str>> {
    let gang = clique.labels().get(labels::BASE_POD_GANG);
    let key = |gang| Cow::Owned(gang_key(clique.metadata.namespace.as_deref().unwrap_or_default(), gang));
    gang.map(|gang| key(gang)).into_iter().collect()
}

/// Namespace and name of a gang; neither contains a slash.
pub(crate) fn gang_key(namespace: &str, gang: &str) -> String {
    format!("{namespace}/{gang}")
}
