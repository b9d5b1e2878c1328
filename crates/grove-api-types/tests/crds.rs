//! The definitions: small enough for a plain `kubectl apply`, and of schemas that an API server accepts.

#![allow(clippy::expect_used, reason = "whatever fails here fails the test")]

use grove_api_types::crds::crds;
use serde_json::Value;

/// Half of what `kubectl apply` can carry in its annotation; see the architecture's bar of 200 KB.
const LIMIT: usize = 200_000;

#[test]
fn each_definition_stays_below_the_limit() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).expect("a definition serialises").len();
        assert!(size < LIMIT, "{:?} has {size} bytes", crd.metadata.name);
    }
}

#[test]
fn every_field_of_a_pod_has_a_type() {
    for crd in crds() {
        let root = serde_json::to_value(&crd.spec.versions[0].schema).expect("a schema");
        let untyped = untyped(&root["openAPIV3Schema"], "");
        assert!(untyped.is_empty(), "{:?}: {untyped:?}", crd.metadata.name);
    }
}

fn untyped(schema: &Value, path: &str) -> Vec<String> {
    let excused = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    let typed = schema.get("type").is_some() || excused.iter().any(|key| schema.get(*key).is_some());
    let here = (!typed).then(|| path.to_owned());
    let properties = schema["properties"].as_object().into_iter().flatten();
    let below = properties.flat_map(|(name, property)| untyped(property, &format!("{path}.{name}")));
    let items = schema.get("items").map(|items| untyped(items, &format!("{path}[]"))).unwrap_or_default();
    here.into_iter().chain(below).chain(items).collect()
}

#[test]
fn a_pod_spec_knows_the_fields_of_the_newest_kubernetes() {
    let text = serde_json::to_string(&crds()[1]).expect("a definition serialises");
    for field in ["schedulingGroup", "hostnameOverride", "resourceClaims", "nvidia", "terminationGracePeriodSeconds"] {
        assert_eq!(text.contains(&format!("\"{field}\"")), field != "nvidia", "{field}");
    }
}
