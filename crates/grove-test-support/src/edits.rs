//! Random edits of valid JSON objects and of bytes, as proptest strategies. proptest shrinks a failing input to fewer and
//! simpler edits.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// One edit of a JSON object.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The value that the edit changes.
    target: Index,
    /// Another value of the object, which a replacement may copy.
    source: Index,
    operation: Operation,
    replacement: Replacement,
}

/// An operation on a value. An operation that does not fit the type of the value replaces the value.
#[derive(Clone, Debug)]
enum Operation {
    /// Removes a field or an item.
    Remove(Index),
    /// Appends a copy of an item.
    Duplicate(Index),
    /// Swaps two items, or adds a field that no version knows.
    Reorder(Index),
    /// Misspells a string, or removes a field.
    Misspell(Index, Misspelling),
    Replace,
}

/// A change of one character of a string.
#[derive(Clone, Debug)]
struct Misspelling {
    position: Index,
    character: char,
    kind: u8,
}

/// The choice of a new value.
#[derive(Clone, Debug)]
struct Replacement {
    choice: u8,
    value: Index,
}

/// Up to four edits of an object.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    vec(edit(), 1..=4)
}

fn edit() -> impl Strategy<Value = Edit> {
    let operation = prop_oneof![
        1 => any::<Index>().prop_map(Operation::Remove),
        1 => any::<Index>().prop_map(Operation::Duplicate),
        1 => any::<Index>().prop_map(Operation::Reorder),
        1 => (any::<Index>(), misspelling()).prop_map(|(field, change)| Operation::Misspell(field, change)),
        2 => Just(Operation::Replace),
    ];
    let replacement = (0..10_u8, any::<Index>()).prop_map(|(choice, value)| Replacement { choice, value });
    (any::<Index>(), any::<Index>(), operation, replacement).prop_map(|(target, source, operation, replacement)| Edit {
        target,
        source,
        operation,
        replacement,
    })
}

fn misspelling() -> impl Strategy<Value = Misspelling> {
    let characters = select(vec!['-', '.', '/', 'A', '0', '\u{e9}', '\u{1f980}', ' ', '~']);
    (any::<Index>(), characters, 0..3_u8).prop_map(|(position, character, kind)| Misspelling {
        position,
        character,
        kind,
    })
}

/// The object after the edits.
pub fn edited(object: &Value, edits: &[Edit]) -> Value {
    let mut object = object.clone();
    for edit in edits {
        let mut places = vec![];
        pointers(&object, "", &mut places);
        let Some(target) = pick(&edit.target, &places) else { continue };
        let source = pick(&edit.source, &places).and_then(|place| object.pointer(place)).cloned().unwrap_or_default();
        if let Some(target) = object.pointer_mut(target) {
            let value = edit.replacement.value(target, &source);
            edit.operation.apply(target, value);
        }
    }
    object
}

/// The item of an index, if there are items.
pub fn pick<'a, T>(index: &Index, items: &'a [T]) -> Option<&'a T> {
    (!items.is_empty()).then(|| index.get(items))
}

impl Operation {
    fn apply(&self, target: &mut Value, value: Value) {
        match (self, target) {
            (Self::Remove(index) | Self::Misspell(index, _), Value::Object(fields)) if !fields.is_empty() => {
                let key = fields.keys().nth(index.index(fields.len())).cloned();
                drop(key.and_then(|key| fields.remove(&key)));
            }
            (Self::Remove(index), Value::Array(items)) if !items.is_empty() => {
                drop(items.remove(index.index(items.len())));
            }
            (Self::Duplicate(index), Value::Array(items)) if !items.is_empty() => items.push(index.get(items).clone()),
            (Self::Reorder(index), Value::Array(items)) if items.len() > 1 => {
                let other = index.index(items.len());
                items.swap(0, other);
            }
            (Self::Reorder(_), Value::Object(fields)) => drop(fields.insert("tomorrow".to_owned(), value)),
            (Self::Misspell(_, change), Value::String(text)) => *text = change.applied(text),
            (_, target) => *target = value,
        }
    }
}

