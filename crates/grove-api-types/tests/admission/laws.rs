//! Laws that hold for every object, those of the rows and those that nobody would write.

use grove_api_types::admission::{
    Facts, Scaled, TopologyFacts, default, default_cluster_topology, default_pod_clique_set,
    validate_cluster_topology_create, validate_cluster_topology_update, validate_create, validate_scale,
    validate_topology_binding_create, validate_topology_binding_update, validate_update,
};
use grove_api_types::core::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::mutated::{Dice, mutated};
use crate::rows::{Changes, Known, On, Row, changed, object, rows};
use crate::verdicts::{created, updated};

/// So many objects are made by mutation.
const MUTATED: u64 = 3000;

fn typed<T: DeserializeOwned>(object: &Value) -> Option<T> {
    serde_json::from_value(object.clone()).ok()
}

fn patched(object: &Value, old: Option<&Value>, facts: &Facts) -> Value {
    let changes = default_pod_clique_set(object, old, facts).expect("it is a set");
    let patch: json_patch::Patch = serde_json::from_value(json!(changes)).expect("a patch");
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).expect("the patch fits the object");
    object
}

/// The object with another field changed, about which there is no rule.
fn elsewhere(row: &Row, object: &Value) -> Value {
    let change = match row.object.as_str() {
        "set" => ("/spec/template/priorityClassName".to_owned(), json!("elsewhere")),
        _ => ("/metadata/labels".to_owned(), json!({ "else": "where" })),
    };
    changed(object, &Changes::from([change]))
}

