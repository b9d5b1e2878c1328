//! Tables of short YAML rows: each row describes the cliques of a gang, and the expected status is text.

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::scheduler_v1alpha1::{PodGangPhase, PodGangStatus};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::status_limiter::StatusChange;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observed::Observed;
use super::status;
use crate::children::by_name;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// A gang of cliques with two pods, of which the gang requires one each. A row has three numbers per clique: the pod references in
/// the gang, and the scheduled and the ready pods that the clique reports.
fn snapshot(row: &str) -> Observed {
    let row: Value = serde_saphyr::from_str(row).expect("YAML");
    let cliques = row.as_object().expect("a map");
    let group = |(name, counts): (&String, &Value)| {
        let pods = counts[0].as_u64().expect("a count");
        let reference = |number: u64| json!({ "namespace": "prod", "name": format!("{name}-{number}") });
        json!({ "name": name, "minReplicas": 1, "podReferences": (0..pods).map(reference).collect::<Vec<_>>() })
    };
    let clique = |(name, counts): (&String, &Value)| -> Arc<PodClique> {
        let spec = json!({ "replicas": 2, "podSpec": { "containers": [] } });
        let status = json!({ "scheduledReplicas": counts[1], "readyReplicas": counts[2] });
        let clique = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": { "name": name },
            "spec": spec, "status": status });
        Arc::new(serde_json::from_value(clique).expect("a clique"))
    };
    let gang = json!({ "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": { "name": "m-0", "generation": 2 }, "spec": { "podgroups": cliques.iter().map(group).collect::<Vec<_>>() } });
    Observed {
        gang: serde_json::from_value(gang).expect("a gang"),
        cliques: by_name(cliques.iter().map(clique)),
        has_active_set: true,
    }
}

fn new_status(observed: &Observed, now: Timestamp) -> PodGangStatus {
    status::status(observed, now)
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let status = new_status(observed, at(1));
    let conditions = status.conditions.iter().map(|c| format!(" {}={}/{}", c.type_, c.status, c.reason));
    let change = status::status_change(observed, &status);
    expected.assert_eq(&format!("{:?}{} {change:?}", status.phase, conditions.collect::<String>()));
}

#[test]
fn a_gang_follows_its_cliques() {
    check(
        &snapshot("{a: [0, 0, 0], b: [2, 2, 2]}"),
        &expect!["Pending Initialized=False/PodGangPodsCreationPending Ready=False/InsufficientReadyPods Starting"],
    );
    check(
        &snapshot("{a: [2, 1, 0], b: [2, 2, 2]}"),
        &expect!["Starting Initialized=True/PodGangPodsCreated Ready=False/InsufficientReadyPods Starting"],
    );
    check(
        &snapshot("{a: [2, 1, 1], b: [2, 1, 1]}"),
        &expect!["Running Initialized=True/PodGangPodsCreated Ready=True/SufficientReadyPods Minor"],
    );
}

#[test]
fn a_clique_that_is_scaled_below_its_minimum_does_not_hold_up_its_gang() {
    let mut observed = snapshot("{a: [2, 2, 2], b: [0, 0, 0]}");
    for clique in observed.cliques.values_mut().filter(|clique| clique.name_any() == "b") {
        Arc::make_mut(clique).spec.replicas = 0;
    }
    check(&observed, &expect!["Running Initialized=True/PodGangPodsCreated Ready=True/SufficientReadyPods Minor"]);
}

#[test]
fn a_missing_clique_counts_as_a_clique_without_pods() {
    let mut observed = snapshot("{a: [2, 2, 2], b: [2, 2, 2]}");
    observed.cliques.remove("b");
    check(
        &observed,
        &expect!["Pending Initialized=False/PodGangPodsCreationPending Ready=False/InsufficientReadyPods Starting"],
    );
}

#[test]
fn a_gang_without_pods_is_pending_and_stays_initialized() {
    let mut observed = snapshot("{a: [2, 2, 2]}");
    let running = new_status(&observed, at(1));
    assert_eq!(running.phase, PodGangPhase::Running);
    observed = snapshot("{a: [0, 0, 0]}");
    observed.gang.status = Some(running);
    check(
        &observed,
        &expect!["Pending Initialized=True/PodGangPodsCreated Ready=False/InsufficientReadyPods Significant"],
    );
}

#[test]
fn while_an_update_replaces_pods_the_gang_is_being_started() {
    let mut observed = snapshot("{a: [2, 2, 2]}");
    let running = new_status(&observed, at(1));
    observed = snapshot("{a: [2, 2, 0]}");
    observed.gang.status = Some(running);
    for clique in observed.cliques.values_mut() {
        let progress = json!({ "podCliqueSetGenerationHash": "g", "podTemplateHash": "h" });
        let status = Arc::make_mut(clique).status.as_mut().expect("a status");
        status.update_progress = serde_json::from_value(progress).expect("a progress");
    }
    let changed = |observed: &Observed| status::status_change(observed, &new_status(observed, at(2)));
    assert_eq!(changed(&observed), StatusChange::Starting);
    for clique in observed.cliques.values_mut() {
        let progress = Arc::make_mut(clique).status.as_mut().and_then(|status| status.update_progress.as_mut());
        let ended = serde_json::from_value(json!("1970-01-01T00:00:01Z")).expect("a time");
        progress.expect("a progress").update_ended_at = Some(ended);
    }
    assert_eq!(changed(&observed), StatusChange::Significant, "the update has ended");
}

#[test]
fn the_placement_score_is_retained_and_an_unchanged_status_stays_equal() {
    let mut observed = snapshot("{a: [2, 2, 2]}");
    let mut status = new_status(&observed, at(1));
    status.placement_score = Some(0.5);
    observed.gang.status = Some(status.clone());
    assert_eq!(new_status(&observed, at(99)), status);
    assert_eq!(
        status::status_change(&observed, &status),
        StatusChange::Significant,
        "an unchanged status is not written, so it is not delayed"
    );
}

#[test]
fn a_gang_that_is_terminating_or_without_a_set_gets_no_status() {
    let mut observed = snapshot("{a: [0, 0, 0]}");
    assert!(!observed.is_terminating());
    observed.gang.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    assert!(observed.is_terminating(), "{}", observed.gang.name_any());
    observed.gang.metadata.deletion_timestamp = None;
    observed.has_active_set = false;
    assert!(observed.is_terminating(), "its set does not exist, so the gang will be deleted");
}
