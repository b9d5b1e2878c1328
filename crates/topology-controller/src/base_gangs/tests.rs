//! Which changes of a base gang enqueue its scaled gangs.

use grove_runtime::caches::{InformerOptions, Writer};
use serde_json::{Value, json};

use super::*;

/// The caches and the observer of their deltas.
struct Caches {
    gangs: Writer<PodGang>,
    cliques: Writer<SlimClique>,
    observer: BaseGangObserver,
}

impl Caches {
    /// The base gang `llm-0` of two cliques, with the scaled gang `llm-0-g-0`.
    fn new() -> Self {
        let (gangs, gang_writer) = Cache::with_writer(InformerOptions::default().with_index(BY_BASE_GANG));
        let (cliques, clique_writer) = Cache::with_writer(InformerOptions::default());
        let observer = BaseGangObserver::new(&gangs, &cliques);
        let mut caches = Self { gangs: gang_writer, cliques: clique_writer, observer };
        assert!(caches.apply_gang(base_gang()).is_empty() && caches.apply_gang(scaled_gang("llm-0-g-0")).is_empty());
        caches
    }

    fn apply_gang(&mut self, gang: PodGang) -> Vec<String> {
        let deltas = self.gangs.apply(gang);
        self.observe(deltas.into_iter().map(BaseGangDelta::Gang))
    }

    fn apply_clique(&mut self, name: &str, scheduled: i32) -> Vec<String> {
        let deltas = self.cliques.apply(clique(name, scheduled, 2));
        self.observe(deltas.into_iter().map(BaseGangDelta::Clique))
    }

    /// The names of the enqueued gangs.
    fn observe(&mut self, deltas: impl IntoIterator<Item = BaseGangDelta>) -> Vec<String> {
        let enqueued = deltas.into_iter().flat_map(|delta| self.observer.observe(&delta));
        enqueued.map(|gang| gang.name).collect()
    }

    fn is_scheduled(&self) -> bool {
        is_scheduled(&self.observer.gangs, &self.observer.cliques, "prod", "llm-0")
    }
}

fn gang(name: &str, annotations: &Value, minimums: &[(&str, i32)]) -> PodGang {
    let group = |(name, min): &(&str, i32)| json!({ "name": name, "podReferences": [], "minReplicas": min });
    let labels = json!({ "app.kubernetes.io/part-of": "llm" });
    let metadata = json!({ "name": name, "namespace": "prod", "labels": labels, "annotations": annotations });
    let spec = json!({ "podgroups": minimums.iter().map(group).collect::<Vec<_>>() });
    let gang =
        json!({ "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": metadata, "spec": spec });
    serde_json::from_value(gang).expect("a gang")
}

fn base_gang() -> PodGang {
    gang("llm-0", &json!({ "grove.io/pod-group": "llm-0-1" }), &[("a", 2), ("b", 1)])
}

fn scaled_gang(name: &str) -> PodGang {
    gang(name, &json!({ "grove.io/pod-group": format!("{name}-1") }), &[("c", 1)])
}

fn clique(name: &str, scheduled: i32, replicas: i32) -> SlimClique {
    let metadata = json!({ "name": name, "namespace": "prod", "labels": { "grove.io/podgang": "llm-0" } });
    let (spec, status) = (json!({ "replicas": replicas }), json!({ "scheduledReplicas": scheduled }));
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).expect("a clique")
}

#[test]
fn scaled_gangs_are_enqueued_once_each_clique_has_its_minimum() {
    let mut caches = Caches::new();
    for (name, scheduled, is_enqueued) in [
        ("a", 2, false),
        ("b", 0, false),
        ("b", 1, true),
        ("b", 2, false),
        ("a", 1, false),
        ("b", 1, false),
        ("a", 2, true),
    ] {
        let expected: &[&str] = if is_enqueued { &["llm-0-g-0"] } else { &[] };
        assert_eq!(caches.apply_clique(name, scheduled), expected, "{name} {scheduled}");
    }
    let deleted = caches.cliques.delete(clique("b", 1, 2));
    assert!(caches.observe(deleted.into_iter().map(BaseGangDelta::Clique)).is_empty() && !caches.is_scheduled());
    assert_eq!(caches.apply_clique("b", 1), ["llm-0-g-0"], "created again");
}

