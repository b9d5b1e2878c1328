//! The schemas of Kubernetes' own types within our definitions, against what the API server says of its own. Those of sets
//! stand for all: that they are the same wherever they stand is a test of the definitions
//! (`what_is_kubernetes_own_is_the_same_wherever_it_stands`).

use e2e::kubectl::kubectl;
use grove_api_types::crds::crds;
use serde_json::{Map, Value};

/// The schemas that an API server publishes, by name.
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

    /// The schema itself, where `schema` only refers to it.
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

/// Notes where `ours` lacks what `theirs` has. Ours may have more: fields of a newer Kubernetes.
fn compare(server: &Published, theirs: &Value, ours: &Value, path: &str, differences: &mut Vec<String>) {
    let resolved = server.resolve(theirs);
    let mut differ = |what: &str, theirs: &Value, ours: &Value| {
        if theirs != ours {
            differences.push(format!("{path}: {what}: the server says {theirs}, ours says {ours}"));
        }
    };
    differ("type", &resolved["type"], &ours["type"]);
    differ("list type", &list_type(resolved), &list_type(ours));
    differ("keys", &resolved["x-kubernetes-list-map-keys"], &ours["x-kubernetes-list-map-keys"]);
    differ("map type", &resolved["x-kubernetes-map-type"], &ours["x-kubernetes-map-type"]);
    if let Some(default) = theirs.get("default").filter(|default| says_something(default)) {
        differ("default", default, &ours["default"]);
    }
    // A field with a default need not be written.
    let is_required = |schema: &Value, name: &str| {
        let required = schema["required"].as_array().is_some_and(|required| required.contains(&name.into()));
        required && schema["properties"][name].get("default").is_none_or(|default| !says_something(default))
    };
    for name in resolved["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        differ(&format!("{name} is required"), &is_required(resolved, name).into(), &is_required(ours, name).into());
    }
    for (name, field) in resolved["properties"].as_object().into_iter().flatten() {
        match ours["properties"].get(name) {
            Some(known) => compare(server, field, known, &format!("{path}.{name}"), differences),
            None => differences.push(format!("{path}.{name}: is unknown to ours")),
        }
    }
    for (within, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if resolved[within].is_object() {
            compare(server, &resolved[within], &ours[within], &format!("{path}{step}"), differences);
        }
    }
}

/// A list of no said type is replaced as a whole.
fn list_type(schema: &Value) -> Value {
    let said = &schema["x-kubernetes-list-type"];
    if schema["type"] == "array" && said.is_null() { "atomic".into() } else { said.clone() }
}

/// The server gives every field that is no pointer in Go a default, which says nothing.
fn says_something(default: &Value) -> bool {
    !matches!(default, Value::String(text) if text.is_empty())
        && default != &Value::from(0)
        && default != &Value::from(false)
        && default != &Value::Object(Map::new())
}
