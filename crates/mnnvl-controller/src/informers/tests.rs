//! Random edits of one object affect no other object of its kind, and a cached set has no pod specs.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::mnnvl::required_domains;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::check_watched_kind;
use serde_json::json;

use super::drop_unread_fields;
use crate::replica_objects::{SlimClique, SlimPod};

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    let channel = json!({ "resourceClaimTemplate": { "name": "llm-0" }, "allocationMode": "Single" });
    let fields = json!({ "spec": { "numNodes": 0, "channel": channel }, "status": { "status": "Ready" } });
    check_watched_kind!(ComputeDomain, fields);
    check_watched_kind!(SlimClique, json!({ "spec": { "replicas": 2 } }));
    check_watched_kind!(SlimPod, json!({ "status": { "phase": "Running" } }));
}

#[test]
fn a_cached_set_has_no_pod_specs_and_needs_the_same_domains() {
    let clique = |name: &str, resources| {
        let container = json!({ "name": "main", "image": "secret-image", "resources": resources });
        let tolerations = vec![json!({ "key": "dense" }); 1000];
        let annotations = json!({ "grove.io/mnnvl-group": name });
        json!({ "name": name, "annotations": annotations, "spec": { "replicas": 1, "podSpec":
            { "containers": [container], "tolerations": tolerations } } })
    };
    let gpus = |kind: &str| json!({ kind: { "nvidia.com/gpu": "2" } });
    let cliques = [clique("limits", gpus("limits")), clique("requests", gpus("requests")), clique("none", json!({}))];
    let claims = [json!({ "name": "t", "templateSpec": { "spec": { "devices": {} } } })];
    let applied = json!({ "kubectl.kubernetes.io/last-applied-configuration": "secret-image" });
    let set: PodCliqueSet =
        serde_json::from_value(json!({ "metadata": { "name": "llm", "annotations": applied }, "spec":
        { "replicas": 2, "template": { "cliques": cliques, "resourceClaimTemplates": claims } } }))
        .expect("a set");
    let mut cached = set.clone();
    drop_unread_fields(&mut cached);
    assert_eq!(required_domains(&cached).count(), 4);
    assert!(required_domains(&cached).eq(required_domains(&set)));
    let text = serde_json::to_string(&cached).expect("JSON");
    assert!(!text.contains("dense") && !text.contains("secret-image") && !text.contains("devices"), "{text}");
    assert!(text.len() < 1000, "{} bytes: {text}", text.len());
}
