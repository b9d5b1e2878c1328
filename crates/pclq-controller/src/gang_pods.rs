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

/// The number of desired pods of the pod groups before that of `clique`, or 0 if the gang fits. A clique that does not exist has no pods.
/// The number does not depend on the references that the other cliques have written, so that the share of each clique is the same in any
/// order of writes.
pub(crate) fn pods_of_earlier_groups(
    cliques: &Cache<PodClique>,
    oversized: &OversizedGangs,
    gang: &PodGang,
    clique: &str,
) -> usize {
    let (namespace, groups) = (gang.metadata.namespace.as_deref().unwrap_or_default(), &gang.spec.podgroups);
    let key = gang_key(namespace, &gang.name_any());
    if fits(cliques, &key, groups.len()) {
        oversized.remove(&key, clique);
        return 0;
    }
    // Before the cliques are read: each later decrease that gives this clique more references triggers it.
    oversized.insert(&key, clique);
    let earlier = groups.iter().take_while(|group| group.name != clique);
    let earlier: usize = earlier.map(|group| pods_of_group(cliques, namespace, group)).sum();
    let share = max_references(groups).saturating_sub(earlier);
    let has_all = |group: &PodGroup| share.max(group.pod_references.len()) >= pods_of_group(cliques, namespace, group);
    if groups.iter().find(|group| group.name == clique).is_none_or(has_all) {
        oversized.remove(&key, clique);
    }
    earlier
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

/// The pod groups of the cliques that had too few references because of the limit, and have fewer than their share now.
pub(crate) fn groups_below_share<'a>(
    cliques: &Cache<PodClique>,
    oversized: &OversizedGangs,
    gang: &'a PodGang,
) -> Vec<&'a PodGroup> {
    let (namespace, groups) = (gang.metadata.namespace.as_deref().unwrap_or_default(), &gang.spec.podgroups);
    let limited = oversized.of_gang(&gang_key(namespace, &gang.name_any()));
    if limited.is_empty() {
        return Vec::new();
    }
    let mut left = max_references(groups);
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
