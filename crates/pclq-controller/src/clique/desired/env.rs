//! The environment variables that Grove puts before a container's own, in the documented order.

use grove_api_types::labels;
use grove_api_types::names::HeadlessServiceName;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::clique::observed::{Lineage, Observed};

/// The variables of every container of the clique's pods. Kubernetes expands `$(NAME)` in list order, so they come
/// first and in this order.
pub(super) fn variables(seen: &Observed, lineage: &Lineage) -> Vec<Value> {
    let namespace = seen.clique.namespace().unwrap_or_default();
    let service = HeadlessServiceName::of_replica(&lineage.set, lineage.replica);
    let literal = |name: &str, value: String| json!({ "name": name, "value": value });
    let index_path = format!("metadata.labels['{}']", labels::POD_INDEX);
    vec![
        literal("GROVE_PCS_NAME", lineage.set.to_string()),
        literal("GROVE_PCS_INDEX", lineage.replica.to_string()),
        literal("GROVE_PCLQ_NAME", seen.name().to_string()),
        literal("GROVE_HEADLESS_SERVICE", service.address(&namespace)),
        json!({ "name": "GROVE_PCLQ_POD_INDEX", "valueFrom": { "fieldRef": { "fieldPath": index_path } } }),
    ]
}

/// Puts `variables` before those of every container and init container; the names are Grove's, so a container's own
/// variable of such a name goes.
pub(super) fn inject(spec: &mut Map<String, Value>, variables: &[Value]) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let own = container.get_mut("env").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            let kept =
                own.into_iter().filter(|variable| !variables.iter().any(|ours| ours["name"] == variable["name"]));
            let env: Vec<_> = variables.iter().cloned().chain(kept).collect();
            container.insert("env".into(), env.into());
        }
    }
}
