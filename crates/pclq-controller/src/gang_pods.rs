//! The desired pods of the pod groups of a gang. If the gang is larger than a gang may be, the pod groups get pod references in their
//! order.
//!
//! Admission denies such a gang, so nearly all gangs fit. The cache of cliques has the number of the desired pods of each gang. So
//! neither an event nor a reconcile of a clique reads the other cliques of its gang, unless the gang does not fit.

use std::collections::BTreeSet;
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

/// The gangs that did not fit when one of their cliques was reconciled, by namespace and name. Cliques of such a gang may have too few
/// references. A clone shares the gangs.
///
/// An entry ends with the first decrease after which the gang fits, at the latest with the last clique of the gang.
#[derive(Clone, Debug, Default)]
pub(crate) struct OversizedGangs(Arc<Mutex<BTreeSet<String>>>);

impl OversizedGangs {
    /// The number of gangs.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Drops the gang of a deleted clique if it has no desired pods.
    pub(crate) fn forget(&self, cliques: &Cache<PodClique>, deleted: &PodClique) {
        if let Some(gang) = key_of_gang(deleted).filter(|gang| cliques.sum(&PODS_BY_GANG, gang) == 0) {
            self.0.lock().remove(&gang);
        }
    }

    fn contains(&self, gang: &str) -> bool {
        self.0.lock().contains(gang)
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
        return 0;
    }
    // Before the cliques are read: each later decrease triggers this clique.
    oversized.0.lock().insert(key);
    let earlier = groups.iter().take_while(|group| group.name != clique);
    earlier.map(|group| pods_of_group(cliques, namespace, group)).sum()
}

/// The cliques to reconcile after a change of the number of replicas of another clique of their gang: those that get other references. An
/// increase takes references from later pod groups if the gang does not fit. After a decrease, pod groups with too few references get
/// more, if the gang did not fit. The cache may already contain changes of other cliques, so the number of pods that the gang had is
/// unknown, but the first decrease after which it fits triggers all of them.
pub(crate) fn cliques_after_scaling(
    cliques: &Cache<PodClique>,
    gangs: &Cache<PodGang>,
    oversized: &OversizedGangs,
    delta: &Delta<PodClique>,
) -> Vec<ObjectRef<PodClique>> {
    let [before, after] = [&delta.old, &delta.new].map(|clique| clique.as_deref().map_or(0, desired_pods));
    let Some(scaled) = delta.object().filter(|_| before != after) else { return Vec::new() };
    let (namespace, name) = (scaled.namespace().unwrap_or_default(), scaled.name_any());
    let gang = scaled.labels().get(labels::POD_GANG).and_then(|gang| gangs.get(&namespace, gang));
    let Some(gang) = gang else { return Vec::new() };
    let (groups, key) = (&gang.spec.podgroups, gang_key(&namespace, &gang.name_any()));
    let fits = fits(cliques, &key, groups.len());
    let clique = |group: &PodGroup| ObjectRef::new(&group.name).within(&namespace);
    if after > before && fits {
        return Vec::new();
    }
    if after > before {
        let later = groups.iter().skip_while(|group| group.name != name).skip(1);
        return later.filter(|group| !group.pod_references.is_empty()).map(clique).collect();
    }
    if !oversized.contains(&key) {
        return Vec::new();
    }
    if fits {
        oversized.0.lock().remove(&key);
    }
    let gets_more = |group: &&PodGroup| {
        group.name != name && group.pod_references.len() < pods_of_group(cliques, &namespace, group)
    };
    groups.iter().filter(gets_more).map(clique).collect()
}

/// Whether another number of pod groups changes the shares of all cliques of the gang.
pub(crate) fn has_limited_references(cliques: &Cache<PodClique>, oversized: &OversizedGangs, gang: &PodGang) -> bool {
    let key = gang_key(gang.metadata.namespace.as_deref().unwrap_or_default(), &gang.name_any());
    oversized.contains(&key) || !fits(cliques, &key, gang.spec.podgroups.len())
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
