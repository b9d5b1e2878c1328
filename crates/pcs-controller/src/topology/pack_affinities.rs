//! The pod affinity of the pods of cliques in the default scheduler, which pclq-controller reads from an annotation.

use std::collections::BTreeMap;

use grove_api_types::labels::{PACK_AFFINITY, POD_GANG, POD_GROUP};
use grove_api_types::pack_affinity::PackAffinity;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;

/// The values of the annotation, by the names of the cliques. They follow from the existing gangs, so that a clique has the affinity of the
/// incarnation that its gang names. If the gang of a clique does not exist, names no `PodGroup`, or has annotations that cannot be read, the
/// clique retains its affinity until the gang is restored.
pub(crate) fn pack_affinities<'a>(
    gangs: impl Iterator<Item = &'a PodGang>,
    cliques: impl Iterator<Item = &'a PodClique>,
) -> BTreeMap<String, String> {
    let mut affinities = BTreeMap::new();
    let mut names = Vec::new();
    for gang in gangs {
        let Ok(Some(of_gang)) = PackAffinity::of_gang(gang) else { continue };
        names.push(gang.name_any());
        affinities.extend(of_gang.into_iter().map(|(clique, affinity)| (clique.to_owned(), affinity.annotation())));
    }
    names.sort_unstable();
    let has_gang =
        |clique: &PodClique| clique.labels().get(POD_GANG).is_some_and(|gang| names.binary_search(gang).is_ok());
    for clique in cliques.filter(|clique| clique.annotations().contains_key(POD_GROUP) && !has_gang(clique)) {
        let current = clique.annotations().get(PACK_AFFINITY);
        affinities.extend(current.map(|current| (clique.name_any(), current.clone())));
    }
    affinities
}
