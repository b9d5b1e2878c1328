//! Takes the snapshot of the gang of a clique from the caches.

use grove_api_types::labels;
use grove_api_types::names::PodGangName;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;
use kube::ResourceExt;

use super::gang_pods::max_references;
use super::gated_cliques::{gates_cliques, gating_gang};
use super::gating_gangs::GatingGangs;
use super::observed::{GatingGang, ObservedGang};

/// The gang of the clique, and the one that gates its pods.
pub(crate) fn observe(
    cliques: &Cache<PodClique>,
    gangs: &Cache<PodGang>,
    gating_gangs: &GatingGangs,
    clique: &PodClique,
) -> ObservedGang {
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    let name = clique.labels().get(labels::POD_GANG).map(String::as_str);
    let object = name.and_then(|name| gangs.get(namespace, name));
    let groups = object.as_ref().map_or(0, |gang| gang.spec.podgroups.len());
    let gating = gating_gang(clique).map(|(gang, first_index)| {
        let state = gating_gangs.state(cliques, gangs, namespace, gang);
        GatingGang { name: PodGangName::new(gang), state, first_index }
    });
    ObservedGang {
        object,
        max_references: name.and_then(|name| max_references(cliques, (namespace, name), groups)),
        gating,
        gates_cliques: gates_cliques(cliques, namespace, name.unwrap_or_default()),
    }
}
