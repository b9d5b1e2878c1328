//! The JSON values of annotations by which services communicate. Each value has the version of its format in the field `v`; a value without
//! it has version 1, because services wrote none before. [The page about the interface] lists the values, their writers and their readers.
//!
//! [The page about the interface]: ../../../docs/interface.md

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::labels::{PACK_AFFINITY, POD_GROUP_SPEC, RESOURCE_CLAIMS, SCALE, UPDATE_BOUNDS};

/// The annotations with such values.
pub const KEYS: [&str; 5] = [PACK_AFFINITY, RESOURCE_CLAIMS, POD_GROUP_SPEC, SCALE, UPDATE_BOUNDS];
/// The version of the values that this version of Grove writes, and the only one that it reads.
const VERSION: u64 = 1;
/// The field of a value that contains its version.
const VERSION_FIELD: &str = "v";
/// A message contains at most this many characters about the content of a value.
const MAX_DETAIL: usize = 200;

/// An annotation with a value that the reader must not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableAnnotation {
    key: &'static str,
    cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// The annotation does not exist, and another one requires it.
    Missing,
    /// The value is not in the format of the annotation.
    Invalid(String),
    /// A newer writer wrote the value.
    LaterVersion(u64),
}

impl UnreadableAnnotation {
    pub(crate) fn missing(key: &'static str) -> Self {
        Self { key, cause: Cause::Missing }
    }

    pub(crate) fn invalid(key: &'static str, detail: &str) -> Self {
        Self { key, cause: Cause::Invalid(detail.chars().take(MAX_DETAIL).collect()) }
    }

    /// Whether a newer writer wrote the value. The writer of this version does not replace such a value if it is a record.
    pub fn is_of_later_version(&self) -> bool {
        matches!(self.cause, Cause::LaterVersion(_))
    }

    /// The message for users: the annotation, the cause and the remedy. `reader` is the service that reads the annotation.
    pub fn message(&self, reader: &str) -> String {
        let key = self.key;
        let restored = format!(
            "pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of {reader}"
        );
        match &self.cause {
            Cause::Missing => format!("annotation {key} is missing; {restored}"),
            Cause::Invalid(detail) => format!("annotation {key} cannot be decoded: {detail}; {restored}"),
            Cause::LaterVersion(version) => format!(
                "annotation {key} has version {version}, and this {reader} reads only version {VERSION}; upgrade {reader}, or remove the \
                 annotation, so that the running pcs-controller writes it again"
            ),
        }
    }
}

/// Only the version of a value.
#[derive(Deserialize)]
struct Version {
    #[serde(default = "first_version")]
    v: u64,
}

fn first_version() -> u64 {
    1
}

/// A value with its version.
#[derive(Serialize)]
struct ValueWithVersion<'a, T> {
    v: u64,
    #[serde(flatten)]
    value: &'a T,
}

/// The value of an annotation as text.
pub(crate) fn encode<T: Serialize>(value: &T) -> String {
    serde_json::to_string(&ValueWithVersion { v: VERSION, value }).unwrap_or_default()
}

/// The value in the text of the annotation `key`.
///
/// # Errors
/// If the value has a later version, or is not in the format of the annotation.
pub(crate) fn decode<T: DeserializeOwned>(key: &'static str, text: &str) -> Result<T, UnreadableAnnotation> {
    // serde also decodes a struct from a list, and an empty list would then be a value without any field.
    if !text.trim_start().starts_with('{') {
        return Err(UnreadableAnnotation::invalid(key, "it is not a JSON object"));
    }
    let invalid = |error: serde_json::Error| UnreadableAnnotation::invalid(key, &error.to_string());
    match serde_json::from_str::<Version>(text).map_err(invalid)?.v {
        VERSION => serde_json::from_str(text).map_err(invalid),
        0 => Err(UnreadableAnnotation::invalid(key, "there is no version 0")),
        later => Err(UnreadableAnnotation { key, cause: Cause::LaterVersion(later) }),
    }
}

/// Whether two values of an annotation are equal. A value without a version equals the same value with version 1, so that an upgrade
/// rewrites no annotation and replaces no pod.
pub fn is_equal(one: &str, other: &str) -> bool {
    let parse = |text: &str| {
        let mut fields: Map<String, Value> = serde_json::from_str(text).ok()?;
        fields.entry(VERSION_FIELD).or_insert_with(|| first_version().into());
        Some(fields)
    };
    one == other || parse(one).is_some_and(|fields| parse(other) == Some(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "grove.io/some";

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Sample {
        keys: Vec<String>,
    }

    fn read(text: &str) -> Result<Sample, UnreadableAnnotation> {
        decode(KEY, text)
    }

    #[test]
    fn a_value_has_a_version_and_without_one_it_has_the_first() {
        let value = || Sample { keys: vec!["a".to_owned()] };
        assert_eq!(encode(&value()), r#"{"v":1,"keys":["a"]}"#);
        for text in [r#"{"v":1,"keys":["a"]}"#, r#"{"keys":["a"]}"#, r#" {"keys":["a"],"other":7,"v":1}"#] {
            assert_eq!(read(text), Ok(value()), "{text}");
        }
    }

    #[test]
    fn a_later_version_is_an_error_also_if_the_value_has_the_format_of_this_one() {
        for text in [r#"{"v":2,"keys":["a"]}"#, r#"{"keys":7,"v":2}"#] {
            let error = read(text).expect_err(text);
            assert!(error.is_of_later_version(), "{text}");
            assert_eq!(
                error.message("pclq-controller"),
                "annotation grove.io/some has version 2, and this pclq-controller reads only version 1; upgrade pclq-controller, or remove \
                 the annotation, so that the running pcs-controller writes it again"
            );
        }
    }

    #[test]
    fn a_value_in_another_format_is_an_error() {
        for text in ["", " ", "[", "[]", "null", "7", "{", "{\"keys\":7}", "{\"v\":0}", "{\"v\":-1}", "{\"v\":\"2\"}"] {
            let error = read(text).expect_err(text);
            assert!(!error.is_of_later_version(), "{text}");
            let message = error.message("webhook-server");
            assert!(message.starts_with("annotation grove.io/some cannot be decoded: "), "{message}");
            assert!(message.contains("; pcs-controller restores it; if it does not, check that"), "{message}");
        }
        let long = UnreadableAnnotation::invalid(KEY, &"x".repeat(100_000)).message("r");
        assert!(long.len() < 1000, "{}", long.len());
        let missing = UnreadableAnnotation::missing(KEY).message("r");
        assert!(missing.starts_with("annotation grove.io/some is missing; pcs-controller restores it"), "{missing}");
    }

    #[test]
    fn values_are_equal_with_and_without_the_first_version() {
        for (one, other, expected) in [
            (r#"{"keys":["a"]}"#, r#"{"v":1,"keys":["a"]}"#, true),
            (r#"{"v":1}"#, "{}", true),
            (r#"{"v":2}"#, "{}", false),
            (r#"{"keys":["a"]}"#, r#"{"v":1,"keys":["b"]}"#, false),
            (r#"{"keys":["a"],"other":7}"#, r#"{"v":1,"keys":["a"]}"#, false),
            ("", "", true),
            ("", "{}", false),
            ("[", "[", true),
            ("[", "{}", false),
            ("[", "]", false),
        ] {
            assert_eq!(is_equal(one, other), expected, "{one} {other}");
            assert_eq!(is_equal(other, one), expected, "{other} {one}");
        }
    }
}
