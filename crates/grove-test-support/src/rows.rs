//! The rows of the admission tables: a valid object, changes to it, facts about the cluster, and the result. The YAML files are
//! in the tests of `grove-api-types`. The end-to-end tests read the same rows, so this file uses no rule and no type of Grove.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

macro_rules! data {
    ($file:literal) => {
        ($file, include_str!(concat!("../../grove-api-types/tests/admission/", $file)))
    };
}

/// A file's name and text.
type File = (&'static str, &'static str);

/// The files with rows about objects, with their titles in the order of the documentation.
pub const FILES: [(File, &str); 10] = [
    (data!("cliques.yaml"), "Sets and cliques"),
    (data!("groups.yaml"), "Scaling groups and autoscalers"),
    (data!("names.yaml"), "Names"),
    (data!("pods.yaml"), "Pods and schedulers"),
    (data!("sharing.yaml"), "Resource sharing"),
    (data!("topology.yaml"), "Topology constraints"),
    (data!("mnnvl.yaml"), "MNNVL (NVLink between nodes)"),
    (data!("update.yaml"), "Immutable fields"),
    (data!("stored.yaml"), "Ratcheting"),
    (data!("topologies.yaml"), "Topologies"),
];

/// New values of fields, by JSON pointer; null removes a field. A pointer without a leading slash is relative to
/// `/spec/template`. The value `{"$times": ["x", 3]}` is `"xxx"`.
pub type Changes = BTreeMap<String, Value>;

/// The operations that a row covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operations {
    /// The create of the new object, and the update of the old object to the new one.
    #[default]
    CreateAndUpdate,
    /// The create of the new object.
    Create,
    /// The update of the old object to the new one.
    Update,
}

/// A create or an update of an object, and the result of its validation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Row {
    /// The rule that the row covers.
    pub rule: String,
    /// The case, in a few words.
    pub case: String,
    /// The origin of the rule.
    pub source: String,
    /// The name of an object of `objects.yaml`.
    #[serde(default = "set")]
    pub object: String,
    /// The operations that the row covers.
    #[serde(default)]
    pub operations: Operations,
    /// The changes to the object that result in the old object of an update.
    #[serde(default)]
    pub old_changes: Changes,
    /// The changes to the object that result in the new object.
    #[serde(default)]
    pub changes: Changes,
    /// Facts about the cluster.
    #[serde(default)]
    pub facts: RowFacts,
    /// The errors. Admission denies the request if there are any.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Additional errors of the update, because a changed field is immutable.
    #[serde(default)]
    pub errors_on_update: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Parts of the API server's error, if the CRD or Kubernetes rejects the object before the API server calls a webhook.
    #[serde(default)]
    pub crd_errors: Vec<String>,
    /// Additional parts of the API server's error about the update.
    #[serde(default)]
    pub crd_errors_on_update: Vec<String>,
    /// Whether a rule of Kubernetes itself rejects the object, also without the rules of the CRD.
    #[serde(default)]
    pub kubernetes_rule: bool,
    /// Whether only the schema of the CRD rejects the object: our types decode an unknown enum value as the default.
    #[serde(default)]
    pub schema_only: bool,
    /// The reason why no end-to-end test can run the row.
    #[serde(default)]
    pub unit_test_only: Option<String>,
}

/// Facts about the cluster, in which nodes have 8 GPUs. By default topology-aware scheduling, MNNVL and all schedulers are enabled, Volcano
/// has an open queue `default`, no pod is scheduled, and the [`TOPOLOGIES`] exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "each is one independent fact, which a row names")]
pub struct RowFacts {
    /// The configuration disables topology-aware scheduling.
    pub topology_disabled: bool,
    /// The configuration defines one level, `rack`, for the default topology.
    pub default_levels: bool,
    /// The configuration disables MNNVL.
    pub mnnvl_disabled: bool,
    /// The configuration enables MNNVL only for sets that span nodes.
    pub multi_node_mnnvl: bool,
    /// The default profile of the configuration, if it is not `default-scheduler`.
    pub default_scheduler: Option<String>,
    /// The schedulers that the configuration does not enable.
    pub disabled_schedulers: Vec<String>,
    /// Queues of Volcano, and whether each is open.
    pub queues: BTreeMap<String, bool>,
    /// Volcano has no queues.
    pub no_queues: bool,
    /// webhook-server must not read them.
    pub queues_forbidden: bool,
    /// A clique of the set has scheduled pods.
    pub scheduled: bool,
    /// A topology of the other kind has the name.
    pub name_conflict: bool,
    /// The user is a `ServiceAccount` of Grove.
    pub grove_user: bool,
    /// The sets that refer to the topology.
    pub referencing_sets: Vec<SetReference>,
}

