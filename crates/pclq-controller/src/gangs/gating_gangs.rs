//! Whether each gating gang is scheduled. Gated cliques have pods with Grove's scheduling gate until then (`gated_cliques.rs`).
//!
//! The pod groups of a gating gang are read when its first gated clique is reconciled, and when its own pod groups change. An event of one
//! clique updates only the part of that clique. So no reconcile of a gated clique reads the pod groups, and the gated cliques are
//! triggered only if the state of their gating gang changes. Otherwise each event of one clique would cause work that is proportional to the
//! pod groups times the gated cliques.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::{PodGang, required_replicas};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::{Cache, Delta};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

use super::gated_cliques::{cliques_gated_by, gang_key, gates_cliques, gating_gang};

/// The state of a gating gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatingGangState {
    /// The gang does not exist, or it is terminating.
    NotFound,
    /// A pod group has fewer scheduled pods than it requires.
    NotScheduled,
    /// Each pod group has at least as many scheduled pods as it requires.
    Scheduled,
}

/// The gating gangs with reconciled gated cliques, by namespace and name. A clone shares them.
///
/// The entry of a gang ends with its last gated clique. Each function reads the caches while it holds the lock. A delta is published
/// after its cache has applied it, so an entry has at least the state of each delta that was observed.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatingGangs(Arc<Mutex<BTreeMap<String, GangProgress>>>);

/// The scheduling of one gating gang.
#[derive(Debug)]
struct GangProgress {
    /// `minReplicas` of each pod group, by the name of the pod group and of its clique; `None` if the gang does not exist.
    min_replicas: Option<BTreeMap<String, i32>>,
    /// The pod groups that have fewer scheduled pods than they require.
    lacking: BTreeSet<String>,
}

impl GatingGangs {
    /// The number of gating gangs.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// The state of the gang that gates a clique.
    pub(crate) fn state(
        &self,
        cliques: &Cache<PodClique>,
        gangs: &Cache<PodGang>,
        namespace: &str,
        name: &str,
    ) -> GatingGangState {
        let key = gang_key(namespace, name);
        let mut gating_gangs = self.0.lock();
        if let Some(known) = gating_gangs.get(&key) {
            return known.state();
        }
        let progress = GangProgress::read(cliques, gangs, namespace, name);
        let state = progress.state();
        // Otherwise the clique has just been deleted, and nothing would end the entry.
        if gates_cliques(cliques, namespace, name) {
            gating_gangs.insert(key, progress);
        }
        state
    }

    /// Updates the gang of a clique after a change of the clique. Returns the cliques to reconcile: those that the gang gates, if its state
    /// changed.
    pub(crate) fn observe_clique(
        &self,
        cliques: &Cache<PodClique>,
        delta: &Delta<PodClique>,
    ) -> Vec<ObjectRef<PodClique>> {
        let [old, new] = [&delta.old, &delta.new].map(Option::as_deref);
        if let Some(old) = old.filter(|old| gating_gang_of(old) != new.and_then(gating_gang_of)) {
            self.forget(cliques, old);
        }
        let Some(clique) = delta.object().filter(|_| old.map(scheduling) != new.map(scheduling)) else {
            return Vec::new();
        };
        let (namespace, name) = (clique.namespace().unwrap_or_default(), clique.name_any());
        let gangs: BTreeSet<&String> = old.into_iter().chain(new).filter_map(gang_of).collect();
        let update = |gang: &String| {
            self.update(cliques, &namespace, gang, |progress| progress.update_clique(cliques, &namespace, &name))
        };
        gangs.into_iter().flat_map(update).collect()
    }

    /// Updates a gating gang after a change of its pod groups. Returns the cliques to reconcile, like [`GatingGangs::observe_clique`]. A change
    /// of only pod references or the status changes nothing.
    pub(crate) fn observe_gang(
        &self,
        cliques: &Cache<PodClique>,
        gangs: &Cache<PodGang>,
        delta: &Delta<PodGang>,
    ) -> Vec<ObjectRef<PodClique>> {
        let [old, new] = [&delta.old, &delta.new].map(|gang| gang.as_deref().filter(|gang| !is_terminating(*gang)));
        let Some(gang) = delta.object() else { return Vec::new() };
        let (namespace, name) = (gang.namespace().unwrap_or_default(), gang.name_any());
        if delta.is_delete() {
            self.forget_unused(cliques, &namespace, &name);
        }
        if old.is_some() == new.is_some() && requirements(old).eq(requirements(new)) {
            return Vec::new();
        }
        self.update(cliques, &namespace, &name, |progress| {
            *progress = GangProgress::read(cliques, gangs, &namespace, &name);
        })
    }

