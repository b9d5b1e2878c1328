//! The laws for randomly edited objects. A short series runs with every test; `cargo xtask soak fuzz` runs long ones.

use std::sync::Arc;

use grove_test_support::edits::{Edit, edited, edits, pick};
use grove_test_support::fuzz::{self, FuzzConfig, FuzzStats, JsonBytes};
use grove_test_support::rows::{RowFacts, object, rows};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;
use serde_json::{Value, json};

use super::laws::{check_managed, check_set, check_topology, later_facts, typed};

/// The number of inputs of the short series.
const SHORT: u64 = 2000;
/// The name of the series.
const RULES: &str = "rules";

/// One input of the laws.
#[derive(Clone, Debug)]
struct Case {
    new: JsonBytes,
    old: OldObject,
    facts: Index,
    replicas: i32,
    set: (Index, Vec<Edit>),
}

/// The old object of an update.
#[derive(Clone, Debug)]
enum OldObject {
    Other(Index),
    Unchanged,
    Edited(Vec<Edit>),
}

fn cases(objects: &[Value]) -> impl Strategy<Value = Case> + use<> {
    let old = prop_oneof![
        any::<Index>().prop_map(OldObject::Other),
        Just(OldObject::Unchanged),
        edits().prop_map(OldObject::Edited),
    ];
    let set = (any::<Index>(), edits());
    (fuzz::edited_objects(objects), old, any::<Index>(), -1000..199_000_i32, set)
        .prop_map(|(new, old, facts, replicas, set)| Case { new, old, facts, replicas, set })
}

/// The objects of all rows, from which the inputs are created.
fn objects() -> Vec<Value> {
    let of_rows = rows().iter().flat_map(|row| [row.new_object(), row.old_object()]);
    let group = json!({ "metadata": { "name": "serve-0-model" }, "spec": { "replicas": 2, "minAvailable": 1, "cliqueNames": ["leader", "worker"] } });
    let clique = json!({ "metadata": { "name": "serve-0-front" }, "spec": { "replicas": 2, "minAvailable": 1, "podSpec": { "containers": [{ "name": "main" }] } } });
    let mut all: Vec<Value> = of_rows.chain([object("managed"), group, clique]).collect();
    // One row tests the size limit of annotations. Its 256 kB would slow down the series.
    all.retain(|object| object.to_string().len() < 100_000);
    all
}

fn all_facts() -> Vec<RowFacts> {
    let mut facts: Vec<RowFacts> = rows().iter().map(|row| row.facts.clone()).chain(later_facts()).collect();
    facts.sort();
    facts.dedup();
    facts
}

fn series(config: FuzzConfig, on_progress: impl FnMut(&FuzzStats)) -> FuzzStats {
    let (objects, all_facts): (Arc<[Value]>, _) = (objects().into(), all_facts());
    let check = |_, case: &Case| -> Result<bool, String> {
        let Ok(new) = serde_json::from_slice::<Value>(&case.new.0) else { return Ok(false) };
        let old = match &case.old {
            OldObject::Other(index) => pick(index, &objects).cloned().unwrap_or_default(),
            OldObject::Unchanged => new.clone(),
            OldObject::Edited(edits) => edited(&new, edits),
        };
        let facts = pick(&case.facts, &all_facts).cloned().unwrap_or_default();
        if check_set(&new, &old, &facts)? || check_topology(&new, &old, &facts)? {
            return Ok(true);
        }
        let (index, edits) = &case.set;
        let set = pick(index, &objects).map(|object| edited(object, edits)).and_then(|object| typed(&object));
        check_managed(&new, &old, (set.as_ref(), case.replicas))
    };
    fuzz::run(config, || cases(&objects), check, on_progress)
        .unwrap_or_else(|failure| panic!("{}", failure.report(RULES)))
}

#[test]
fn no_input_violates_a_law() {
    let stats = series(FuzzConfig { inputs: SHORT, seed: 1 }, |_| ());
    assert!(stats.valid > SHORT / 2, "too few inputs are valid: {stats:?}");
}

#[test]
#[ignore = "a long series: `cargo xtask soak fuzz`"]
fn many_inputs_violate_no_law() {
    if !fuzz::is_selected(RULES) {
        return;
    }
    let config = FuzzConfig::from_env(4_000_000);
    assert_eq!(series(config, fuzz::progress_printer(RULES, config)).inputs, config.inputs);
}
