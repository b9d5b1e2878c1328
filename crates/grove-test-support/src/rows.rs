//! The rows of admission, as data: a valid object, what is changed about it, what is known of the cluster, and the answer.
//! They lie beside the tests of `grove-api-types`. The end-to-end tests take this file as it is, so it knows no rule and
//! no type of Grove.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

macro_rules! data {
    ($file:literal) => {
        ($file, include_str!(concat!("../../grove-api-types/tests/admission/", $file)))
    };
}

/// A file's name and text.
type File = (&'static str, &'static str);

/// The files with rows about objects and their titles, in the order of the page.
pub const FILES: [(File, &str); 10] = [
    (data!("cliques.yaml"), "Sets and cliques"),
    (data!("groups.yaml"), "Scaling groups and autoscalers"),
    (data!("names.yaml"), "Names"),
    (data!("pods.yaml"), "Pods and schedulers"),
    (data!("sharing.yaml"), "Shared claims"),
    (data!("topology.yaml"), "Topology constraints"),
    (data!("mnnvl.yaml"), "NVLink between nodes"),
    (data!("update.yaml"), "What stays as it was created"),
    (data!("stored.yaml"), "What is stored already"),
    (data!("topologies.yaml"), "Topologies"),
];

/// Fields by pointer, and what they become; null takes a field away. A pointer without a slash at its beginning goes out
/// from `/spec/template`. The value `{"$times": ["x", 3]}` is `"xxx"`.
pub type Changes = BTreeMap<String, Value>;

/// When a row applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// The changed object is created, and the unchanged one becomes it.
    #[default]
    Both,
    /// It is created.
    Create,
    /// The unchanged object becomes it.
    Update,
}

/// An object that is created or changed, and the answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Row {
    /// The rule that the row is about.
    pub rule: String,
    /// What the row shows, in a few words.
    pub case: String,
    /// Where the rule comes from.
    pub source: String,
    /// The object of `objects.yaml`.
    #[serde(default = "set")]
    pub object: String,
    /// When it applies.
    #[serde(default)]
    pub on: On,
    /// What of the object is changed before, on update.
    #[serde(default)]
    pub before: Changes,
    /// What is changed.
    #[serde(default)]
    pub change: Changes,
    /// What is known of the cluster.
    #[serde(default)]
    pub facts: Known,
    /// The errors; none means that the object is accepted.
    #[serde(default)]
    pub refused: Vec<String>,
    /// Errors that come in addition when the unchanged object becomes it, because it may not change there.
    #[serde(default)]
    pub also_on_update: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warned: Vec<String>,
    /// Words of the API server's, all in its answer, where a definition or Kubernetes refuses before a webhook is asked.
    #[serde(default)]
    pub definition: Vec<String>,
    /// The same words where it is the change that the definition of the kind refuses.
    #[serde(default)]
    pub definition_on_update: Vec<String>,
    /// Whether the words are those of a rule of Kubernetes, which holds whatever the definition says.
    #[serde(default)]
    pub kubernetes: bool,
    /// Whether the object is none that the rules can read, so that only the definition judges it.
    #[serde(default)]
    pub unreadable: bool,
    /// Why the row cannot be tried through an API server, if so.
    #[serde(default)]
    pub only_here: Option<String>,
}

/// What is known of the cluster, where it differs from what rows take for granted: topology-aware scheduling and MNNVL are
/// on, all schedulers are enabled, Volcano has an open queue `default`, nothing is scheduled, and the [`TOPOLOGIES`] exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "a row says yes to what it means")]
pub struct Known {
    /// Topology-aware scheduling is off in the configuration.
    pub topology_off: bool,
    /// The default topology has one level, `rack`, in the configuration.
    pub default_levels: bool,
    /// MNNVL is off in the configuration.
    pub mnnvl_off: bool,
    /// The default profile of the configuration, if it is not `default-scheduler`.
    pub default_scheduler: Option<String>,
    /// Schedulers that are not enabled.
    pub without: Vec<String>,
    /// Queues of Volcano, and whether each is open.
    pub queues: BTreeMap<String, bool>,
    /// Volcano has no queues at all.
    pub no_queues: bool,
    /// A clique of the set has scheduled pods.
    pub scheduled: bool,
    /// A topology of the other kind has the name.
    pub taken: bool,
    /// One of Grove's accounts asks.
    pub grove: bool,
    /// The sets that refer to the topology.
    pub referring: Vec<Refers>,
}

/// A set that refers to the topology of the row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refers {
    /// `namespace/name`.
    pub set: String,
    /// Whether any of its pods is scheduled.
    #[serde(default)]
    pub scheduled: bool,
    /// The domains that its constraints name.
    #[serde(default)]
    pub domains: Vec<String>,
}

/// The topologies that exist in all rows: domains, broadest first, and whether it is being deleted.
pub const TOPOLOGIES: [(&str, &[&str], bool); 3] = [
    ("grove-topology", &["zone", "block", "rack", "host"], false),
    ("racks", &["zone", "rack", "host"], false),
    ("leaving", &["rack", "host"], true),
];

/// An object as it was sent, and what is filled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PatchRow {
    /// What the row shows.
    pub case: String,
    /// Where the rule comes from.
    pub source: String,
    /// The object of `objects.yaml`.
    #[serde(default = "set")]
    pub object: String,
    /// What is changed of the object that was stored; absent if it is being created.
    #[serde(default)]
    pub before: Option<Changes>,
    /// What is changed.
    #[serde(default)]
    pub change: Changes,
    /// What is known of the cluster.
    #[serde(default)]
    pub facts: Known,
    /// The JSON patch.
    pub patch: Vec<Value>,
    /// Why the row cannot be tried through an API server, if so.
    #[serde(default)]
    pub only_here: Option<String>,
}

