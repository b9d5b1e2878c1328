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
use grove_runtime::caches::{Cache, Delta, Sum};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

use crate::scaled_cliques::gang_key;

/// The number of the desired pods of each gang.
pub(crate) const PODS_BY_GANG: Sum<PodClique> = Sum { name: "gang-pods", value: key_of_gang, amount: desired_pods };

/// The cliques that have fewer references than desired pods because their gang does not fit, by namespace and name of the gang. A clone
/// shares them.
///
/// An entry ends with the next reconcile of the clique that finds no such gang, at the latest with the clique.
#[derive(Clone, Debug, Default)]
pub(crate) struct OversizedGangs(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl OversizedGangs {
    /// The number of cliques.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().values().map(BTreeSet::len).sum()
    }

    /// Drops a deleted clique. Its label may have named several gangs.
    pub(crate) fn forget(&self, deleted: &PodClique) {
        let (namespace, name) =
            (gang_key(deleted.metadata.namespace.as_deref().unwrap_or_default(), ""), deleted.name_any());
        self.0.lock().retain(|gang, cliques| {
            let was_removed = gang.starts_with(&namespace) && cliques.remove(&name);
            !was_removed || !cliques.is_empty()
        });
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

/// The gang of `clique`, and the number of references that the clique may have, or `None` if the gang fits. The pod groups before that of
/// the clique have precedence, with the desired pods of their cliques; a clique that does not exist has none. The references that the
/// other pod groups already have stay, so the clique gets at most the rest.
pub(crate) fn limited_references(
    (cliques, gangs): (&Cache<PodClique>, &Cache<PodGang>),
    oversized: &OversizedGangs,
    (namespace, gang): (&str, &str),
    clique: &str,
) -> (Option<Arc<PodGang>>, Option<usize>) {
    let (observed, key) = (gangs.get(namespace, gang), gang_key(namespace, gang));
    if observed.as_deref().is_none_or(|gang| fits(cliques, &key, gang.spec.podgroups.len())) {
        oversized.remove(&key, clique);
        return (observed, None);
    }
    // Before the gang and the cliques are read: each later change that gives this clique more references triggers it.
    oversized.insert(&key, clique);
    let observed = gangs.get(namespace, gang);
    let groups = observed.as_deref().map(|gang| gang.spec.podgroups.as_slice()).unwrap_or_default();
    let earlier = groups.iter().take_while(|group| group.name != clique);
    let earlier: usize = earlier.map(|group| pods_of_group(cliques, namespace, group)).sum();
    let others = groups.iter().filter(|group| group.name != clique);
    let of_others: usize = others.map(|group| group.pod_references.len()).sum();
    let limit = max_references(groups).saturating_sub(earlier.max(of_others));
    let has_all = |group: &PodGroup| limit.max(group.pod_references.len()) >= pods_of_group(cliques, namespace, group);
    if groups.iter().find(|group| group.name == clique).is_none_or(has_all) {
        oversized.remove(&key, clique);
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
    oversized: &OversizedGangs,
    delta: &Delta<PodClique>,
) -> Vec<ObjectRef<PodClique>> {
    let [before, after] = [&delta.old, &delta.new].map(|clique| clique.as_deref().map_or(0, desired_pods));
    let Some(scaled) = delta.object().filter(|_| after < before) else { return Vec::new() };
    let (namespace, name) = (scaled.namespace().unwrap_or_default(), scaled.name_any());
    let gang = scaled.labels().get(labels::POD_GANG).and_then(|gang| gangs.get(&namespace, gang));
    let Some(gang) = gang else { return Vec::new() };
    let below_share = groups_below_share(cliques, oversized, &gang);
    let key = gang_key(&namespace, &gang.name_any());
    if fits(cliques, &key, gang.spec.podgroups.len()) {
        oversized.remove_gang(&key);
    }
    let others = below_share.into_iter().filter(|group| group.name != name);
    others.map(|group| ObjectRef::new(&group.name).within(&namespace)).collect()
}

/// The pod groups of the cliques that had too few references because of the limit, and have fewer than their share now. There are none
/// while other pod groups use all references: if these get fewer, an event of the gang reports it.
pub(crate) fn groups_below_share<'a>(
    cliques: &Cache<PodClique>,
    oversized: &OversizedGangs,
    gang: &'a PodGang,
) -> Vec<&'a PodGroup> {
    let (namespace, groups) = (gang.metadata.namespace.as_deref().unwrap_or_default(), &gang.spec.podgroups);
    let key = gang_key(namespace, &gang.name_any());
    let limited = oversized.of_gang(&key);
    let mut left = max_references(groups);
    if limited.is_empty() || (references(groups) >= left && !fits(cliques, &key, groups.len())) {
        return Vec::new();
    }
    let is_below_share = |group: &&PodGroup| {
        if left == 0 {
            return false;
        }
        let share = pods_of_group(cliques, namespace, group).min(left);
        left -= share;
        limited.contains(&group.name) && group.pod_references.len() < share
    };
    groups.iter().filter(is_below_share).collect()
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
