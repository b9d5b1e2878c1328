//! Counts the ready pods of the parents. Pure.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels::POD_CLIQUE;
use grove_api_types::startup::Parent;
use grove_api_types::text::join_names;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// A message has this many names; it only counts the others.
const MAX_NAMED: usize = 10;

/// A pod with only the fields that are read, so that the others need no memory and cannot be invalid.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub struct SlimPod {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Its status.
    #[serde(default)]
    pub status: SlimPodStatus,
}

/// The status of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SlimPodStatus {
    /// The conditions.
    #[serde(default)]
    pub conditions: Option<Vec<SlimCondition>>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SlimCondition {
    /// The type.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
}

impl SlimPod {
    /// Whether the pod is ready and not terminating.
    fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        is_ready && self.metadata.deletion_timestamp.is_none()
    }
}

/// The parents, and their ready pods.
#[derive(Clone, Debug)]
pub struct Readiness {
    parents: Vec<Parent>,
    /// The names of the ready pods, by their clique. A label names the clique: the name of one clique can begin with that of another.
    ready: BTreeMap<String, BTreeSet<String>>,
}

impl Readiness {
    /// No pod is ready.
    pub fn new(parents: Vec<Parent>) -> Self {
        Self { parents, ready: BTreeMap::new() }
    }

    /// Counts the pod as it is now.
    pub fn apply(&mut self, pod: &SlimPod) {
        self.delete(pod);
        let clique = pod.labels().get(POD_CLIQUE).filter(|_| pod.is_ready());
        let clique = clique.filter(|clique| self.parents.iter().any(|parent| parent.clique == **clique));
        if let Some(clique) = clique {
            self.ready.entry(clique.clone()).or_default().insert(pod.name_any());
        }
    }

    /// Does not count the pod any more. Its labels may have changed.
    pub fn delete(&mut self, pod: &SlimPod) {
        let name = pod.name_any();
        for pods in self.ready.values_mut() {
            pods.remove(&name);
        }
    }

    /// Forgets all pods.
    pub fn clear(&mut self) {
        self.ready.clear();
    }

    /// The parents with too few ready pods, and their counts; `None` if there are none.
    pub fn missing(&self) -> Option<String> {
        let missing = self.parents.iter().filter_map(|Parent { clique, min_ready }| {
            let ready = self.ready.get(clique).map_or(0, BTreeSet::len);
            let is_missing = i64::try_from(ready).unwrap_or(i64::MAX) < i64::from(*min_ready);
            is_missing.then(|| format!("{clique} ({ready} of {min_ready} ready)"))
        });
        let missing: Vec<_> = missing.collect();
        if missing.len() > MAX_NAMED {
            let (ready, parents) = (self.ready.values().map(BTreeSet::len).sum::<usize>(), missing.len());
            let named = join_names(&missing, MAX_NAMED);
            return Some(format!("{named}; {parents} PodCliques in total, {ready} pods are ready"));
        }
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, clique: &str, ready: &str) -> SlimPod {
        let conditions = json!([{ "type": "Initialized", "status": "True" }, { "type": "Ready", "status": ready }]);
        let metadata = json!({ "name": name, "labels": { "grove.io/podclique": clique } });
        serde_json::from_value(json!({ "metadata": metadata, "status": { "conditions": conditions } })).unwrap()
    }

    fn readiness(parents: &[&str]) -> Readiness {
        Readiness::new(parents.iter().map(|parent| parent.parse().unwrap()).collect())
    }

    #[test]
    fn all_parents_must_be_ready_at_the_same_time() {
        let mut readiness = readiness(&["x-0-a:2", "x-0-b:1"]);
        assert_eq!(readiness.missing().as_deref(), Some("x-0-a (0 of 2 ready), x-0-b (0 of 1 ready)"));
        readiness.apply(&pod("a1", "x-0-a", "True"));
        readiness.apply(&pod("a2", "x-0-a", "True"));
        assert_eq!(readiness.missing().as_deref(), Some("x-0-b (0 of 1 ready)"));
        readiness.apply(&pod("a1", "x-0-a", "False"));
        readiness.apply(&pod("b1", "x-0-b", "True"));
        assert_eq!(readiness.missing().as_deref(), Some("x-0-a (1 of 2 ready)"));
        readiness.apply(&pod("a3", "x-0-a", "True"));
        assert_eq!(readiness.missing(), None);
        readiness.delete(&pod("a2", "x-0-a", "True"));
        assert_eq!(readiness.missing().as_deref(), Some("x-0-a (1 of 2 ready)"));
        readiness.clear();
        assert_eq!(readiness.missing().as_deref(), Some("x-0-a (0 of 2 ready), x-0-b (0 of 1 ready)"));
    }

    #[test]
    fn a_pod_counts_for_the_clique_of_its_label_only() {
        let mut readiness = readiness(&["x-0-pre:1", "x-0-prefill:1"]);
        readiness.apply(&pod("x-0-prefill-abcde", "x-0-prefill", "True"));
        assert_eq!(readiness.missing().as_deref(), Some("x-0-pre (0 of 1 ready)"));
        readiness.apply(&pod("x-0-prefill-abcde", "x-0-pre", "True"));
        assert_eq!(readiness.missing().as_deref(), Some("x-0-prefill (0 of 1 ready)"));
        for odd in [json!({}), json!({ "metadata": { "labels": null } }), json!({ "status": { "conditions": null } })] {
            readiness.apply(&serde_json::from_value(odd).unwrap());
        }
    }

    #[test]
    fn a_terminating_pod_does_not_count() {
        let mut readiness = readiness(&["x-0-a:1"]);
        let mut terminating = pod("a1", "x-0-a", "True");
        terminating.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        readiness.apply(&terminating);
        assert!(readiness.missing().is_some());
    }

    #[test]
    fn many_missing_parents_are_counted() {
        let parents: Vec<String> = (0..12).map(|at| format!("x-0-c{at}:1")).collect();
        let mut readiness = readiness(&parents.iter().map(String::as_str).collect::<Vec<_>>());
        readiness.apply(&pod("p", "x-0-c11", "True"));
        let missing = readiness.missing().unwrap();
        assert!(missing.ends_with("; 11 PodCliques in total, 1 pods are ready"), "{missing}");
    }

    #[test]
    fn without_parents_nothing_is_missing() {
        assert_eq!(readiness(&[]).missing(), None);
    }
}
