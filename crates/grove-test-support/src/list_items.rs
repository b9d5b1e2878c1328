//! Fuzzes one item of a list: for any content, the other items are readable, and the name of the item is in use.

use serde_json::{Value, json};

use crate::fuzz::{self, FuzzConfig, JsonBytes};

/// Inputs per kind.
const INPUTS: u64 = 2000;
/// The names of the other items.
const OTHERS: [&str; 2] = ["before", "after"];

/// A namespace and a name.
pub type Key = (String, String);

/// Edits `object`, and puts it into a list between two unchanged objects. `states` fills a cache with a list of JSON objects, and
/// returns the state of the objects with these keys: `None` if the cache has no such object, otherwise whether it is readable.
///
/// # Panics
/// If an edited object makes another object unreadable, or does not use its name.
pub fn check(object: &Value, states: impl Fn(&[String], &[Key]) -> Vec<Option<bool>> + Sync) {
    let other = |name: &str| {
        let mut other = object.clone();
        (other["metadata"]["name"], other["metadata"]["uid"]) = (json!(name), json!(name));
        other.to_string()
    };
    let (others, keys) = (OTHERS.map(other), OTHERS.map(|name| ("ns".to_owned(), name.to_owned())));
    let check = |_seed: u64, JsonBytes(bytes): &JsonBytes| {
        let Some(item) = serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object) else { return Ok(false) };
        let text = |field: &str| item["metadata"][field].as_str().map(str::to_owned);
        let key = text("namespace").zip(text("name")).filter(|key| !keys.contains(key));
        let keys: Vec<_> = keys.iter().cloned().chain(key).collect();
        let states = states(&[others[0].clone(), item.to_string(), others[1].clone()], &keys);
        match *states {
            [Some(true), Some(true)] => Ok(false),
            [Some(true), Some(true), Some(is_readable)] => Ok(is_readable),
            [Some(true), Some(true), None] => Err("the name of the edited object is free".to_owned()),
            _ => Err(format!("another object is not readable: {states:?}")),
        }
    };
    let config = FuzzConfig { inputs: INPUTS, seed: 1 };
    let outcome = fuzz::run(config, || fuzz::edited_objects(std::slice::from_ref(object)), check, |_| {});
    let outcome = outcome.unwrap_or_else(|failure| panic!("{} in {}", failure.violation, failure.minimal_input));
    assert!(outcome.valid > 0 && outcome.valid < outcome.inputs, "{outcome:?}");
}
