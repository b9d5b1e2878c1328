//! The desired pods of the pod groups of a gang. If the gang is larger than a gang may be, the pod groups get pod references in their
//! order.
//!
//! Admission denies such a gang, so nearly all gangs fit. The cache of cliques has the number of the desired pods of each gang. So
//! neither an event nor a reconcile of a clique reads the other cliques of its gang, unless the gang does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Delta, IndexScope, Sum};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

use crate::gated_cliques::gang_key;

/// The number of the desired pods of each gang.
pub(crate) const PODS_BY_GANG: Sum<PodClique> =
    Sum { name: "gang-pods", value: key_of_gang, amount: desired_pods, scope: IndexScope::Namespaced };

/// The cliques that have fewer references than desired pods because their gang does not fit, by namespace and name of the gang. A clone
/// shares them.
///
/// An entry ends with the next reconcile of the clique that finds no such gang or all references, at the latest with the clique.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitedCliques(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl LimitedCliques {
    /// The number of cliques.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().values().map(BTreeSet::len).sum()
    }

    /// Drops a deleted clique, unless another one has its name. Its label may have named several gangs.
    pub(crate) fn forget(&self, cliques: &Cache<PodClique>, deleted: &PodClique) {
        let (namespace, name) = (deleted.metadata.namespace.as_deref().unwrap_or_default(), deleted.name_any());
        if cliques.get(namespace, &name).is_some() {
            return;
        }
        let prefix = gang_key(namespace, "");
        let mut gangs = self.0.lock();
        let of_namespace = gangs.range_mut(prefix.clone()..).take_while(|(gang, _)| gang.starts_with(&prefix));
        let emptied = of_namespace
            .filter_map(|(gang, cliques)| (cliques.remove(&name) && cliques.is_empty()).then(|| gang.clone()));
        for gang in emptied.collect::<Vec<_>>() {
            gangs.remove(&gang);
        }
    }

    fn insert(&self, gang: &str, clique: &str) {
        self.0.lock().entry(gang.to_owned()).or_default().insert(clique.to_owned());
    }

    fn remove(&self, gang: &str, clique: &str) {
        let mut gangs = self.0.lock();
        let Some(cliques) = gangs.get_mut(gang) else { return };
        cliques.remove(clique);
        if cliques.is_empty() {
            gangs.remove(gang);
        }
    }

    fn remove_gang(&self, gang: &str) {
        self.0.lock().remove(gang);
    }

    fn of_gang(&self, gang: &str) -> BTreeSet<String> {
        self.0.lock().get(gang).cloned().unwrap_or_default()
    }
}

/// The gang of `clique`, and the number of references that the clique may have, or `None` if the gang fits. Pod groups keep the references
/// that they have. Free references go to the pod groups in their order, as many as the desired pods of their cliques; a clique that does
/// not exist has none.
pub(crate) fn limited_references(
    (cliques, gangs): (&Cache<PodClique>, &Cache<PodGang>),
    limited: &LimitedCliques,
    (namespace, gang): (&str, &str),
    clique: &str,
) -> (Option<Arc<PodGang>>, Option<usize>) {
    let (observed, key) = (gangs.get(namespace, gang), gang_key(namespace, gang));
    if observed.as_deref().is_none_or(|gang| fits(cliques, &key, gang.spec.podgroups.len())) {
        limited.remove(&key, clique);
        return (observed, None);
    }
    // Before the gang and the cliques are read: each later change that gives this clique more references triggers it.
    limited.insert(&key, clique);
    let observed = gangs.get(namespace, gang);
    let groups = observed.as_deref().map(|gang| gang.spec.podgroups.as_slice()).unwrap_or_default();
    let earlier = groups.iter().take_while(|group| group.name != clique);
    let reserved = |group: &PodGroup| pods_of_group(cliques, namespace, group).max(group.pod_references.len());
    let of_earlier: usize = earlier.map(reserved).sum();
    let later = groups.iter().skip_while(|group| group.name != clique).skip(1);
    let of_later: usize = later.map(|group| group.pod_references.len()).sum();
    let limit = max_references(groups).saturating_sub(of_earlier.saturating_add(of_later));
    let has_all = |group: &PodGroup| limit.max(group.pod_references.len()) >= pods_of_group(cliques, namespace, group);
    if groups.iter().find(|group| group.name == clique).is_none_or(has_all) {
        limited.remove(&key, clique);
    }
    (observed, Some(limit))
}