/// Circumstances that a set may meet later.
fn later() -> Vec<Known> {
    let known = |text: &str| serde_json::from_str(text).expect("what is known");
    vec![
        known(r#"{"topologyOff": true}"#),
        known(r#"{"mnnvlOff": true}"#),
        known(r#"{"scheduled": true}"#),
        known(r#"{"defaultScheduler": "volcano"}"#),
        known(r#"{"without": ["default-scheduler", "kai-scheduler"]}"#),
    ]
}

#[test]
fn defaults_are_filled_in_once() {
    for row in rows().iter().filter(|row| row.object == "set") {
        let (facts, new, old) = (row.facts.of_sets(), row.new_object(), row.old_object());
        for old in [None, Some(&old)] {
            let once = patched(&new, old, &facts);
            assert_eq!(patched(&once, old, &facts), once, "{}", row.title());
        }
    }
}

#[test]
fn patches_and_types_say_the_same() {
    for row in rows().iter().filter(|row| row.object == "set") {
        let new = row.new_object();
        let set: PodCliqueSet = typed(&new).expect("a set");
        let patched: PodCliqueSet = typed(&patched(&new, None, &row.facts.of_sets())).expect("a set");
        assert_eq!(patched.spec, default::pod_clique_set(&set).spec, "{}", row.title());
    }
}

#[test]
fn fields_that_nobody_knows_survive() {
    let unknown = |pointer: &str| (pointer.to_owned(), json!({ "of": "tomorrow" }));
    let places = ["/spec/tomorrow", "tomorrow", "cliques/0/tomorrow", "cliques/0/spec/podSpec/tomorrow"];
    let mut changes: Changes = places.iter().map(|place| unknown(place)).collect();
    changes.insert("terminationDelay".to_owned(), Value::Null);
    let new = changed(&object("set"), &changes);
    let patched = patched(&new, None, &Known::default().of_sets());
    let mut expected = new;
    expected["spec"]["template"]["terminationDelay"] = json!("4h0m0s");
    assert_eq!(patched, expected);
}

#[test]
fn a_valid_object_stays_valid_with_its_defaults() {
    let accepted = |row: &&Row| row.object == "set" && row.on != On::Update && row.refused.is_empty();
    for row in rows().iter().filter(accepted) {
        let facts = row.facts.of_sets();
        let set: PodCliqueSet = typed(&patched(&row.new_object(), None, &facts)).expect("a set");
        let verdict = validate_create(&set, &facts);
        assert!(verdict.is_accepted(), "{}: {:?}", row.title(), verdict.message());
    }
}

#[test]
fn whatever_is_stored_can_be_changed_elsewhere_deleted_and_released() {
    for row in rows().iter().filter(|row| row.on != On::Update) {
        let stored = row.new_object();
        let deleted =
            changed(&stored, &[("/metadata/deletionTimestamp".to_owned(), json!("2026-01-01T00:00:00Z"))].into());
        let kept = changed(&stored, &[("/metadata/finalizers".to_owned(), json!(["a/b"]))].into());
        let changes = [(&stored, &stored), (&stored, &elsewhere(row, &stored)), (&stored, &deleted), (&kept, &stored)];
        for known in later().into_iter().chain([row.facts.clone()]) {
            let row = Row { facts: known, ..row.clone() };
            for (old, new) in changes {
                let verdict = updated(&row, old.clone(), new.clone());
                assert!(verdict.is_accepted(), "{}: {:?}", row.title(), verdict.message());
            }
        }
    }
}

#[test]
fn what_was_wrong_before_stays_known_when_it_moves() {
    let two = |names: [&str; 2]| {
        let clique = |name: &str| {
            let least = if name == "wrong" { 9 } else { 1 };
            json!({ "name": name, "spec": { "roleName": name, "replicas": 2, "minAvailable": least, "podSpec": {} } })
        };
        let changes =
            [("cliques".to_owned(), json!(names.map(clique))), ("podCliqueScalingGroups".to_owned(), Value::Null)];
        typed::<PodCliqueSet>(&changed(&object("set"), &changes.into())).expect("a set")
    };
    let facts = Known::default().of_sets();
    let (old, new) = (two(["wrong", "right"]), two(["right", "wrong"]));
    assert!(!validate_create(&old, &facts).is_accepted());
    assert_eq!(validate_update(&new, &old, &facts).message(), None);
}

#[test]
fn nothing_that_is_sent_brings_a_rule_down() {
    let topologies = TopologyFacts::default();
    let mut sets = 0;
    for seed in 0..MUTATED {
        let mut dice = Dice::new(seed);
        let row = &rows()[dice.roll(rows().len())];
        let facts = row.facts.of_sets();
        let (new, old) = (mutated(&row.new_object(), &mut dice), mutated(&row.old_object(), &mut dice));
        drop(default_cluster_topology(&new));
        if let (Some(new), Some(old)) = (typed::<ClusterTopology>(&new), typed::<ClusterTopology>(&old)) {
            drop(validate_cluster_topology_create(&new, &topologies));
            drop(validate_cluster_topology_update(&new, &old, &topologies));
        }
        if let (Some(new), Some(old)) = (typed::<ClusterTopologyBinding>(&new), typed::<ClusterTopologyBinding>(&old)) {
            drop(validate_topology_binding_create(&new, &topologies));
            drop(validate_topology_binding_update(&new, &old, &topologies));
        }
        let Some(set) = typed::<PodCliqueSet>(&new) else { continue };
        sets += 1;
        let once = patched(&new, None, &facts);
        assert_eq!(patched(&once, None, &facts), once, "seed {seed}: defaults are filled in once");
        let defaulted: PodCliqueSet = typed(&once).expect("a set with defaults is a set");
        let accepted = validate_create(&set, &facts).is_accepted();
        let with_defaults = validate_create(&defaulted, &facts);
        assert!(!accepted || with_defaults.is_accepted(), "seed {seed}: {:?}", with_defaults.message());
        assert!(validate_update(&set, &set, &facts).is_accepted(), "seed {seed}");
        let changed: PodCliqueSet = typed(&elsewhere(row, &new)).unwrap_or_else(|| set.clone());
        let verdict = validate_update(&changed, &set, &facts);
        assert!(row.object != "set" || verdict.is_accepted(), "seed {seed}: {:?}", verdict.message());
        drop(validate_scale(Scaled::Set(&set), i32::MAX, &facts));
        if let Some(old) = typed::<PodCliqueSet>(&old) {
            drop(validate_update(&set, &old, &facts));
        }
    }
    assert!(sets > MUTATED / 8, "too few of them are sets: {sets}");
}

#[test]
fn rows_that_are_accepted_are_accepted_when_created() {
    for row in rows().iter().filter(|row| row.on == On::Both && row.refused.is_empty()) {
        assert!(created(row).is_accepted(), "{}", row.title());
    }
}
