//! Objects that nobody would write, made from valid ones by a seed.

use serde_json::{Value, json};

/// Numbers that look random and are the same for each seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits fit") % sides.max(1)
    }
}

/// The object with up to four places changed.
pub(crate) fn mutated(object: &Value, dice: &mut Dice) -> Value {
    let mut object = object.clone();
    for _ in 0..=dice.roll(4) {
        let mut places = vec![];
        pointers(&object, "", &mut places);
        let Some(place) = places.get(dice.roll(places.len())).cloned() else { continue };
        let other = places.get(dice.roll(places.len())).and_then(|other| object.pointer(other)).cloned();
        let value = strange(other.unwrap_or_default(), dice);
        let Some(at) = object.pointer_mut(&place) else { continue };
        match (dice.roll(4), at) {
            (0, Value::Object(fields)) => {
                let key = fields.keys().nth(dice.roll(fields.len())).cloned();
                drop(key.and_then(|key| fields.remove(&key)));
            }
            (0, Value::Array(items)) if !items.is_empty() => drop(items.remove(dice.roll(items.len()))),
            (1, Value::Array(items)) if !items.is_empty() => items.push(items[dice.roll(items.len())].clone()),
            (_, at) => *at = value,
        }
    }
    object
}

fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                pointers(field, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}/{at}");
                pointers(item, &path, found);
                found.push(path);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A value that rules may stumble over, or one that stands elsewhere in the object.
fn strange(other: Value, dice: &mut Dice) -> Value {
    let values = [
        json!(0),
        json!(-1),
        json!(1),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(""),
        json!(" "),
        json!("a.b"),
        json!("none"),
        json!("enabled"),
        json!("CliqueStartupTypeExplicit"),
        json!("\u{1f980}-\u{e9}"),
        json!("x".repeat(300)),
        json!([]),
        json!({}),
        json!(true),
        Value::Null,
    ];
    match dice.roll(values.len() + 8) {
        at if at < values.len() => values[at].clone(),
        _ => other,
    }
}
