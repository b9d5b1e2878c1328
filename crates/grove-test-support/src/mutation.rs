//! Objects that nobody would write, made from valid ones; and bytes that are no objects.

use serde_json::{Value, json};

use crate::dice::Dice;

/// The object with up to five places changed: a field gone, an item twice, a strange value, or one from elsewhere.
pub fn mutated(object: &Value, dice: &mut Dice) -> Value {
    let mut object = object.clone();
    for _ in 0..=dice.roll(4) {
        let mut places = vec![];
        pointers(&object, "", &mut places);
        let Some(place) = dice.one_of(&places).cloned() else { continue };
        let elsewhere = dice.one_of(&places).and_then(|other| object.pointer(other)).cloned();
        if let Some(at) = object.pointer_mut(&place) {
            let value = strange(at, &elsewhere.unwrap_or_default(), dice);
            change(at, value, dice);
        }
    }
    object
}

fn change(at: &mut Value, value: Value, dice: &mut Dice) {
    match (dice.roll(6), at) {
        (0 | 3, Value::Object(fields)) => {
            let key = fields.keys().nth(dice.roll(fields.len())).cloned();
            drop(key.and_then(|key| fields.remove(&key)));
        }
        (0, Value::Array(items)) if !items.is_empty() => drop(items.remove(dice.roll(items.len()))),
        (1, Value::Array(items)) if !items.is_empty() => items.push(items[dice.roll(items.len())].clone()),
        (2, Value::Array(items)) if items.len() > 1 => {
            let other = dice.roll(items.len());
            items.swap(0, other);
        }
        (2, Value::Object(fields)) => drop(fields.insert("tomorrow".to_owned(), value)),
        (3, Value::String(text)) => *text = misspelt(text, dice),
        (_, at) => *at = value,
    }
}

/// A text with a letter changed, doubled or gone.
fn misspelt(text: &str, dice: &mut Dice) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let at = dice.roll(letters.len() + 1);
    let letter = dice.one_of(&['-', '.', '/', 'A', '0', '\u{e9}', '\u{1f980}', ' ', '~']).copied().unwrap_or('a');
    match dice.roll(3) {
        0 if at < letters.len() => drop(letters.remove(at)),
        1 if at < letters.len() => letters[at] = letter,
        _ => letters.insert(at, letter),
    }
    letters.into_iter().collect()
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

/// A value that rules may stumble over, or one that stands elsewhere in the object. Mostly it is of the kind of the one
/// before, since what cannot be read at all shows little.
fn strange(before: &Value, elsewhere: &Value, dice: &mut Dice) -> Value {
    let numbers = [json!(0), json!(-1), json!(1), json!(3), json!(257), json!(i32::MAX), json!(i32::MIN)];
    let odd_numbers = [json!(i64::MAX), json!(0.5), json!(u64::MAX)];
    let long = json!("x".repeat(300));
    let texts = [
        json!(""),
        json!(" "),
        json!("a.b"),
        json!("none"),
        json!("enabled"),
        json!("rack"),
        json!("host"),
        json!("model"),
        json!("front"),
        json!("PerReplica"),
        json!("CliqueStartupTypeExplicit"),
        json!("CliqueStartupTypeInOrder"),
        json!("99999999999999999999h"),
        json!("\u{1f980}-\u{e9}"),
        long,
    ];
    let others = [json!([]), json!({}), json!(true), json!(false), Value::Null];
    let all = [&numbers[..], &odd_numbers, &texts, &others].concat();
    let is_alike = std::mem::discriminant(before) == std::mem::discriminant(elsewhere);
    let alike = match (before, dice.roll(10)) {
        (_, 0) => dice.one_of(&all),
        (_, 1..5) if is_alike => Some(elsewhere),
        (Value::Number(_), _) => dice.one_of(&numbers),
        (Value::String(_), _) => dice.one_of(&texts),
        (Value::Array(_), _) => Some(&others[0]),
        (Value::Object(_), _) => Some(&others[1]),
        (Value::Bool(_) | Value::Null, _) => dice.one_of(&others),
    };
    alike.cloned().unwrap_or_default()
}

/// Bytes that were an object: some changed, doubled, cut off or put in.
pub fn mangled(object: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = object.to_vec();
    for _ in 0..=dice.roll(5) {
        let (at, end) = (dice.roll(bytes.len() + 1), dice.roll(bytes.len() + 1));
        let byte = u8::try_from(dice.roll(256)).unwrap_or_default();
        match dice.roll(7) {
            0 => bytes.truncate(at),
            1 if at < end => drop(bytes.drain(at..end)),
            2 if at < end => bytes.extend_from_within(at..end),
            3 => bytes.insert(at, *dice.one_of(b"{}[],:\"\\0-e").unwrap_or(&0)),
            4 => bytes.splice(at..at, b"[".repeat(dice.roll(300))).for_each(drop),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.push(byte),
        }
    }
    bytes
}
