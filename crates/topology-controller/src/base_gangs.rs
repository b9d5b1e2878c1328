//! Base gangs with a `PodGroup` of the workload API: the `PodGroup`s of their scaled gangs are created once the base gang is scheduled.
//!
//! A reconcile of a scaled gang without `PodGroup` reads the base gang ([`is_scheduled`]). [`BaseGangObserver`] finds the scaled gangs to
//! enqueue: only when the base gang has become scheduled, because an existing `PodGroup` stays if the base gang is no longer scheduled.
//! Otherwise each event of one clique would cause work that is proportional to the cliques of the base gang times the scaled gangs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{POD_GANG, POD_GROUP};
use grove_api_types::pod_group;
use grove_api_types::scheduler_v1alpha1::{PodGang, required_replicas};
use grove_runtime::caches::{Cache, Delta, Index, IndexScope};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use crate::slim_clique::SlimClique;

/// Scaled gangs with a `PodGroup` of the workload API, by namespace and name of their base gang. Other gangs have no value.
pub(crate) const BY_BASE_GANG: Index<PodGang> =
    Index { name: "base-gang", values: index_values, scope: IndexScope::Namespaced };

fn index_values(gang: &PodGang) -> Vec<Cow<'_, str>> {
    let has_pod_group = gang.annotations().contains_key(POD_GROUP);
    let base_gang = pod_group::base_gang(gang).filter(|_| has_pod_group);
    let namespace = gang.metadata.namespace.as_deref().unwrap_or_default();
    base_gang.map(|base_gang| Cow::Owned(gang_key(namespace, base_gang.as_str()))).into_iter().collect()
}

/// Namespace and name of a gang; neither contains a slash.
fn gang_key(namespace: &str, gang: &str) -> String {
    format!("{namespace}/{gang}")
}

/// Whether the gang exists, is not terminating, and each of its cliques has its minimum of scheduled pods.
pub(crate) fn is_scheduled(gangs: &Cache<PodGang>, cliques: &Cache<SlimClique>, namespace: &str, name: &str) -> bool {
    let gang = gangs.get(namespace, name).filter(|gang| !is_terminating(&**gang));
    gang.is_some_and(|gang| {
        let mut groups = gang.spec.podgroups.iter();
        groups.all(|group| has_minimum(cliques.get(namespace, &group.name).as_deref(), group.min_replicas))
    })
}

/// Whether a clique has its minimum of scheduled pods.
fn has_minimum(clique: Option<&SlimClique>, min_replicas: i32) -> bool {
    let required = required_replicas(min_replicas, clique.map(SlimClique::replicas));
    clique.map_or(0, SlimClique::scheduled_replicas) >= required
}

/// A change after which a base gang may be scheduled.
#[derive(Debug)]
pub(crate) enum BaseGangDelta {
    /// Of a clique.
    Clique(Delta<SlimClique>),
    /// Of a gang.
    Gang(Delta<PodGang>),
}

/// Finds the scaled gangs to enqueue because their base gang has become scheduled.
///
/// A delta is published after its cache has applied it, so the caches are at least as new as each observed delta, and may be newer. If a
/// clique loses and regains its minimum, the caches may already have the second change when the first one is observed. A reconcile in
/// between has read the first state. So a delta of a clique without its minimum ends the entry of the base gang, and the scaled gangs are
/// enqueued again.
#[derive(Debug)]
pub(crate) struct BaseGangObserver {
    gangs: Cache<PodGang>,
    cliques: Cache<SlimClique>,
    /// The base gangs that are scheduled, and have been since their scaled gangs were enqueued, by namespace and name. An entry ends with
    /// its gang.
    scheduled: BTreeSet<String>,
}

impl BaseGangObserver {
    /// No change has been observed yet.
    pub(crate) fn new(gangs: &Cache<PodGang>, cliques: &Cache<SlimClique>) -> Self {
        Self { gangs: gangs.clone(), cliques: cliques.clone(), scheduled: BTreeSet::new() }
    }