/// A set that refers to the topology of the row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetReference {
    /// `namespace/name`.
    pub set: String,
    /// Whether a pod of the set is scheduled.
    #[serde(default)]
    pub scheduled: bool,
    /// The domains that the constraints of the set name.
    #[serde(default)]
    pub domains: Vec<String>,
}

/// The topologies that exist in all rows: the name, the domains (broadest first), and whether the topology is terminating.
pub const TOPOLOGIES: [(&str, &[&str], bool); 3] = [
    ("grove-topology", &["zone", "block", "rack", "host"], false),
    ("racks", &["zone", "rack", "host"], false),
    ("terminating", &["rack", "host"], true),
];

/// An object as a user sends it, and the patch that sets its defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PatchRow {
    /// The case, in a few words.
    pub case: String,
    /// The origin of the rule.
    pub source: String,
    /// The name of an object of `objects.yaml`.
    #[serde(default = "set")]
    pub object: String,
    /// The changes to the object that result in the stored object; absent for a create.
    #[serde(default)]
    pub old_changes: Option<Changes>,
    /// The changes to the object that result in the new object.
    #[serde(default)]
    pub changes: Changes,
    /// Facts about the cluster.
    #[serde(default)]
    pub facts: RowFacts,
    /// The JSON patch.
    pub patch: Vec<Value>,
    /// The reason why no end-to-end test can run the row.
    #[serde(default)]
    pub unit_test_only: Option<String>,
}

/// A write to the scale subresource, and the result of its validation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScaleRow {
    /// The case, in a few words.
    pub case: String,
    /// The origin of the rule.
    pub source: String,
    /// The scaled object: `set`, `group` or `clique`.
    pub target: String,
    /// The name of the scaled object, if the case depends on it.
    #[serde(default)]
    pub name: Option<String>,
    /// The changes to the set, which is the scaled object or its parent.
    #[serde(default)]
    pub set_changes: Changes,
    /// The clique of the group.
    #[serde(default)]
    pub clique: Option<String>,
    /// The old replicas.
    pub from: i32,
    /// The new replicas.
    pub to: i32,
    /// The `minAvailable` of the scaled object.
    #[serde(default)]
    pub min_available: Option<i32>,
    /// The errors.
    #[serde(default)]
    pub errors: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Parts of the API server's error, if it rejects the request before it calls a webhook.
    #[serde(default)]
    pub crd_errors: Vec<String>,
    /// Whether a rule of Kubernetes itself rejects the request, also without the rules of the CRD.
    #[serde(default)]
    pub kubernetes_rule: bool,
}

/// A request that changes a managed object, and the result of the authorizer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ManagedRow {
    /// The case, in a few words.
    pub case: String,
    /// The origin of the rule.
    pub source: String,
    /// `create`, `update`, `delete` or `connect`.
    pub operation: String,
    /// The kind of the object.
    pub kind: String,
    /// The user of the request.
    #[serde(default = "alice")]
    pub user: String,
    /// The parent set: `absent`, or the value of its annotation that disables the protection of its objects.
    #[serde(default)]
    pub parent: Option<String>,
    /// The changes to the object that result in the old object.
    #[serde(default)]
    pub old_changes: Changes,
    /// The changes to the object that result in the new object.
    #[serde(default)]
    pub changes: Changes,
    /// The message of the denial; absent if the authorizer allows the request.
    #[serde(default)]
    pub denied: Option<String>,
    /// Parts of the API server's error, if it rejects the request before it calls a webhook.
    #[serde(default)]
    pub crd_errors: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The reason why no end-to-end test can run the row.
    #[serde(default)]
    pub unit_test_only: Option<String>,
}

fn set() -> String {
    "set".to_owned()
}

