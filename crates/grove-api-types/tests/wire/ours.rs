//! The statements of the CRDs.

use serde_json::Value;

use super::{Statements, crds};

/// Fields with a type of Kubernetes.
const KUBERNETES_TYPES: [(&str, &str); 3] = [
    (".podSpec", "core/v1 PodSpec"),
    (".metrics[]", "autoscaling/v2 MetricSpec"),
    (".templateSpec", "resource.k8s.io/v1 ResourceClaimTemplateSpec"),
];
/// Fields of all objects of Kubernetes.
const OF_ALL_KINDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub(crate) fn statements() -> Statements {
    crds().iter().flat_map(of_kind).collect()
}

fn of_kind(crd: &Value) -> Vec<(String, String)> {
    let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let names = &spec["names"];
    let kind = text(&names["kind"]);
    let (plural, singular) = (text(&names["plural"]), text(&names["singular"]));
    let (group, name, scope) = (text(&spec["group"]), text(&version["name"]), text(&spec["scope"]));
    let short_names: Vec<_> = names["shortNames"].as_array().into_iter().flatten().map(text).collect();
    let scale = &version["subresources"]["scale"];
    let paths = ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"].map(|path| text(&scale[path]));
    let mut all = vec![
        (kind.clone(), format!("is {plural}, {singular} of {group}/{name}, {scope}")),
        (kind.clone(), format!("short names {short_names:?}")),
        (
            kind.clone(),
            format!("status {}", if version["subresources"]["status"].is_null() { "none" } else { "subresource" }),
        ),
        (kind.clone(), if scale.is_null() { "scale none".to_owned() } else { format!("scale {}", paths.join(" ")) }),
    ];
    for (at, column) in version["additionalPrinterColumns"].as_array().into_iter().flatten().enumerate() {
        let wide = if column["priority"] == 1 { " wide" } else { "" };
        let [name, type_, path] = ["name", "type", "jsonPath"].map(|field| text(&column[field]));
        all.push((kind.clone(), format!("column {at} {name} {type_} {path}{wide}")));
    }
    let mut root = version["schema"]["openAPIV3Schema"].clone();
    root["properties"].as_object_mut().expect("fields").retain(|name, _| !OF_ALL_KINDS.contains(&name.as_str()));
    of_field(&mut all, &format!("{kind} "), &root);
    all
}

fn of_field(all: &mut Vec<(String, String)>, path: &str, schema: &Value) {
    if let Some((_, kubernetes_type)) = KUBERNETES_TYPES.iter().find(|(end, _)| path.ends_with(end)) {
        all.push((path.to_owned(), (*kubernetes_type).to_owned()));
        of_kubernetes_type(all, path, schema);
        return;
    }
    all.extend(of_schema(schema).into_iter().map(|statement| (path.to_owned(), statement)));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.ends_with(' ') { [path, name].concat() } else { [path, ".", name].concat() };
        if schema["required"].as_array().is_some_and(|required| required.contains(&name.as_str().into())) {
            all.push((path.clone(), "required".to_owned()));
        }
        of_field(all, &path, field);
    }
    if schema["items"].is_object() {
        of_field(all, &[path, "[]"].concat(), &schema["items"]);
    }
    if schema["additionalProperties"].is_object() {
        of_field(all, &[path, "{}"].concat(), &schema["additionalProperties"]);
    }
}

/// The statements about Kubernetes' own types: the known fields of pods, list types, and defaults.
fn of_kubernetes_type(all: &mut Vec<(String, String)>, path: &str, schema: &Value) {
    let name = if path.ends_with(".podSpec") {
        let fields = schema["properties"].as_object().expect("a pod spec has fields").keys();
        all.extend(fields.map(|field| (format!("PodSpec {field}"), "known".to_owned())));
        "PodSpec "
    } else if path.ends_with(".templateSpec") {
        let fields = schema["properties"]["metadata"]["properties"].as_object().into_iter().flat_map(|all| all.keys());
        all.extend(fields.map(|field| (format!("ClaimTemplate metadata.{field}"), "known".to_owned())));
        "ClaimTemplate "
    } else {
        return;
    };
    let mut within = Vec::new();
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        of_field(&mut within, &[name, field].concat(), schema);
    }
    let prefixes = ["keyed by ", "a set", "atomic", "default ", "preserves "];
    within.retain(|(_, statement)| prefixes.iter().any(|prefix| statement.starts_with(prefix)));
    let containers =
        |path: String| path.replace("initContainers", "containers").replace("ephemeralContainers", "containers");
    all.extend(within.into_iter().map(|(path, statement)| (containers(path), statement)));
}

fn of_schema(schema: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is = |field: &str| schema.get(field).filter(|value| !value.is_null());
    let mut statements = vec![kind_of(schema)];
    statements.extend(is("default").map(|value| format!("default {}", text(value))));
    if let Some(values) = schema["enum"].as_array() {
        let mut values: Vec<_> = values.iter().map(text).collect();
        values.sort_unstable();
        statements.push(format!("one of {}", values.join(" ")));
    }
    statements.extend(range(schema, "length", "minLength", "maxLength"));
    statements.extend(range(schema, "items", "minItems", "maxItems"));
    statements.extend(is("pattern").map(|pattern| format!("pattern {}", text(pattern))));
    statements.extend(schema["minimum"].as_f64().map(|least| format!("at least {least}")));
    statements.extend(schema["maximum"].as_f64().map(|most| format!("at most {most}")));
    statements.extend(is("nullable").map(|_| "nullable".to_owned()));
    statements.extend(is("x-kubernetes-preserve-unknown-fields").map(|_| "preserves unknown fields".to_owned()));
    match schema["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().expect("keys").iter().map(text);
            statements.push(format!("keyed by {}", keys.collect::<Vec<_>>().join(" ")));
        }
        Some("set") => statements.push("a set".to_owned()),
        Some(other) => statements.push(other.to_owned()),
        None => {}
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let or = |field: &str, other: &str| rule[field].as_str().unwrap_or(other).to_owned();
        let reason = or("reason", "FieldValueInvalid");
        statements.push(format!("rule {} {reason} {}", or("fieldPath", "."), or("message", "without a message")));
    }
    statements
}

fn kind_of(schema: &Value) -> String {
    let format = schema["format"].as_str().filter(|format| *format != "double");
    match (schema["type"].as_str(), format) {
        (Some("array"), _) => "list".to_owned(),
        (Some("object"), _) if schema["additionalProperties"].is_object() => "map".to_owned(),
        (_, Some(format)) => format.to_owned(),
        (Some(type_), None) => type_.to_owned(),
        (None, None) => "untyped".to_owned(),
    }
}

fn range(schema: &Value, what: &str, least: &str, most: &str) -> Option<String> {
    let (least, most) = (schema[least].as_i64(), schema[most].as_i64());
    let most = most.map(|most| most.to_string()).or(least.map(|_| "any".to_owned()))?;
    Some(format!("{what} {} to {most}", least.unwrap_or_default()))
}
