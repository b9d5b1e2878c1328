//! The desired pods of the pod groups of a gang. If they are more than a gang may have, the pod groups get pod references in their
//! order.

use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// The number of desired pods of the pod groups before that of `clique`. A clique that does not exist has no pods. The number does not
/// depend on the references that the other cliques have written, so that the share of each clique is the same in any order of writes.
pub(crate) fn pods_of_earlier_groups(cliques: &Cache<PodClique>, gang: &PodGang, clique: &str) -> usize {
    let namespace = gang.metadata.namespace.as_deref().unwrap_or_default();
    let earlier = gang.spec.podgroups.iter().take_while(|group| group.name != clique);
    earlier.map(|group| pods_of_group(cliques, namespace, group)).sum()
}

/// The cliques to reconcile after a change of the number of replicas of a clique: those of the later pod groups of its gang that get
/// other references. A larger number takes references from them if the gang has more pods than references. After a smaller number, those
/// with too few references get more. The number of pods that the gang had is unknown, because the cache may already contain changes of
/// other cliques.
pub(crate) fn later_cliques_after_scaling(
    cliques: &Cache<PodClique>,
    gangs: &Cache<PodGang>,
    delta: &Delta<PodClique>,
) -> Vec<ObjectRef<PodClique>> {
    let [before, after] = [&delta.old, &delta.new].map(|clique| desired_pods(clique.as_deref()));
    let Some(scaled) = delta.object().filter(|_| before != after) else { return Vec::new() };
    let (namespace, name) = (scaled.namespace().unwrap_or_default(), scaled.name_any());
    let gang = scaled.labels().get(labels::POD_GANG).and_then(|gang| gangs.get(&namespace, gang));
    let Some(gang) = gang else { return Vec::new() };
    let groups = &gang.spec.podgroups;
    let pods = |group: &PodGroup| pods_of_group(cliques, &namespace, group);
    let is_too_large = after > before && groups.iter().map(pods).sum::<usize>() + groups.len() > MAX_GANG_SIZE;
    let gets_more = |group: &PodGroup| after < before && group.pod_references.len() < pods(group);
    let later = groups.iter().skip_while(|group| group.name != name).skip(1);
    let affected = later.filter(|group| is_too_large || gets_more(group));
    affected.map(|group| ObjectRef::new(&group.name).within(&namespace)).collect()
}

fn pods_of_group(cliques: &Cache<PodClique>, namespace: &str, group: &PodGroup) -> usize {
    desired_pods(cliques.get(namespace, &group.name).as_deref())
}

fn desired_pods(clique: Option<&PodClique>) -> usize {
    clique.map_or(0, |clique| usize::try_from(clique.spec.replicas).unwrap_or_default())
}