    /// The scaled gangs to enqueue.
    pub(crate) fn observe(&mut self, delta: &BaseGangDelta) -> Vec<ObjectRef<PodGang>> {
        match delta {
            BaseGangDelta::Clique(delta) => self.observe_clique(delta),
            BaseGangDelta::Gang(delta) => self.observe_gang(delta),
        }
    }

    fn observe_clique(&mut self, delta: &Delta<SlimClique>) -> Vec<ObjectRef<PodGang>> {
        let Some(clique) = delta.object() else { return Vec::new() };
        let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
        let states = [&delta.old, &delta.new].into_iter().filter_map(Option::as_deref);
        let gangs: BTreeSet<&String> = states.filter_map(gang_of).collect();
        let mut enqueued = Vec::new();
        for gang in gangs {
            enqueued.extend(self.observe_clique_of_gang(namespace, gang, delta));
        }
        enqueued
    }

    fn observe_clique_of_gang(
        &mut self,
        namespace: &str,
        name: &str,
        delta: &Delta<SlimClique>,
    ) -> Vec<ObjectRef<PodGang>> {
        let key = gang_key(namespace, name);
        let gang = self.gangs.get(namespace, name).filter(|_| self.gangs.has_index_value(&BY_BASE_GANG, &key));
        let Some(gang) = gang else {
            self.scheduled.remove(&key);
            return Vec::new();
        };
        let clique = delta.object().map(|clique| clique.name_any()).unwrap_or_default();
        let Some(group) = gang.spec.podgroups.iter().find(|group| group.name == clique) else { return Vec::new() };
        let is_of_gang = |clique: &&SlimClique| gang_of(clique).is_some_and(|of_clique| of_clique == name);
        let [had, has] = [&delta.old, &delta.new].map(|clique| {
            let of_gang = clique.as_deref().filter(is_of_gang);
            has_minimum(of_gang, group.min_replicas)
        });
        // No change of the clique has been observed while it lacked the label of the gang.
        let lacked_label = delta.old.as_deref().is_some_and(|old| !is_of_gang(&old));
        if lacked_label || !has {
            self.scheduled.remove(&key);
        }
        if had == has || self.scheduled.contains(&key) { Vec::new() } else { self.scaled_gangs(namespace, name, key) }
    }

    /// A change of the pod references or of the status of a gang changes nothing.
    fn observe_gang(&mut self, delta: &Delta<PodGang>) -> Vec<ObjectRef<PodGang>> {
        let Some(gang) = delta.object() else { return Vec::new() };
        let [old, new] = [&delta.old, &delta.new].map(|gang| gang.as_deref().filter(|gang| !is_terminating(*gang)));
        if old.is_some() == new.is_some() && minimums(old).eq(minimums(new)) {
            return Vec::new();
        }
        let (namespace, name) = (gang.metadata.namespace.as_deref().unwrap_or_default(), gang.name_any());
        let key = gang_key(namespace, &name);
        self.scheduled.remove(&key);
        self.scaled_gangs(namespace, &name, key)
    }

    /// The scaled gangs of the base gang, if it is scheduled.
    fn scaled_gangs(&mut self, namespace: &str, base_gang: &str, key: String) -> Vec<ObjectRef<PodGang>> {
        let has_scaled_gangs = self.gangs.has_index_value(&BY_BASE_GANG, &key);
        if !has_scaled_gangs || !is_scheduled(&self.gangs, &self.cliques, namespace, base_gang) {
            return Vec::new();
        }
        let scaled_gangs = self.gangs.by_index(&BY_BASE_GANG, &key);
        self.scheduled.insert(key);
        scaled_gangs.iter().map(|gang| ObjectRef::from_obj(&**gang)).collect()
    }
}

fn gang_of(clique: &SlimClique) -> Option<&String> {
    clique.labels().get(POD_GANG)
}

/// The name and the minimum of each pod group.
fn minimums(gang: Option<&PodGang>) -> impl Iterator<Item = (&str, i32)> {
    let groups = gang.into_iter().flat_map(|gang| &gang.spec.podgroups);
    groups.map(|group| (group.name.as_str(), group.min_replicas))
}

#[cfg(test)]
mod tests;
