//! The cliques that a gang gates, and the events that trigger them.

use std::sync::Arc;

use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang};
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_runtime::caches::{Cache, Delta, InformerOptions, Writer};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use serde_json::json;

use super::{NAME, gang, snapshot};
use crate::gangs::{BY_GATING_GANG, GatingGangState, GatingGangs, cliques_gated_by, gating_gang};

const GANG: &str = "grove.io/podgang";
const BASE_GANG: &str = "grove.io/base-podgang";
const OTHER: &str = "llm-0-prefill";
const SCALED: &str = "llm-0-g-1-p";

/// A clique of the gang `llm-0` with three replicas.
fn clique(name: &str, scheduled: i32) -> PodClique {
    let mut clique = snapshot("{replicas: 3}").state.clique;
    clique.metadata.name = Some(name.to_owned());
    clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    clique
}

/// A clique of a scaled gang of `llm-0`.
fn scaled() -> PodClique {
    let mut clique = clique(SCALED, 0);
    for (key, value) in [(GANG, "llm-0-g-0"), (BASE_GANG, "llm-0")] {
        clique.labels_mut().insert(key.to_owned(), value.to_owned());
    }
    clique
}

fn names(cliques: Vec<ObjectRef<PodClique>>) -> Vec<String> {
    cliques.into_iter().map(|clique| clique.name).collect()
}

/// The caches as the service has them. The gang `llm-0` requires one pod of each of two cliques.
struct Fixture {
    cliques: Cache<PodClique>,
    clique_writer: Writer<PodClique>,
    gangs: Cache<PodGang>,
    gang_writer: Writer<PodGang>,
    gating_gangs: GatingGangs,
}

impl Fixture {
    fn new(cliques: impl IntoIterator<Item = PodClique>) -> Self {
        let (cache, clique_writer) = Cache::with_writer(InformerOptions::default().with_index(BY_GATING_GANG));
        clique_writer.replace(cliques.into_iter().collect());
        let (gangs, gang_writer) = Cache::with_writer(InformerOptions::default());
        gang_writer.apply(PodGang::clone(&gang(&json!([]))));
        Self { cliques: cache, clique_writer, gangs, gang_writer, gating_gangs: GatingGangs::default() }
    }

    fn state(&self) -> GatingGangState {
        self.gating_gangs.state(&self.cliques, &self.gangs, "prod", "llm-0")
    }

    fn observe(&self, deltas: &[Delta<PodClique>]) -> Vec<String> {
        names(deltas.iter().flat_map(|delta| self.gating_gangs.observe_clique(&self.cliques, delta)).collect())
    }

    /// The cliques that a change of a clique triggers.
    fn apply(&self, clique: PodClique) -> Vec<String> {
        self.observe(&self.clique_writer.apply(clique))
    }

    fn delete(&self, clique: PodClique) -> Vec<String> {
        self.observe(&self.clique_writer.delete(clique))
    }

    fn observe_gang(&self, deltas: &[Delta<PodGang>]) -> Vec<String> {
        let observe = |delta: &Delta<PodGang>| self.gating_gangs.observe_gang(&self.cliques, &self.gangs, delta);
        names(deltas.iter().flat_map(observe).collect())
    }
}

#[test]
fn scaled_cliques_are_triggered_only_if_the_state_of_their_base_gang_changes() {
    let fixture = Fixture::new([clique(NAME, 0), clique(OTHER, 0), scaled()]);
    assert_eq!(fixture.state(), GatingGangState::NotScheduled);
    assert_eq!(fixture.apply(clique(NAME, 1)), [""; 0], "the other clique has no scheduled pods");
    assert_eq!(fixture.apply(clique(NAME, 2)), [""; 0]);
    assert_eq!(fixture.apply(clique(OTHER, 1)), [SCALED]);
    assert_eq!(fixture.state(), GatingGangState::Scheduled);
    assert_eq!(fixture.apply(clique(OTHER, 3)), [""; 0], "it is still scheduled");
    assert_eq!(fixture.apply(clique(NAME, 0)), [SCALED], "it is no longer scheduled");
    assert_eq!(fixture.state(), GatingGangState::NotScheduled);
    let mut scaled_to_zero = clique(NAME, 0);
    scaled_to_zero.spec.replicas = 0;
    assert_eq!(fixture.apply(scaled_to_zero.clone()), [SCALED]);
    assert_eq!(fixture.delete(scaled_to_zero), [SCALED], "a deleted clique has no scheduled pods");
    assert_eq!(fixture.apply(clique(NAME, 1)), [SCALED]);
}