impl Misspelling {
    /// The text with one character removed, changed or inserted.
    fn applied(&self, text: &str) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        let at = self.position.index(characters.len() + 1);
        match self.kind {
            0 if at < characters.len() => drop(characters.remove(at)),
            1 if at < characters.len() => characters[at] = self.character,
            _ => characters.insert(at, self.character),
        }
        characters.into_iter().collect()
    }
}

fn pointers(value: &Value, path: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                pointers(field, &path, places);
                places.push(path);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}/{at}");
                pointers(item, &path, places);
                places.push(path);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Values at the limits of rules, by type.
struct Values {
    numbers: Vec<Value>,
    strings: Vec<Value>,
    others: Vec<Value>,
    all: Vec<Value>,
}

static VALUES: LazyLock<Values> = LazyLock::new(|| {
    let numbers = vec![json!(0), json!(-1), json!(1), json!(3), json!(257), json!(i32::MAX), json!(i32::MIN)];
    let odd_numbers = vec![json!(i64::MAX), json!(0.5), json!(u64::MAX)];
    let strings = [
        "",
        " ",
        "a.b",
        "none",
        "enabled",
        "rack",
        "host",
        "model",
        "front",
        "PerReplica",
        "CliqueStartupTypeExplicit",
        "CliqueStartupTypeInOrder",
        "99999999999999999999h",
        "\u{1f980}-\u{e9}",
        &"x".repeat(300),
    ];
    let strings: Vec<Value> = strings.into_iter().map(Value::from).collect();
    let others = vec![json!([]), json!({}), json!(true), json!(false), Value::Null];
    let all = [numbers.clone(), odd_numbers, strings.clone(), others.clone()].concat();
    Values { numbers, strings, others, all }
});

impl Replacement {
    /// A value at the limit of a rule, or the value of another place. It mostly has the type of the replaced value, because an
    /// object that cannot be parsed tests little.
    fn value(&self, replaced: &Value, source: &Value) -> Value {
        let Values { numbers, strings, others, all } = &*VALUES;
        let has_same_type = std::mem::discriminant(replaced) == std::mem::discriminant(source);
        let value = match (replaced, self.choice) {
            (_, 0) => pick(&self.value, all),
            (_, 1..5) if has_same_type => Some(source),
            (Value::Number(_), _) => pick(&self.value, numbers),
            (Value::String(_), _) => pick(&self.value, strings),
            (Value::Array(_), _) => Some(&others[0]),
            (Value::Object(_), _) => Some(&others[1]),
            (Value::Bool(_) | Value::Null, _) => pick(&self.value, others),
        };
        value.cloned().unwrap_or_default()
    }
}

/// One edit of bytes.
#[derive(Clone, Debug)]
pub struct ByteEdit {
    start: Index,
    end: Index,
    byte: u8,
    punctuation: u8,
    depth: usize,
    operation: u8,
}

/// Up to five edits of bytes: changed, duplicated, truncated and inserted bytes.
pub fn byte_edits() -> impl Strategy<Value = Vec<ByteEdit>> {
    let punctuation = select(b"{}[],:\"\\0-e".to_vec());
    let edit = (any::<Index>(), any::<Index>(), any::<u8>(), punctuation, 0..300_usize, 0..7_u8).prop_map(
        |(start, end, byte, punctuation, depth, operation)| ByteEdit {
            start,
            end,
            byte,
            punctuation,
            depth,
            operation,
        },
    );
    vec(edit, 1..=5)
}

/// The bytes after the edits.
pub fn edited_bytes(bytes: &[u8], edits: &[ByteEdit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits {
        let (start, end) = (edit.start.index(bytes.len() + 1), edit.end.index(bytes.len() + 1));
        match edit.operation {
            0 => bytes.truncate(start),
            1 if start < end => drop(bytes.drain(start..end)),
            2 if start < end => bytes.extend_from_within(start..end),
            3 => bytes.insert(start, edit.punctuation),
            4 => bytes.splice(start..start, b"[".repeat(edit.depth)).for_each(drop),
            _ if start < bytes.len() => bytes[start] = edit.byte,
            _ => bytes.push(edit.byte),
        }
    }
    bytes
}
