//! The rows of the admission tables, as tests beside the rules have them, to be played against a real API server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields by pointer, and what they become; null takes a field away. Without a slash at its beginning a pointer goes out from
/// `/spec/template`.
pub type Changes = BTreeMap<String, Value>;

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The rule that it is about.
    pub rule: String,
    /// What it shows.
    pub case: String,
    /// The object of `objects.yaml`.
    #[serde(default = "set")]
    pub object: String,
    /// `create`, `update`, or nothing for both.
    #[serde(default)]
    pub on: String,
    /// What of the object is changed before, on update.
    #[serde(default)]
    pub before: Changes,
    /// What is changed.
    #[serde(default)]
    pub change: Changes,
    /// What is known of the cluster.
    #[serde(default)]
    pub facts: Facts,
    /// The errors; none means that the object is accepted.
    #[serde(default)]
    pub refused: Vec<String>,
    /// The warnings.
    #[serde(default)]
    pub warned: Vec<String>,
    /// Whether the definition refuses it first, in its own words.
    #[serde(default)]
    pub by_definition: bool,
}

fn set() -> String {
    "set".to_owned()
}

/// What a row says about configuration and cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "a row says yes to what it means")]
pub struct Facts {
    topology_off: bool,
    default_levels: bool,
    mnnvl_off: bool,
    default_scheduler: Option<String>,
    without: Vec<String>,
    /// Queues of Volcano, and whether each is open.
    pub queues: BTreeMap<String, bool>,
    /// Whether pods of the set are scheduled.
    pub scheduled: bool,
    /// Whether the other kind of topology has the name.
    pub taken: bool,
    /// Whether Grove itself asks.
    pub grove: bool,
    /// Sets that refer to the topology.
    pub referring: Vec<Refers>,
}

/// A set that refers to a topology.
#[derive(Clone, Debug, Deserialize)]
pub struct Refers {
    /// Namespace and name.
    pub set: String,
    /// Whether its pods are scheduled.
    #[serde(default)]
    pub scheduled: bool,
    /// The domains that it names.
    #[serde(default)]
    pub domains: Vec<String>,
}

/// The schedulers that there are.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"];

impl Facts {
    /// The configuration under which the row holds, as JSON, which is YAML.
    pub fn configuration(&self) -> String {
        let enabled = SCHEDULERS.iter().filter(|name| !self.without.iter().any(|other| other == *name));
        let profiles: Vec<_> = enabled.map(|name| json!({ "name": name })).collect();
        let levels =
            if self.default_levels { json!([{ "domain": "rack", "key": "example.com/rack" }]) } else { json!([]) };
        let default = self.default_scheduler.as_deref().filter(|name| !self.without.iter().any(|other| other == name));
        let configuration = json!({
            "apiVersion": "operator.config.grove.io/v1alpha1",
            "kind": "OperatorConfiguration",
            "topologyAwareScheduling": { "enabled": !self.topology_off, "levels": levels },
            "network": { "autoMNNVLEnabled": !self.mnnvl_off },
            "scheduler": { "profiles": profiles, "defaultProfileName": default.unwrap_or("default-scheduler") },
            "authorizer": {
                "enabled": true,
                "exemptServiceAccountUserNames": ["system:serviceaccount:kube-system:job-controller"],
            },
        });
        configuration.to_string()
    }

    /// Whether the configuration can say what the row takes for granted.
    pub fn can_be_configured(&self) -> bool {
        self.default_scheduler.as_ref().is_none_or(|default| !self.without.contains(default))
    }
}

impl Row {
    /// The object that is created, or that the other becomes.
    pub fn new_object(&self) -> Value {
        changed(&object(&self.object), &self.change)
    }

    /// The object before an update.
    pub fn old_object(&self) -> Value {
        changed(&object(&self.object), &self.before)
    }
}

/// All rows of these files of the tables.
///
/// # Panics
/// When they cannot be read.
pub fn rows<T: DeserializeOwned>(files: &[&str]) -> Vec<T> {
    files.iter().flat_map(|file| read::<Vec<T>>(file)).collect()
}

/// A valid object by its name in `objects.yaml`.
///
/// # Panics
/// When there is none of that name.
pub fn object(name: &str) -> Value {
    let objects: BTreeMap<String, Value> = read("objects.yaml");
    objects.get(name).unwrap_or_else(|| panic!("there is no object {name}")).clone()
}

fn read<T: DeserializeOwned>(file: &str) -> T {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/grove-api-types/tests/admission"));
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The object with fields changed.
pub fn changed(object: &Value, changes: &Changes) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes {
        let whole = if pointer.starts_with('/') { pointer.clone() } else { format!("/spec/template/{pointer}") };
        change(&mut object, &whole, value);
    }
    object
}

/// Sets or takes away one field; what is missing on the way to it is made, a list grows at its end.
fn change(object: &mut Value, pointer: &str, value: &Value) {
    let steps: Vec<String> = pointer.split('/').skip(1).map(|step| step.replace("~1", "/")).collect();
    let (last, way) = steps.split_last().expect("a pointer has a step");
    let mut at = object;
    for step in way {
        if let Value::Array(items) = at {
            at = &mut items[step.parse::<usize>().expect("an index")];
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
        (Value::Array(items), Ok(index), value) if index < items.len() => items[index] = value.clone(),
        (Value::Array(items), Ok(_), value) => items.push(value.clone()),
        (Value::Object(fields), _, Value::Null) => drop(fields.remove(last)),
        (Value::Object(fields), _, value) => drop(fields.insert(last.clone(), value.clone())),
        (other, _, _) => panic!("{pointer} leads to {other}"),
    }
}