/// The caches of each later call contain only the changed clique, so a call that reads other cliques finds no scheduled pods.
#[test]
fn an_event_of_a_clique_and_a_reconcile_read_no_other_clique_of_the_base_gang() {
    let fixture = Fixture::new([clique(NAME, 0), clique(OTHER, 0), scaled()]);
    assert_eq!(fixture.state(), GatingGangState::NotScheduled);
    let schedule = |name: &str| {
        let only = Cache::from_objects([clique(name, 1), scaled()]);
        let delta = Delta { old: Some(Arc::new(clique(name, 0))), new: Some(Arc::new(clique(name, 1))) };
        names(fixture.gating_gangs.observe_clique(&only, &delta))
    };
    assert_eq!((schedule(NAME), schedule(OTHER)), (vec![], vec![SCALED.to_owned()]));
    let state = fixture.gating_gangs.state(&Cache::from_objects([]), &Cache::from_objects([]), "prod", "llm-0");
    assert_eq!(state, GatingGangState::Scheduled, "no clique is read");
}

#[test]
fn scaled_cliques_are_triggered_by_changes_of_the_pod_groups_of_their_base_gang() {
    let fixture = Fixture::new([clique(NAME, 1), clique(OTHER, 1), scaled()]);
    assert_eq!(fixture.state(), GatingGangState::Scheduled);
    let mut gang = PodGang::clone(&gang(&json!([])));
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() };
    gang.metadata.resource_version = Some("8".to_owned());
    gang.spec.podgroups[1].pod_references = vec![reference];
    assert_eq!(fixture.observe_gang(&fixture.gang_writer.apply(gang.clone())), [""; 0], "only references changed");
    gang.metadata.resource_version = Some("9".to_owned());
    gang.spec.podgroups[1].min_replicas = 2;
    assert_eq!(fixture.observe_gang(&fixture.gang_writer.apply(gang.clone())), [SCALED]);
    assert_eq!(fixture.apply(clique(NAME, 2)), [SCALED], "the new minimum counts");
    assert_eq!(fixture.observe_gang(&fixture.gang_writer.delete(gang.clone())), [SCALED]);
    assert_eq!(fixture.state(), GatingGangState::NotFound);
    assert_eq!(fixture.apply(clique(NAME, 0)), [""; 0], "the gang does not exist");
    assert_eq!(fixture.observe_gang(&fixture.gang_writer.apply(gang)), [SCALED]);
    assert_eq!(fixture.state(), GatingGangState::NotScheduled);
}

#[test]
fn a_clique_counts_again_after_its_gang_label_was_restored() {
    let fixture = Fixture::new([clique(NAME, 0), clique(OTHER, 1), scaled()]);
    assert_eq!(fixture.state(), GatingGangState::NotScheduled);
    let mut unlabelled = clique(NAME, 0);
    unlabelled.labels_mut().remove(GANG);
    assert_eq!(fixture.apply(unlabelled.clone()), [""; 0]);
    unlabelled.status = clique(NAME, 1).status;
    assert_eq!(fixture.apply(unlabelled), [""; 0]);
    assert_eq!(fixture.apply(clique(NAME, 1)), [SCALED]);
}

#[test]
fn a_base_gang_is_remembered_while_it_gates_cliques() {
    let fixture = Fixture::new([clique(NAME, 0), clique(OTHER, 0)]);
    fixture.state();
    assert_eq!(fixture.gating_gangs.len(), 0, "nothing would end the entry");
    fixture.apply(scaled());
    fixture.state();
    assert_eq!(fixture.gating_gangs.len(), 1);
    let mut relabelled = scaled();
    relabelled.labels_mut().remove(BASE_GANG);
    fixture.apply(relabelled);
    assert_eq!(fixture.gating_gangs.len(), 0, "the label was removed");
    fixture.apply(scaled());
    fixture.state();
    fixture.delete(scaled());
    assert_eq!(fixture.gating_gangs.len(), 0, "the last scaled clique was deleted");
    assert_eq!(fixture.apply(clique(NAME, 1)), [""; 0]);
}

#[test]
fn a_clique_of_another_namespace_or_of_the_base_gang_is_no_scaled_clique() {
    let mut other = scaled();
    other.metadata.namespace = Some("other".to_owned());
    let fixture = Fixture::new([other, clique(NAME, 1)]);
    assert_eq!(cliques_gated_by(&fixture.cliques, "prod", "llm-0"), []);
    assert_eq!(cliques_gated_by(&fixture.cliques, "other", "llm-0").len(), 1);
}

#[test]
fn surplus_pods_of_a_gang_with_a_pod_group_wait_for_their_own_gang() {
    let clique = |labels: &str, annotations: &str, replicas: i32| {
        snapshot(&format!(
            "{{replicas: {replicas}, minAvailable: 2, labels: {{{labels}}}, annotations: {{{annotations}}}}}"
        ))
        .state
        .clique
    };
    let (base, pod_group) = ("grove.io/base-podgang: base", "grove.io/pod-group: llm-0-1");
    for (labels, annotations, replicas, expected) in [
        ("", "", 3, None),
        (base, "", 3, Some(("base", 0))),
        ("", pod_group, 2, None),
        ("", pod_group, 3, Some(("llm-0", 2))),
        (base, pod_group, 2, None),
        (base, pod_group, 3, Some(("llm-0", 2))),
    ] {
        let clique = clique(labels, annotations, replicas);
        assert_eq!(gating_gang(&clique), expected, "{labels} {annotations} {replicas}");
    }
}
