//! Adds what k8s-openapi omits in the schemas of Kubernetes' own types: list types and map types for server-side apply, and
//! defaults. An end-to-end test compares the result with the schema of a running API server.
//!
//! A row applies to each field whose path ends in the row's: `[]` is an item of a list, and all three lists of
//! containers are `containers`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSON, JSONSchemaProps};
use serde_json::{Value, json};

use super::within;

/// Lists of type `map` with their keys. Server-side apply merges their items, and replaces all other lists as a whole.
const KEYED_LISTS: [(&str, &[&str]); 14] = [
    ("podSpec.containers", &["name"]),
    ("containers[].env", &["name"]),
    ("containers[].ports", &["containerPort", "protocol"]),
    ("containers[].volumeDevices", &["devicePath"]),
    ("containers[].volumeMounts", &["mountPath"]),
    ("resources.claims", &["name"]),
    ("podSpec.hostAliases", &["ip"]),
    ("podSpec.imagePullSecrets", &["name"]),
    ("podSpec.resourceClaims", &["name"]),
    ("podSpec.schedulingGates", &["name"]),
    ("podSpec.topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("podSpec.volumes", &["name"]),
    ("metadata.ownerReferences", &["uid"]),
    ("podSpec.evictionResponders", &["name"]),
];

/// Lists of type `set`.
const SETS: [&str; 2] = ["exitCodes.values", "metadata.finalizers"];

/// Objects that server-side apply replaces as a whole.
const ATOMIC_OBJECTS: [&str; 23] = [
    "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms[]",
    "preference",
    "labelSelector",
    "namespaceSelector",
    "podSpec.nodeSelector",
    "selector",
    "valueFrom.configMapKeyRef",
    "valueFrom.secretKeyRef",
    "valueFrom.fileKeyRef",
    "fieldRef",
    "resourceFieldRef",
    "dataSource",
    "imagePullSecrets[]",
    "ownerReferences[]",
    "csi.nodePublishSecretRef",
    "cephfs.secretRef",
    "cinder.secretRef",
    "flexVolume.secretRef",
    "iscsi.secretRef",
    "rbd.secretRef",
    "scaleIO.secretRef",
    "storageos.secretRef",
];

/// The fields of the metadata of a claim template. A claim gets no other metadata from its template.
const TEMPLATE_METADATA: [&str; 2] = ["annotations", "labels"];

const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The default of a field.
fn default(path: &str) -> Option<Value> {
    let ends = |row: &&str| is_end(row, path);
    // Kubernetes accepts a reference without a name.
    let references = [
        "configMapKeyRef.name",
        "secretKeyRef.name",
        "configMapRef.name",
        "secretRef.name",
        "configMap.name",
        "sources[].secret.name",
        "nodePublishSecretRef.name",
        "imagePullSecrets[].name",
        "grpc.service",
    ];
    let texts = [
        ("containers[].ports[].protocol", "TCP"),
        ("azureDisk.cachingMode", "ReadWrite"),
        ("azureDisk.fsType", "ext4"),
        ("azureDisk.kind", "Shared"),
        ("iscsi.iscsiInterface", "default"),
        ("rbd.keyring", "/etc/ceph/keyring"),
        ("rbd.pool", "rbd"),
        ("rbd.user", "admin"),
        ("scaleIO.fsType", "xfs"),
        ("scaleIO.storageMode", "ThinProvisioned"),
        ("exactly.tolerations[].operator", "Equal"),
        ("firstAvailable[].tolerations[].operator", "Equal"),
    ];
    let flags = ["azureDisk.readOnly", "fileKeyRef.optional"];
    let texts = references.map(|path| (path, "")).into_iter().chain(texts);
    let text = texts.into_iter().find(|(row, _)| ends(row)).map(|(_, text)| json!(text));
    text.or_else(|| flags.iter().any(ends).then_some(Value::Bool(false)))
}

/// Completes the schema of a list of conditions with the constraints of Kubernetes. The length of a message stays unlimited,
/// because a message may contain an error of an API server.
pub(super) fn finish_conditions(schema: &mut JSONSchemaProps) {
    let fields = within(schema).and_then(|condition| condition.properties.as_mut());
    for (name, field) in fields.into_iter().flatten() {
        match name.as_str() {
            "type" => (field.max_length, field.pattern) = (Some(316), Some(CONDITION_TYPE.to_owned())),
            "reason" => {
                (field.min_length, field.max_length) = (Some(1), Some(1024));
                field.pattern = Some(CONDITION_REASON.to_owned());
            }
            "status" => field.enum_ = Some(["True", "False", "Unknown"].map(|status| JSON(json!(status))).into()),
            "observedGeneration" => field.minimum = Some(0.0),
            _ => (),
        }
    }
}

/// Completes the schema of the field `name`, which has a type of Kubernetes, and removes all descriptions.
pub(super) fn finish(schema: &mut JSONSchemaProps, name: &str) {
    at(schema, name);
}

fn at(schema: &mut JSONSchemaProps, path: &str) {
    schema.description = None;
    schema.nullable = None;
    merge(schema, path);
    if let Some(value) = default(path) {
        schema.default = Some(JSON(value));
    }
    if path.ends_with("templateSpec.metadata") {
        schema
            .properties
            .iter_mut()
            .for_each(|fields| fields.retain(|name, _| TEMPLATE_METADATA.contains(&name.as_str())));
    }
    if path.ends_with("templateSpec") {
        schema.required = Some(vec!["spec".to_owned()]);
    }
    if path.ends_with("opaque.parameters") {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    for (name, field) in schema.properties.iter_mut().flatten() {
        let name = if name.ends_with("ontainers") { "containers" } else { name };
        at(field, &[path, name].join("."));
    }
    require_only_what_has_no_default(schema);
    if let Some(items) = within(schema) {
        at(items, &[path, "[]"].concat());
    }
}

fn merge(schema: &mut JSONSchemaProps, path: &str) {
    if let Some((_, keys)) = KEYED_LISTS.iter().find(|(row, _)| is_end(row, path)) {
        schema.x_kubernetes_list_type = Some("map".to_owned());
        schema.x_kubernetes_list_map_keys = Some(keys.iter().map(ToString::to_string).collect());
    }
    if SETS.iter().any(|row| is_end(row, path)) {
        schema.x_kubernetes_list_type = Some("set".to_owned());
    }
    if ATOMIC_OBJECTS.iter().any(|row| is_end(row, path)) {
        schema.x_kubernetes_map_type = Some("atomic".to_owned());
    }
}

fn require_only_what_has_no_default(schema: &mut JSONSchemaProps) {
    let Some(properties) = &schema.properties else { return };
    let has_default = |name: &String| properties.get(name).is_some_and(|field| field.default.is_some());
    if let Some(required) = &mut schema.required {
        required.retain(|name| !has_default(name));
    }
    schema.required.take_if(|required| required.is_empty());
}

/// Whether the last fields of `path` are `row`.
fn is_end(row: &str, path: &str) -> bool {
    path.strip_suffix(row).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}