/// Something is scaled from one number to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScaleRow {
    /// What the row shows.
    pub case: String,
    /// Where the rule comes from.
    pub source: String,
    /// `set`, `group` or `clique`.
    pub of: String,
    /// The name of what is scaled, if it matters.
    #[serde(default)]
    pub name: Option<String>,
    /// What is changed of the set that is scaled, or to which it belongs.
    #[serde(default)]
    pub set: Changes,
    /// The clique of the group.
    #[serde(default)]
    pub clique: Option<String>,
    /// How many there are.
    pub from: i32,
    /// How many there are to be.
    pub to: i32,
    /// How many must be available.
    #[serde(default)]
    pub min_available: Option<i32>,
    /// The errors.
    #[serde(default)]
    pub refused: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warned: Vec<String>,
    /// Words of the API server's, where it refuses before a webhook is asked.
    #[serde(default)]
    pub definition: Vec<String>,
    /// Whether the words are those of a rule of Kubernetes, which holds whatever the definition says.
    #[serde(default)]
    pub kubernetes: bool,
}

/// A request for a change of something that Grove manages, and the answer of the authorizer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ManagedRow {
    /// What the row shows.
    pub case: String,
    /// Where the rule comes from.
    pub source: String,
    /// `create`, `update`, `delete` or `connect`.
    pub operation: String,
    /// The kind of the object.
    pub kind: String,
    /// Who asks.
    #[serde(default = "somebody")]
    pub user: String,
    /// The set: `absent`, or the value of the annotation that opens what belongs to it.
    #[serde(default)]
    pub set: Option<String>,
    /// What of the object is changed before.
    #[serde(default)]
    pub before: Changes,
    /// What is changed.
    #[serde(default)]
    pub change: Changes,
    /// The refusal.
    #[serde(default)]
    pub denied: Option<String>,
    /// Words of the API server's, where it refuses before a webhook is asked.
    #[serde(default)]
    pub definition: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warned: Vec<String>,
    /// Why the row cannot be tried through an API server, if so.
    #[serde(default)]
    pub only_here: Option<String>,
}

fn set() -> String {
    "set".to_owned()
}

fn somebody() -> String {
    "alice".to_owned()
}

impl Row {
    /// What names the row in a failure.
    pub fn title(&self) -> String {
        format!("{}: {}", self.rule, self.case)
    }

    /// The object that is created, or that the other becomes.
    pub fn new_object(&self) -> Value {
        changed(&object(&self.object), &self.change)
    }

    /// The object before an update.
    pub fn old_object(&self) -> Value {
        changed(&object(&self.object), &self.before)
    }
}

impl ScaleRow {
    /// The set that is scaled, or to which the group or clique belongs.
    pub fn set_object(&self) -> Value {
        let mut set = changed(&object("set"), &self.set);
        set["spec"]["replicas"] = if self.of == "set" { self.from.into() } else { 1.into() };
        set
    }
}

impl ManagedRow {
    /// The object as it is to be.
    pub fn new_object(&self) -> Value {
        changed(&managed_object(&self.kind), &self.change)
    }

    /// The object as it is.
    pub fn old_object(&self) -> Value {
        changed(&managed_object(&self.kind), &self.before)
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

/// A valid object by its name in `objects.yaml`.
///
/// # Panics
/// If there is none of that name.
pub fn object(name: &str) -> Value {
    static OBJECTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| read(data!("objects.yaml")));
    OBJECTS.get(name).unwrap_or_else(|| panic!("there is no object {name}")).clone()
}

/// A valid object of the kind, as Grove makes it.
fn managed_object(kind: &str) -> Value {
    let mut managed = object("managed");
    managed["kind"] = json!(kind);
    let of_kind = object("managedKinds")[kind].clone();
    for (field, value) in of_kind.as_object().unwrap_or_else(|| panic!("Grove makes no {kind}")) {
        managed[field] = value.clone();
    }
    managed
}

/// The object with fields changed.
pub fn changed(object: &Value, changes: &Changes) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes {
        let whole = if pointer.starts_with('/') { pointer.clone() } else { format!("/spec/template/{pointer}") };
        let value = match value.get("$times").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::String(text), times]) => text.repeat(number(times)).into(),
            _ => value.clone(),
        };
        change(&mut object, &whole, value);
    }
    object
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Sets or takes away one field; what is missing on the way to it is made, a list grows at its end.
fn change(object: &mut Value, pointer: &str, value: Value) {
    let steps: Vec<String> = pointer.split('/').skip(1).map(|step| step.replace("~1", "/")).collect();
    let (last, way) = steps.split_last().expect("a pointer has a step");
    let mut at = object;
    for step in way {
        if let Value::Array(items) = at {
            at = items.get_mut(step.parse::<usize>().expect("an index")).expect("the item is there");
            continue;
        }
        if !at.is_object() {
            *at = json!({});
        }
        at = at.as_object_mut().expect("an object").entry(step.clone()).or_insert(Value::Null);
    }
    if at.is_null() {
        *at = json!({});
    }
    match (at, last.parse::<usize>(), value) {
        (Value::Array(items), Ok(index), Value::Null) => drop(items.remove(index)),
        (Value::Array(items), Ok(index), value) if index < items.len() => items[index] = value,
        (Value::Array(items), Ok(_), value) => items.push(value),
        (Value::Object(fields), _, Value::Null) => drop(fields.remove(last)),
        (Value::Object(fields), _, value) => drop(fields.insert(last.clone(), value)),
        (other, _, _) => panic!("{pointer} leads to {other}"),
    }
}
