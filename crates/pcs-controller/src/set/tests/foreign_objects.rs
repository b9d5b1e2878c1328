//! Services and autoscalers of other programs: only their metadata is decoded.

use grove_runtime::object_decoding::decode;
use serde_json::{Value, json};

use crate::set::desired::{SlimAutoscaler, SlimService};

fn object(metadata: &Value, spec: &Value) -> String {
    json!({ "metadata": metadata, "spec": spec, "status": { "conditions": 7 } }).to_string()
}

#[test]
fn only_the_metadata_of_a_foreign_object_is_decoded() {
    let metadata = json!({ "name": "a", "labels": { "app": "x" }, "annotations": { "large": "text" } });
    let service: SlimService = decode(&object(&metadata, &json!({ "ports": "invalid" }))).expect("a Service");
    assert_eq!((service.metadata.name.as_deref(), service.spec), (Some("a"), None));
    assert_eq!((service.metadata.labels.map(|labels| labels.len()), service.metadata.annotations), (Some(1), None));
    let autoscaler: SlimAutoscaler =
        decode(&object(&metadata, &json!({ "maxReplicas": "invalid" }))).expect("metadata");
    assert_eq!((autoscaler.metadata.name.as_deref(), autoscaler.spec.max_replicas), (Some("a"), 0));
}

#[test]
fn the_spec_of_an_object_with_labels_that_other_programs_set_is_not_decoded() {
    for labels in [
        json!({ "app.kubernetes.io/part-of": "llm" }),
        json!({ "app.kubernetes.io/part-of": "llm", "app.kubernetes.io/managed-by": "Helm" }),
    ] {
        let metadata = json!({ "name": "a", "labels": labels });
        let service: SlimService = decode(&object(&metadata, &json!({ "ports": "invalid" }))).expect("metadata");
        assert_eq!(service.spec, None, "{metadata}");
    }
}

#[test]
fn the_spec_of_an_object_with_the_label_of_grove_or_a_set_as_controller_is_decoded() {
    let labels = |manager: &str| json!({ "app.kubernetes.io/managed-by": manager });
    let labelled = json!({ "name": "a", "labels": labels("grove-operator"), "annotations": { "k": "v" } });
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "llm", "uid": "u" });
    let mut controlled = json!({ "name": "a", "labels": labels("edited"), "ownerReferences": [owner] });
    controlled["ownerReferences"][0]["controller"] = json!(true);
    for metadata in [labelled, controlled] {
        let spec = json!({ "clusterIP": "None" });
        let service: SlimService = decode(&object(&metadata, &spec)).expect("a Service");
        assert_eq!(service.spec.and_then(|spec| spec.cluster_ip).as_deref(), Some("None"));
        assert!(decode::<SlimService>(&object(&metadata, &json!({ "ports": "invalid" }))).is_err());
        let spec = json!({ "maxReplicas": 2, "scaleTargetRef": { "kind": "ReplicationController", "name": "web" } });
        let autoscaler: SlimAutoscaler = decode(&object(&metadata, &spec)).expect("an autoscaler");
        assert_eq!((autoscaler.spec.max_replicas, autoscaler.spec.scale_target_ref.api_version.as_str()), (2, ""));
    }
}