/// The cliques to reconcile after a change of the number of replicas of another clique of their gang: those that get more references. An
/// increase takes no references from other cliques. After a decrease, cliques with too few references get more, if the gang did not fit.
/// The cache may already contain changes of other cliques, so the number of pods that the gang had is unknown, but the first decrease
/// after which it fits triggers all of them.
pub(crate) fn cliques_after_scaling(
    cliques: &Cache<PodClique>,
    gangs: &Cache<PodGang>,
    limited: &LimitedCliques,
    delta: &Delta<PodClique>,
) -> Vec<ObjectRef<PodClique>> {
    let [before, after] = [&delta.old, &delta.new].map(|clique| clique.as_deref().map_or(0, desired_pods));
    let Some(scaled) = delta.object().filter(|_| after < before) else { return Vec::new() };
    let (namespace, name) = (scaled.namespace().unwrap_or_default(), scaled.name_any());
    let gang = scaled.labels().get(labels::POD_GANG).and_then(|gang| gangs.get(&namespace, gang));
    let Some(gang) = gang else { return Vec::new() };
    let below_share = groups_below_share(cliques, limited, &gang);
    let key = gang_key(&namespace, &gang.name_any());
    if fits(cliques, &key, gang.spec.podgroups.len()) {
        limited.remove_gang(&key);
    }
    let others = below_share.into_iter().filter(|group| group.name != name);
    others.map(|group| ObjectRef::new(&group.name).within(&namespace)).collect()
}

/// The pod groups of the cliques that had too few references because of the limit, and may have more now. There are none while the pod
/// groups use all references: if these get fewer, an event of the gang reports it.
pub(crate) fn groups_below_share<'a>(
    cliques: &Cache<PodClique>,
    limited: &LimitedCliques,
    gang: &'a PodGang,
) -> Vec<&'a PodGroup> {
    let (namespace, groups) = (gang.metadata.namespace.as_deref().unwrap_or_default(), &gang.spec.podgroups);
    let key = gang_key(namespace, &gang.name_any());
    let limited = limited.of_gang(&key);
    let is_limited = !fits(cliques, &key, groups.len());
    let mut free = if is_limited { max_references(groups).saturating_sub(references(groups)) } else { usize::MAX };
    if limited.is_empty() || free == 0 {
        return Vec::new();
    }
    let may_have_more = |group: &&PodGroup| {
        if free == 0 {
            return false;
        }
        let missing = pods_of_group(cliques, namespace, group).saturating_sub(group.pod_references.len());
        free = free.saturating_sub(missing);
        missing > 0 && limited.contains(&group.name)
    };
    groups.iter().filter(may_have_more).collect()
}

/// The number of references that fit into a gang beside its pod groups.
fn max_references(groups: &[PodGroup]) -> usize {
    MAX_GANG_SIZE.saturating_sub(groups.len())
}

/// The number of references of all pod groups.
pub(crate) fn references(groups: &[PodGroup]) -> usize {
    groups.iter().map(|group| group.pod_references.len()).sum()
}

/// Whether references to all desired pods fit into the gang beside its pod groups.
fn fits(cliques: &Cache<PodClique>, gang: &str, groups: usize) -> bool {
    cliques.sum(&PODS_BY_GANG, gang).saturating_add(groups) <= MAX_GANG_SIZE
}

fn pods_of_group(cliques: &Cache<PodClique>, namespace: &str, group: &PodGroup) -> usize {
    cliques.get(namespace, &group.name).as_deref().map_or(0, desired_pods)
}

fn desired_pods(clique: &PodClique) -> usize {
    usize::try_from(clique.spec.replicas).unwrap_or_default()
}

/// Namespace and name of the gang of a clique.
fn key_of_gang(clique: &PodClique) -> Option<String> {
    let gang = clique.labels().get(labels::POD_GANG)?;
    Some(gang_key(clique.metadata.namespace.as_deref().unwrap_or_default(), gang))
}
