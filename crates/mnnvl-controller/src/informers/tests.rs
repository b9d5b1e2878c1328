//! Random edits of one object affect no other object of its kind.

use grove_api_types::compute_domain::ComputeDomain;
use grove_test_support::check_watched_kind;
use serde_json::json;

use crate::replica_objects::{SlimClique, SlimPod};

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    let channel = json!({ "resourceClaimTemplate": { "name": "llm-0" }, "allocationMode": "Single" });
    let fields = json!({ "spec": { "numNodes": 0, "channel": channel }, "status": { "status": "Ready" } });
    check_watched_kind!(ComputeDomain, fields);
    check_watched_kind!(SlimClique, json!({ "spec": { "replicas": 2 } }));
    check_watched_kind!(SlimPod, json!({ "status": { "phase": "Running" } }));
}