    /// Drops the gating gang of a clique that was deleted or has another gating gang now, if the clique was the last one.
    pub(crate) fn forget(&self, cliques: &Cache<PodClique>, clique: &PodClique) {
        if let Some(gang) = gating_gang_of(clique) {
            self.forget_unused(cliques, clique.metadata.namespace.as_deref().unwrap_or_default(), gang);
        }
    }

    fn forget_unused(&self, cliques: &Cache<PodClique>, namespace: &str, gang: &str) {
        let mut gating_gangs = self.0.lock();
        if !gates_cliques(cliques, namespace, gang) {
            gating_gangs.remove(&gang_key(namespace, gang));
        }
    }

    /// Applies a change to the entry of a gang. Returns the cliques that it gates if its state changed.
    fn update(
        &self,
        cliques: &Cache<PodClique>,
        namespace: &str,
        gang: &str,
        change: impl FnOnce(&mut GangProgress),
    ) -> Vec<ObjectRef<PodClique>> {
        let mut gating_gangs = self.0.lock();
        let Some(progress) = gating_gangs.get_mut(&gang_key(namespace, gang)) else { return Vec::new() };
        let before = progress.state();
        change(progress);
        let is_unchanged = progress.state() == before;
        drop(gating_gangs);
        if is_unchanged { Vec::new() } else { cliques_gated_by(cliques, namespace, gang) }
    }
}

impl GangProgress {
    fn read(cliques: &Cache<PodClique>, gangs: &Cache<PodGang>, namespace: &str, name: &str) -> Self {
        let gang = gangs.get(namespace, name).filter(|gang| !is_terminating(&**gang));
        let requirements = || requirements(gang.as_deref());
        let lacking = requirements().filter(|(group, required)| lacks_pods(cliques, namespace, group, *required));
        Self {
            lacking: lacking.map(|(group, _)| group.to_owned()).collect(),
            min_replicas: gang.is_some().then(|| requirements().map(|(group, min)| (group.to_owned(), min)).collect()),
        }
    }

    fn update_clique(&mut self, cliques: &Cache<PodClique>, namespace: &str, name: &str) {
        let Some(required) = self.min_replicas.as_ref().and_then(|groups| groups.get(name)) else { return };
        if lacks_pods(cliques, namespace, name, *required) {
            self.lacking.insert(name.to_owned());
        } else {
            self.lacking.remove(name);
        }
    }

    fn state(&self) -> GatingGangState {
        if self.min_replicas.is_none() {
            GatingGangState::NotFound
        } else if self.lacking.is_empty() {
            GatingGangState::Scheduled
        } else {
            GatingGangState::NotScheduled
        }
    }
}

/// The name and `minReplicas` of each pod group.
fn requirements(gang: Option<&PodGang>) -> impl Iterator<Item = (&str, i32)> {
    let groups = gang.into_iter().flat_map(|gang| &gang.spec.podgroups);
    groups.map(|group| (group.name.as_str(), group.min_replicas))
}

/// Whether a clique has fewer scheduled pods than its pod group requires.
fn lacks_pods(cliques: &Cache<PodClique>, namespace: &str, name: &str, min_replicas: i32) -> bool {
    let clique = cliques.get(namespace, name);
    let required = required_replicas(min_replicas, clique.as_deref().map(|clique| clique.spec.replicas));
    clique.as_deref().map_or(0, scheduled_replicas) < required
}

/// The fields of a clique that the state of its gang depends on.
fn scheduling(clique: &PodClique) -> (Option<&String>, i32, i32) {
    (gang_of(clique), scheduled_replicas(clique), clique.spec.replicas)
}

/// The pods of a terminating clique are terminating, too.
fn scheduled_replicas(clique: &PodClique) -> i32 {
    let status = clique.status.as_ref().filter(|_| !is_terminating(clique));
    status.map_or(0, |status| status.scheduled_replicas)
}

fn gang_of(clique: &PodClique) -> Option<&String> {
    clique.labels().get(labels::POD_GANG)
}

fn gating_gang_of(clique: &PodClique) -> Option<&str> {
    gating_gang(clique).map(|(gang, _)| gang)
}
