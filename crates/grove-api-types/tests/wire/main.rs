//! The definitions against the wire format, field by field. Both sides are told as statements (`PodClique
//! spec.replicas: required`); what only one side states must be listed, with the reason, in `differences.yaml`.

#![allow(clippy::expect_used, clippy::panic, reason = "whatever fails here fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

mod differences;
mod ours;

mod wire;

/// What one side says of a field, or of a kind as a whole: `Kind path: statement`.
type Statements = BTreeSet<(String, String)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).expect("the file is there");
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn definitions() -> Vec<Value> {
    let definition = |crd| serde_json::to_value(crd).expect("a definition serialises");
    grove_api_types::crds::crds().iter().map(definition).collect()
}