#[test]
fn a_clique_that_is_scaled_below_its_minimum_needs_all_its_pods() {
    let mut caches = Caches::new();
    caches.apply_clique("b", 1);
    assert!(caches.apply_clique("a", 1).is_empty() && !caches.is_scheduled());
    let scaled = caches.cliques.apply(clique("a", 1, 1));
    assert_eq!(caches.observe(scaled.into_iter().map(BaseGangDelta::Clique)), ["llm-0-g-0"]);
    assert!(caches.is_scheduled());
}

#[test]
fn the_cliques_of_a_full_cache_enqueue_the_scaled_gangs_once() {
    let mut caches = Caches::new();
    let mut deltas = caches.cliques.apply(clique("a", 2, 2));
    deltas.extend(caches.cliques.apply(clique("b", 1, 2)));
    assert_eq!(caches.observe(deltas.into_iter().map(BaseGangDelta::Clique)), ["llm-0-g-0"]);
}

#[test]
fn a_change_that_the_caches_no_longer_have_enqueues_the_scaled_gangs() {
    let mut caches = Caches::new();
    caches.apply_clique("a", 2);
    assert_eq!(caches.apply_clique("b", 1), ["llm-0-g-0"]);
    let mut deltas = caches.cliques.apply(clique("b", 0, 2));
    deltas.extend(caches.cliques.apply(clique("b", 1, 2)));
    assert_eq!(
        caches.observe(deltas.into_iter().map(BaseGangDelta::Clique)),
        ["llm-0-g-0"],
        "a reconcile may have waited"
    );
}

#[test]
fn changes_of_a_clique_without_its_label_are_not_missed() {
    let mut caches = Caches::new();
    caches.apply_clique("a", 2);
    let unlabelled = |scheduled: i32| {
        let mut clique = clique("b", scheduled, 2);
        clique.labels_mut().clear();
        clique
    };
    let mut deltas = caches.cliques.apply(unlabelled(0));
    deltas.extend(caches.cliques.apply(unlabelled(1)));
    assert!(caches.observe(deltas.into_iter().map(BaseGangDelta::Clique)).is_empty());
    assert_eq!(caches.apply_clique("b", 1), ["llm-0-g-0"]);
}

#[test]
fn a_change_of_the_pod_groups_of_the_base_gang_enqueues_the_scaled_gangs() {
    let mut caches = Caches::new();
    caches.apply_clique("a", 2);
    caches.apply_clique("b", 1);
    assert!(caches.apply_gang(base_gang()).is_empty(), "the pod groups are the same");
    let annotations = json!({ "grove.io/pod-group": "llm-0-1" });
    let larger = gang("llm-0", &annotations, &[("a", 2), ("b", 1), ("d", 1)]);
    assert!(caches.apply_gang(larger).is_empty() && !caches.is_scheduled());
    assert_eq!(caches.apply_gang(base_gang()), ["llm-0-g-0"]);
    let deleted = caches.gangs.delete(base_gang());
    assert!(caches.observe(deleted.into_iter().map(BaseGangDelta::Gang)).is_empty() && !caches.is_scheduled());
    assert!(caches.observer.scheduled.is_empty(), "the entry ends with the gang");
    assert_eq!(caches.apply_gang(base_gang()), ["llm-0-g-0"]);
}

#[test]
fn only_gangs_with_a_pod_group_are_enqueued() {
    let mut caches = Caches::new();
    caches.apply_gang(gang("llm-0-g-1", &json!({}), &[]));
    caches.apply_gang(gang("llm-1-g-0", &json!({ "grove.io/pod-group": "llm-1-g-0-1" }), &[]));
    caches.apply_gang(scaled_gang("llm-0-g-2"));
    caches.apply_clique("a", 2);
    assert_eq!(caches.apply_clique("b", 1), ["llm-0-g-0", "llm-0-g-2"]);
}
