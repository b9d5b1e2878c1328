//! Rows: a valid object, what is changed about it, what is known of the cluster, and the answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use grove_api_types::admission::{Facts, Referring, TopologyFacts};
use grove_api_types::configuration::{
    OperatorConfiguration, SchedulerProfile, Schedulers, TopologyAwareScheduling, TopologyDomain, TopologyLevel,
};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::{Level, Topology};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Fields by pointer, and what they become; null takes a field away. A pointer without a slash at its beginning goes out
/// from `/spec/template`.
pub(crate) type Changes = BTreeMap<String, Value>;

/// When a row applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum On {
    /// The changed object is created, and the unchanged one becomes it.
    #[default]
    Both,
    /// It is created.
    Create,
    /// The unchanged object becomes it.
    Update,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Row {
    /// The rule that the row is about.
    pub(crate) rule: String,
    /// What the row shows, in a few words.
    pub(crate) case: String,
    /// Where the rule comes from.
    pub(crate) source: String,
    /// The object of `objects.yaml`.
    #[serde(default = "set")]
    pub(crate) object: String,
    #[serde(default)]
    pub(crate) on: On,
    /// What of the object is changed before, on update.
    #[serde(default)]
    pub(crate) before: Changes,
    /// What is changed.
    #[serde(default)]
    pub(crate) change: Changes,
    #[serde(default)]
    pub(crate) facts: Known,
    /// The errors; none means that the object is accepted.
    #[serde(default)]
    pub(crate) refused: Vec<String>,
    #[serde(default)]
    pub(crate) warned: Vec<String>,
    /// Whether the definition refuses the object first, so that through an API server its words are heard.
    #[serde(default)]
    pub(crate) by_definition: bool,
}

fn set() -> String {
    "set".to_owned()
}

/// What is known of the cluster, where it differs from what rows take for granted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "a row says yes to what it means")]
pub(crate) struct Known {
    topology_off: bool,
    /// Whether the default topology has levels in the configuration.
    default_levels: bool,
    mnnvl_off: bool,
    default_scheduler: Option<String>,
    /// Schedulers that are not enabled.
    without: Vec<String>,
    queues: BTreeMap<String, bool>,
    scheduled: bool,
    taken: bool,
    grove: bool,
    referring: Vec<Refers>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refers {
    set: String,
    #[serde(default)]
    scheduled: bool,
    #[serde(default)]
    domains: Vec<String>,
}

/// The topologies that exist in all rows: domains, and whether it is being deleted.
const TOPOLOGIES: [(&str, &[&str], bool); 3] = [
    ("grove-topology", &["zone", "block", "rack", "host"], false),
    ("racks", &["zone", "rack", "host"], false),
    ("leaving", &["rack", "host"], true),
];

impl Known {
    fn topology(&self) -> TopologyAwareScheduling {
        let level = TopologyLevel { domain: TopologyDomain::Rack, key: "example.com/rack".into() };
        let levels = if self.default_levels { vec![level] } else { vec![] };
        TopologyAwareScheduling { enabled: !self.topology_off, levels, ..OperatorConfiguration::default().topology }
    }

    fn schedulers(&self) -> Schedulers {
        let enabled = Scheduler::ALL.iter().filter(|(name, _)| !self.without.iter().any(|other| other == name));
        let profiles = enabled.map(|(_, name)| SchedulerProfile { name: *name, config: Value::Null }).collect();
        let default = Scheduler::ALL.iter().find(|(name, _)| Some(*name) == self.default_scheduler.as_deref());
        Schedulers { profiles, default_profile: default.map(|(_, scheduler)| *scheduler).unwrap_or_default() }
    }

    pub(crate) fn of_sets(&self) -> Facts {
        let topology = |(name, domains, is_terminating): &(&str, &[&str], bool)| Topology {
            name: (*name).to_owned(),
            levels: domains.iter().map(|domain| Level { domain: (*domain).into(), key: (*domain).into() }).collect(),
            is_terminating: *is_terminating,
        };
        let mut volcano_queues = self.queues.clone();
        volcano_queues.insert("default".to_owned(), true);
        Facts {
            topology: self.topology(),
            mnnvl_enabled: !self.mnnvl_off,
            schedulers: self.schedulers(),
            topologies: TOPOLOGIES.iter().map(topology).collect(),
            volcano_queues,
            is_scheduled: self.scheduled,
        }
    }

    pub(crate) fn of_topologies(&self) -> TopologyFacts {
        let referring = |refers: &Refers| Referring {
            set: refers.set.clone(),
            is_scheduled: refers.scheduled,
            domains: refers.domains.iter().cloned().collect(),
        };
        TopologyFacts {
            topology: self.topology(),
            schedulers: self.schedulers(),
            is_taken: self.taken,
            is_grove: self.grove,
            referring: self.referring.iter().map(referring).collect(),
        }
    }
}

impl Row {
    /// What names the row in a failure.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.rule, self.case)
    }

    /// The object that is created, or that the other becomes.
    pub(crate) fn new_object(&self) -> Value {
        changed(&object(&self.object), &self.change)
    }

    /// The object before an update.
    pub(crate) fn old_object(&self) -> Value {
        changed(&object(&self.object), &self.before)
    }
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission")
}

pub(crate) fn read<T: DeserializeOwned>(file: &str) -> T {
    let text = fs::read_to_string(folder().join(file)).expect("the file is there");
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files with rows about objects, in the order of the page.
pub(crate) const FILES: [(&str, &str); 9] = [
    ("cliques.yaml", "Sets and cliques"),
    ("groups.yaml", "Scaling groups and autoscalers"),
    ("names.yaml", "Names"),
    ("pods.yaml", "Pods and schedulers"),
    ("sharing.yaml", "Shared claims"),
    ("topology.yaml", "Topology constraints"),
    ("mnnvl.yaml", "NVLink between nodes"),
    ("update.yaml", "What stays as it was created"),
    ("topologies.yaml", "Topologies"),
];

pub(crate) fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> =
        LazyLock::new(|| FILES.iter().flat_map(|(file, _)| read::<Vec<Row>>(file)).collect());
    &ROWS
}

/// A valid object by its name in `objects.yaml`.
pub(crate) fn object(name: &str) -> Value {
    static OBJECTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| read("objects.yaml"));
    OBJECTS.get(name).unwrap_or_else(|| panic!("there is no object {name}")).clone()
}

/// The object with fields changed.
pub(crate) fn changed(object: &Value, changes: &Changes) -> Value {
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
        (Value::Array(items), Ok(index), value) if index < items.len() => items[index] = value.clone(),
        (Value::Array(items), Ok(_), value) => items.push(value.clone()),
        (Value::Object(fields), _, Value::Null) => drop(fields.remove(last)),
        (Value::Object(fields), _, value) => drop(fields.insert(last.clone(), value.clone())),
        (other, _, _) => panic!("{pointer} leads to {other}"),
    }
}
