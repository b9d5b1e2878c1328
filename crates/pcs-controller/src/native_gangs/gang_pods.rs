//! The pods of a gang: those that its cliques should have, and those that are bound to nodes. Pure.

use std::collections::BTreeMap;

use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang, required_replicas};
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;

/// The pods of a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GangPods {
    /// By the name of the clique.
    cliques: BTreeMap<String, CliquePods>,
    /// The pods that the gang references. A pod and its successor have other names, also if the cliques report the same numbers for them.
    references: Vec<NamespacedName>,
}

/// The pods of a clique.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CliquePods {
    /// The number of pods that the gang needs.
    required: i32,
    /// Whether the clique was scaled below its minimum.
    is_below_minimum: bool,
    /// The number of desired pods.
    replicas: i32,
    /// The number of scheduled pods that the cached clique reports; `None` if the clique does not exist.
    scheduled: Option<i32>,
}

impl GangPods {
    /// The pods of a gang without cliques.
    pub(crate) fn of_gang(gang: Option<&PodGang>) -> Self {
        Self { references: references(gang), ..Self::default() }
    }

    /// Adds a clique with this minimum. `replicas` applies if the clique does not exist yet.
    pub(crate) fn insert(&mut self, name: &str, minimum: i32, replicas: i32, cached: Option<&PodClique>) {
        let replicas = cached.map_or(replicas, |clique| clique.spec.replicas).max(0);
        let required = required_replicas(minimum, Some(replicas));
        let is_below_minimum = required < minimum;
        let pods = CliquePods { required, is_below_minimum, replicas, scheduled: cached.map(scheduled) };
        self.cliques.insert(name.to_owned(), pods);
    }

    /// The numbers of required pods of the cliques below their minimum.
    pub(crate) fn below_minimum(&self) -> BTreeMap<String, i32> {
        let below = self.cliques.iter().filter(|(_, pods)| pods.is_below_minimum);
        below.map(|(name, pods)| (name.clone(), pods.required)).collect()
    }

    /// The number of pods that the gang needs.
    pub(crate) fn required(&self) -> i32 {
        self.cliques.values().fold(0, |sum, pods| sum.saturating_add(pods.required))
    }

    /// Whether the cached gang and its cliques still report the same.
    pub(crate) fn equal_those_of(&self, gang: Option<&PodGang>, cliques: &Cache<PodClique>, namespace: &str) -> bool {
        let is_same = |(name, pods): (&String, &CliquePods)| {
            let cached = cliques.get(namespace, name);
            let replicas = cached.as_ref().map_or(pods.replicas, |clique| clique.spec.replicas.max(0));
            pods.replicas == replicas && pods.scheduled == cached.as_deref().map(scheduled)
        };
        self.references == references(gang) && self.cliques.iter().all(is_same)
    }

    /// How many further pods must be bound together: those that the gang needs and lacks, or a single surplus pod; `None` if all pods are
    /// bound.
    pub(super) fn missing(&self, bound: &BoundPods) -> Option<i32> {
        let sum_of = |wanted: fn(&CliquePods) -> i32| {
            let missing =
                self.cliques.iter().map(|(name, pods)| wanted(pods).saturating_sub(bound.of_clique(name)).max(0));
            missing.fold(0, i32::saturating_add)
        };
        (sum_of(|pods| pods.replicas) > 0).then(|| sum_of(|pods| pods.required).max(1))
    }
}

fn references(gang: Option<&PodGang>) -> Vec<NamespacedName> {
    let groups = gang.into_iter().flat_map(|gang| &gang.spec.podgroups);
    groups.flat_map(|group| group.pod_references.iter().cloned()).collect()
}

/// The number of scheduled pods that the clique reports.
pub(super) fn scheduled(clique: &PodClique) -> i32 {
    clique.status.as_ref().map_or(0, |status| status.scheduled_replicas)
}

/// The pods of one gang that are bound to nodes, and neither terminating nor finished, from a live LIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoundPods(Vec<BoundPod>);

/// A bound pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundPod {
    /// The clique that its label names.
    pub(crate) clique: Option<String>,
    /// Its `PodGroup`.
    pub(crate) pod_group: Option<String>,
}

impl BoundPods {
    /// Adds a pod.
    pub(crate) fn push(&mut self, pod: BoundPod) {
        self.0.push(pod);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of_clique(&self, name: &str) -> i32 {
        self.count(|pod| pod.clique.as_deref() == Some(name))
    }

    /// The number of those that belong to a `PodGroup`.
    pub(super) fn of_pod_group(&self, name: &str) -> i32 {
        self.count(|pod| pod.pod_group.as_deref() == Some(name))
    }

    fn count(&self, holds: impl Fn(&BoundPod) -> bool) -> i32 {
        i32::try_from(self.0.iter().filter(|pod| holds(pod)).count()).unwrap_or(i32::MAX)
    }
}
