//! The schemas of Kubernetes' own types in Grove's CRDs, compared with those of the API server. The test reads the CRD of
//! sets. Another test shows that these types are the same in every CRD
//! (`fields_with_the_same_kubernetes_type_have_the_same_schema`).

use e2e::kubectl::kubectl;
use grove_api_types::crds::crds;
use serde_json::{Map, Value};

/// The `OpenAPI` schemas of an API server, by name.
struct Published(Map<String, Value>);

impl Published {
    async fn of(groups: &[&str]) -> Self {
        let mut all = Map::new();
        for group in groups {
            let text = kubectl(&["get", "--raw", &format!("/openapi/v3/{group}")], "").await.expect("OpenAPI");
            let document: Value = serde_json::from_str(&text).expect("JSON");
            all.extend(document["components"]["schemas"].as_object().expect("schemas").clone());
        }
        Self(all)
    }

    fn named(&self, name: &str) -> &Value {
        &self.0[name]
    }

    /// The schema, or the target of its reference.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        reference.and_then(|path| path.rsplit('/').next()).map_or(schema, |name| self.named(name))
    }
}

#[tokio::test]
async fn builtin_types_have_the_list_types_and_defaults_of_the_api_server() {
    let server = Published::of(&["api/v1", "apis/autoscaling/v2", "apis/resource.k8s.io/v1"]).await;
    let definition = serde_json::to_value(&crds()[0].spec.versions[0].schema).expect("a schema");
    let template = &definition["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]["properties"];
    let clique = &template["cliques"]["items"]["properties"]["spec"]["properties"];
    let metric = &clique["autoScalingConfig"]["properties"]["metrics"]["items"];
    let claim = &template["resourceClaimTemplates"]["items"]["properties"]["templateSpec"]["properties"]["spec"];
    let mut differences = Vec::new();
    compare(&server, server.named("io.k8s.api.core.v1.PodSpec"), &clique["podSpec"], "podSpec", &mut differences);
    compare(&server, server.named("io.k8s.api.autoscaling.v2.MetricSpec"), metric, "metric", &mut differences);
    compare(&server, server.named("io.k8s.api.resource.v1.ResourceClaimSpec"), claim, "claim", &mut differences);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Collects the parts of `theirs` that `ours` lacks. Ours may have fields of a newer Kubernetes.
fn compare(server: &Published, theirs: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    let resolved = server.resolve(theirs);
    let mut differ = |what: &str, theirs: &Value, ours: &Value| {
        if theirs != ours {
            differences.push(format!("{path}: {what}: {theirs} in the API server, {ours} in the CRD"));
        }
    };
    differ("type", &resolved["type"], &ours["type"]);
    differ("list type", &list_type(resolved), &list_type(ours));
    differ("keys", &resolved["x-kubernetes-list-map-keys"], &ours["x-kubernetes-list-map-keys"]);
    differ("map type", &resolved["x-kubernetes-map-type"], &ours["x-kubernetes-map-type"]);
    if let Some(default) = theirs.get("default").filter(|default| is_real_default(default)) {
        differ("default", default, &ours["default"]);
    }
    // A field with a default may be omitted.
    let is_required = |schema: &Value, name: &str| {
        let required = schema["required"].as_array().is_some_and(|required| required.contains(&name.into()));
        required && schema["properties"][name].get("default").is_none_or(|default| !is_real_default(default))
    };
    for name in resolved["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        differ(&format!("{name} is required"), &is_required(resolved, name).into(), &is_required(ours, name).into());
    }
    for (name, field) in resolved["properties"].as_object().into_iter().flatten() {
        match ours["properties"].get(name) {
            Some(known) => compare(server, field, known, &format!("{path}.{name}"), differences),
            None => differences.push(format!("{path}.{name}: the CRD lacks it")),
        }
    }
    for (within, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if resolved[within].is_object() {
            compare(server, &resolved[within], &ours[within], &format!("{path}{step}"), differences);
        }
    }
}

/// The default list type is atomic.
fn list_type(schema: &Value) -> Value {
    let list_type = &schema["x-kubernetes-list-type"];
    if schema["type"] == "array" && list_type.is_null() { "atomic".into() } else { list_type.clone() }
}

/// The API server publishes the zero value as the default of each field that is no pointer in Go. That is no default.
fn is_real_default(default: &Value) -> bool {
    !matches!(default, Value::String(text) if text.is_empty())
        && default != &Value::from(0)
        && default != &Value::from(false)
        && default != &Value::Object(Map::new())
}