fn alice() -> String {
    "alice".to_owned()
}

impl Row {
    /// The title of the row in a failure message.
    pub fn title(&self) -> String {
        format!("{}: {}", self.rule, self.case)
    }

    /// The new object of the request.
    pub fn new_object(&self) -> Value {
        changed(&object(&self.object), &self.changes)
    }

    /// The old object of an update.
    pub fn old_object(&self) -> Value {
        changed(&object(&self.object), &self.old_changes)
    }
}

impl ScaleRow {
    /// The set with the old replicas, which is the scaled object or its parent.
    pub fn set_object(&self) -> Value {
        let mut set = changed(&object("set"), &self.set_changes);
        set["spec"]["replicas"] = if self.target == "set" { self.from.into() } else { 1.into() };
        set
    }
}

impl ManagedRow {
    /// The new object of the request.
    pub fn new_object(&self) -> Value {
        changed(&managed_object(&self.kind), &self.changes)
    }

    /// The old object of the request.
    pub fn old_object(&self) -> Value {
        changed(&managed_object(&self.kind), &self.old_changes)
    }
}

fn read<T: DeserializeOwned>((name, text): File) -> T {
    let value: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The rows of one of the [`FILES`].
pub fn of_file(file: File) -> Vec<Row> {
    read(file)
}

/// All rows about objects.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| FILES.iter().flat_map(|(file, _)| of_file(*file)).collect());
    &ROWS
}

/// The rows about defaults.
pub fn patches() -> Vec<PatchRow> {
    read(data!("patches.yaml"))
}

/// The rows about scaling.
pub fn scales() -> Vec<ScaleRow> {
    read(data!("scales.yaml"))
}

/// The rows of the authorizer.
pub fn managed() -> Vec<ManagedRow> {
    read(data!("managed.yaml"))
}

/// The valid object with this name in `objects.yaml`.
///
/// # Panics
/// If the file has no such object.
pub fn object(name: &str) -> Value {
    static OBJECTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| read(data!("objects.yaml")));
    OBJECTS.get(name).unwrap_or_else(|| panic!("there is no object {name}")).clone()
}

/// A valid object of the kind, as Grove creates it.
fn managed_object(kind: &str) -> Value {
    let mut managed = object("managed");
    managed["kind"] = json!(kind);
    let of_kind = object("managedKinds")[kind].clone();
    for (field, value) in of_kind.as_object().unwrap_or_else(|| panic!("Grove creates no {kind}")) {
        managed[field] = value.clone();
    }
    managed
}

/// The object with the changes.
pub fn changed(object: &Value, changes: &Changes) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes {
        let pointer = if pointer.starts_with('/') { pointer.clone() } else { format!("/spec/template/{pointer}") };
        let value = match value.get("$times").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::String(text), times]) => text.repeat(number(times)).into(),
            _ => value.clone(),
        };
        change(&mut object, &pointer, value);
    }
    object
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Sets or removes one field. Creates absent parents; an index at the end of a list appends.
fn change(object: &mut Value, pointer: &str, value: Value) {
    let steps: Vec<String> = pointer.split('/').skip(1).map(|step| step.replace("~1", "/")).collect();
    let (last, parents) = steps.split_last().expect("a pointer has a step");
    let mut parent = object;
    for step in parents {
        if let Value::Array(items) = parent {
            parent = items.get_mut(step.parse::<usize>().expect("an index")).expect("the item is there");
            continue;
        }
        if !parent.is_object() {
            *parent = json!({});
        }
        parent = parent.as_object_mut().expect("an object").entry(step.clone()).or_insert(Value::Null);
    }
    if parent.is_null() {
        *parent = json!({});
    }
    match (parent, last.parse::<usize>(), value) {
        (Value::Array(items), Ok(index), Value::Null) => drop(items.remove(index)),
        (Value::Array(items), Ok(index), value) if index < items.len() => items[index] = value,
        (Value::Array(items), Ok(_), value) => items.push(value),
        (Value::Object(fields), _, Value::Null) => drop(fields.remove(last)),
        (Value::Object(fields), _, value) => drop(fields.insert(last.clone(), value)),
        (other, _, _) => panic!("{pointer}: the parent is {other}"),
    }
}
