//! Reads JSON as canonical text: without spaces, and with sorted fields. No tree of maps is built.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Whether the text contains the fields of objects that are null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    Retained,
    Omitted,
}

/// The canonical text of an object.
pub(crate) fn canonical_text<'de, D: Deserializer<'de>>(from: D, nulls: Nulls) -> Result<String, D::Error> {
    let mut text = Vec::new();
    from.deserialize_map(ObjectVisitor(ValueWriter { text: &mut text, nulls }))?;
    String::from_utf8(text).map_err(D::Error::custom)
}

/// Writes any value.
struct ValueWriter<'a> {
    text: &'a mut Vec<u8>,
    nulls: Nulls,
}

impl ValueWriter<'_> {
    fn write<E: Error>(self, value: impl Serialize) -> Result<(), E> {
        serde_json::to_writer(self.text, &value).map_err(E::custom)
    }

    fn next(&mut self) -> ValueWriter<'_> {
        ValueWriter { text: self.text, nulls: self.nulls }
    }

    fn write_object<'de, A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        let begin = self.text.len();
        let mut fields: Vec<(String, Range<usize>)> = Vec::new();
        self.text.push(b'{');
        while let Some(name) = object.next_key::<String>()? {
            let separator = self.text.len();
            if !fields.is_empty() {
                self.text.push(b',');
            }
            let field = self.text.len();
            self.next().write(&name)?;
            self.text.push(b':');
            let value = self.text.len();
            object.next_value_seed(self.next())?;
            if self.nulls == Nulls::Omitted && self.text[value..] == *b"null" {
                self.text.truncate(separator);
            } else {
                fields.push((name, field..self.text.len()));
            }
        }
        self.text.push(b'}');
        if !fields.is_sorted_by(|(name, _), (next, _)| name < next) {
            let sorted = sorted_object(self.text, fields);
            self.text.truncate(begin);
            self.text.extend(sorted);
        }
        Ok(())
    }
}

/// The object with its fields in the order of their names. Of several fields of one name the last one counts, as in a map.
fn sorted_object(text: &[u8], mut fields: Vec<(String, Range<usize>)>) -> Vec<u8> {
    fields.reverse();
    fields.sort_by(|(name, _), (other, _)| name.cmp(other));
    fields.dedup_by(|(name, _), (first, _)| name == first);
    let fields: Vec<_> = fields.into_iter().map(|(_, field)| &text[field]).collect();
    [b"{", &*fields.join(&b','), b"}"].concat()
}

impl<'de> DeserializeSeed<'de> for ValueWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.write(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write(())
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.write(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.text.push(b'[');
        let first = self.text.len();
        loop {
            let separator = self.text.len();
            if separator > first {
                self.text.push(b',');
            }
            if list.next_element_seed(self.next())?.is_none() {
                self.text.truncate(separator);
                break;
            }
        }
        self.text.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        self.write_object(object)
    }
}

/// Writes an object. Any other value is an error.
struct ObjectVisitor<'a>(ValueWriter<'a>);

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        self.0.write_object(object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn text(json: &str, nulls: Nulls) -> String {
        canonical_text(&mut serde_json::Deserializer::from_str(json), nulls).unwrap()
    }

    #[test]
    fn fields_are_sorted_and_the_last_one_of_a_name_counts() {
        let json = r#" { "b" : [ 1, -2, 0.50, true, null, "\u0041\n" ], "a": { "d": {}, "c": [] }, "b\"": 1, "a": [{"y":1,"x":2}] } "#;
        let expected = r#"{"a":[{"x":2,"y":1}],"b":[1,-2,0.5,true,null,"A\n"],"b\"":1}"#;
        assert_eq!(text(json, Nulls::Retained), expected);
        assert_eq!(text("{}", Nulls::Retained), "{}");
    }

    #[test]
    fn only_fields_that_are_null_are_omitted() {
        let json = r#"{"b":null,"a":{"c":null},"l":[null,{"d":null,"e":"null"}],"z":null}"#;
        assert_eq!(text(json, Nulls::Omitted), r#"{"a":{},"l":[null,{"e":"null"}]}"#);
        assert_eq!(
            text(json, Nulls::Retained),
            r#"{"a":{"c":null},"b":null,"l":[null,{"d":null,"e":"null"}],"z":null}"#
        );
    }

    #[test]
    fn only_an_object_has_a_text() {
        for json in ["[]", "5", "null", r#""{}""#, r#"{"a":}"#] {
            let from = &mut serde_json::Deserializer::from_str(json);
            assert!(canonical_text(from, Nulls::Retained).is_err(), "{json}");
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let fields = prop::collection::vec((".{0,2}", inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        /// The text is that of the tree of the same value.
        #[test]
        fn the_text_is_that_of_the_tree(value in json_value()) {
            let object = json!({ "value": value });
            let of_text = text(&object.to_string(), Nulls::Retained);
            let tree: Value = serde_json::from_str(&object.to_string()).unwrap();
            prop_assert_eq!(&of_text, &tree.to_string());
            prop_assert_eq!(canonical_text(object.clone(), Nulls::Retained).unwrap(), object.to_string());
        }
    }
}
