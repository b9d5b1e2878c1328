//! Compares the CRDs with the wire format, field by field. Both sides are lists of statements (`PodClique spec.replicas:
//! required`). `differences.yaml` lists each statement of only one side, with a reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

mod differences;
mod documented;
mod ours;

/// The statements of one side about fields and kinds: `Kind path`, and the statement.
type Statements = BTreeSet<(String, String)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).expect("the file exists");
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn crds() -> Vec<Value> {
    let to_json = |crd| serde_json::to_value(crd).expect("a CRD can be serialized");
    grove_api_types::crds::crds().iter().map(to_json).collect()
}
