//! The laws, for objects that nobody would write. A short series is part of every run of the tests; `cargo xtask soak fuzz`
//! has long ones.

use grove_test_support::dice::Dice;
use grove_test_support::fuzz::{self, Tally, Wish};
use grove_test_support::mutation::mutated;
use grove_test_support::rows::{Known, object, rows};
use serde_json::{Value, json};

use crate::laws::{later, of_managed, of_set, of_topology, typed};

/// Inputs of the short series.
const SHORT: u64 = 6000;
/// What is fuzzed here.
const RULES: &str = "rules";

/// What inputs are made from: the objects of all rows.
fn objects() -> Vec<Value> {
    let of_rows = rows().iter().flat_map(|row| [row.new_object(), row.old_object()]);
    let group = json!({ "metadata": { "name": "serve-0-model" }, "spec": { "replicas": 2, "minAvailable": 1, "cliqueNames": ["leader", "worker"] } });
    let clique = json!({ "metadata": { "name": "serve-0-front" }, "spec": { "replicas": 2, "minAvailable": 1, "podSpec": { "containers": [{ "name": "main" }] } } });
    let mut all: Vec<Value> = of_rows.chain([object("managed"), group, clique]).collect();
    // One row tries the limit of annotations; its quarter of a megabyte would only slow the series down.
    all.retain(|object| object.to_string().len() < 100_000);
    all
}

fn known() -> Vec<Known> {
    let mut known: Vec<Known> = rows().iter().map(|row| row.facts.clone()).chain(later()).collect();
    known.sort();
    known.dedup();
    known
}

fn series(wish: Wish, told: impl FnMut(&Tally)) -> Tally {
    let (objects, known) = (objects(), known());
    let laws = |seed: u64, bytes: &[u8]| -> Result<bool, String> {
        let Ok(new) = serde_json::from_slice::<Value>(bytes) else { return Ok(false) };
        let mut dice = Dice::new(!seed);
        let old = match dice.roll(3) {
            0 => dice.one_of(&objects).cloned().unwrap_or_default(),
            1 => new.clone(),
            _ => mutated(&new, &mut dice),
        };
        let known = dice.one_of(&known).cloned().unwrap_or_default();
        if of_set(&new, &old, &known)? || of_topology(&new, &old, &known)? {
            return Ok(true);
        }
        let replicas = i32::try_from(dice.roll(200_000)).unwrap_or_default() - 1000;
        let set = dice.one_of(&objects).map(|object| mutated(object, &mut dice)).and_then(|object| typed(&object));
        of_managed(&new, &old, (set.as_ref(), replicas))
    };
    fuzz::run(wish, |seed| fuzz::input(&objects, seed), laws, told)
        .unwrap_or_else(|broken| panic!("{}", broken.report(RULES)))
}

#[test]
fn no_input_breaks_a_law() {
    let tally = series(Wish { inputs: SHORT, seed: 1 }, |_| ());
    assert!(tally.understood > SHORT / 2, "too little of it is understood: {tally:?}");
}

#[test]
#[ignore = "a long series: `cargo xtask soak fuzz`"]
fn many_inputs_break_no_law() {
    if !fuzz::is_wanted(RULES) {
        return;
    }
    let wish = Wish::of_environment(4_000_000);
    assert_eq!(series(wish, fuzz::telling(RULES, wish)).inputs, wish.inputs);
}
