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

/// Every schema within a definition, with its path.
fn schemas(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), schema.clone()));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        schemas(property, &format!("{path}.{name}"), found);
    }
    for (field, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[field].is_object() {
            schemas(&schema[field], &format!("{path}{step}"), found);
        }
    }
}

/// Every schema of all definitions, with its path from the kind.
fn all_schemas() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for crd in crds() {
        let root = serde_json::to_value(&crd.spec.versions[0].schema).expect("a schema");
        schemas(&root["openAPIV3Schema"], &crd.spec.names.kind, &mut found);
    }
    found
}

/// The paths of the schemas of all definitions for which `wrong` holds.
fn wrong(wrong: impl Fn(&Value) -> bool) -> Vec<String> {
    all_schemas().into_iter().filter(|(_, schema)| wrong(schema)).map(|(path, _)| path).collect()
}

#[test]
fn every_field_has_a_type() {
    let excused = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    let typed = |schema: &Value| ["type"].iter().chain(&excused).any(|key| schema.get(*key).is_some());
    assert_eq!(wrong(|schema| !typed(schema)), Vec::<String>::new());
}

#[test]
fn no_field_takes_a_null() {
    assert_eq!(wrong(|schema| schema.get("nullable").is_some()), Vec::<String>::new());
}

#[test]
fn the_keys_of_lists_are_always_there() {
    let may_be_absent = |items: &Value, key: &Value| {
        let key = key.as_str().expect("a key is a name");
        let required = items["required"].as_array().is_some_and(|required| required.contains(&key.into()));
        !required && items["properties"][key].get("default").is_none()
    };
    let wrong = wrong(|schema| {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        keys.into_iter().flatten().any(|key| may_be_absent(&schema["items"], key))
    });
    assert_eq!(wrong, Vec::<String>::new());
}

/// Whatever is compared of one of them, with the API server's own for example, holds for all.
#[test]
fn what_is_kubernetes_own_is_the_same_wherever_it_stands() {
    for (field, places) in [
        (".podSpec", ["PodClique.spec.podSpec", "PodCliqueSet.spec.template.cliques[].spec.podSpec"].as_slice()),
        (
            ".metrics",
            &[
                "PodClique.spec.autoScalingConfig.metrics",
                "PodCliqueSet.spec.template.cliques[].spec.autoScalingConfig.metrics",
                "PodCliqueSet.spec.template.podCliqueScalingGroups[].scaleConfig.metrics",
            ],
        ),
    ] {
        let mut found: Vec<(String, Value)> =
            all_schemas().into_iter().filter(|(path, _)| path.ends_with(field)).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, places);
        for (path, schema) in &found[1..] {
            // Schemas of thousands of lines are not printed.
            assert!(*schema == found[0].1, "{path} is not as {}", found[0].0);
        }
    }
}

#[test]
fn a_pod_spec_knows_the_fields_of_the_newest_kubernetes() {
    let text = serde_json::to_string(&crds()[1]).expect("a definition serialises");
    for field in ["schedulingGroup", "hostnameOverride", "resourceClaims", "nvidia", "terminationGracePeriodSeconds"] {
        assert_eq!(text.contains(&format!("\"{field}\"")), field != "nvidia", "{field}");
    }
}
