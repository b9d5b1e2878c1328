//! The operations of JSON patches (RFC 6902) that the plans contain. A path is a list of unescaped keys and positions.

use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation, jsonptr::PointerBuf};
use serde_json::Value;

/// The patch fails if the value at the path is another one.
pub fn test(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    PatchOperation::Test(TestOperation { path: pointer(path), value: value.into() })
}

/// Sets a field, or inserts an element into a list before the position; `-` is its end.
pub fn add(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: pointer(path), value: value.into() })
}

/// Replaces an existing value.
pub fn replace(path: &[&str], value: impl Into<Value>) -> PatchOperation {
    PatchOperation::Replace(ReplaceOperation { path: pointer(path), value: value.into() })
}

/// Removes an existing field or element.
pub fn remove(path: &[&str]) -> PatchOperation {
    PatchOperation::Remove(RemoveOperation { path: pointer(path) })
}

fn pointer(path: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}
