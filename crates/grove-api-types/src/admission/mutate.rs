//! Defaults as the smallest changes of an object as it was sent: what nobody knows here stays untouched.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Facts, default};
use crate::configuration::TopologyDomain;
use crate::deletion::is_terminating;
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, TOPOLOGY_NAME};
use crate::mnnvl::{asks_for_gpu, brings_own_claim};
use crate::syntax::is_blank;
use crate::topology::{domain_rank, resolve_topology_name_on_create, resolve_topology_name_on_update};
use crate::v1alpha1::{AutoScalingConfig, PodCliqueSet};

/// The definition refuses a set with more cliques; reading it would only cost memory.
const MOST_CLIQUES: usize = 4096;

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Change {
    /// Sets what is absent.
    Add {
        /// Where.
        path: String,
        /// To what.
        value: Value,
    },
    /// Sets what is there.
    Replace {
        /// Where.
        path: String,
        /// To what.
        value: Value,
    },
    /// Takes away what is there.
    Remove {
        /// Where.
        path: String,
    },
}

/// What is filled in of a set that is created, or changed from `old`. In what is no set nothing is: the API server asks
/// for defaults before it looks at the definition, and that says what is wrong with which field.
pub fn default_pod_clique_set(object: &Value, old: Option<&Value>, facts: &Facts) -> Vec<Change> {
    let cliques = object.pointer("/spec/template/cliques").and_then(Value::as_array);
    if cliques.is_some_and(|cliques| cliques.len() > MOST_CLIQUES) {
        return vec![];
    }
    let read = |object: &Value| PodCliqueSet::deserialize(object);
    let Ok(set) = read(object) else { return vec![] };
    if is_terminating(&set) {
        return vec![];
    }
    let mut changes = Changes { object, list: vec![] };
    let Some(old_object) = old else {
        changes.spec(&default::pod_clique_set(&set));
        changes.fabric(&set, facts);
        changes.label_of_new(&set, facts);
        return changes.list;
    };
    // One that was stored and cannot be read any more must not keep its own repair out.
    let Ok(old) = read(old_object) else {
        changes.spec(&default::pod_clique_set(&set));
        return changes.list;
    };
    if object.get("spec") != old_object.get("spec") {
        changes.spec(&default::pod_clique_set_after(&set, &old));
    }
    changes.label(&set, &old, facts);
    changes.list
}

/// Puts the levels of a `ClusterTopology` in order, the broadest first. Those of which one is unknown stay as they are, so
/// that whoever refuses it names its place as it was written.
pub fn default_cluster_topology(object: &Value) -> Vec<Change> {
    let written = object.get("spec").and_then(|spec| spec.get("levels")?.as_array()).cloned().unwrap_or_default();
    let domain = |level: &Value| level.get("domain").and_then(Value::as_str).map_or(usize::MAX, domain_rank);
    let mut ordered = written.clone();
    ordered.sort_by_key(domain);
    let is_leaving = object.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some());
    let is_known = written.iter().all(|level| domain(level) < TopologyDomain::ALL.len());
    if is_leaving || !is_known || ordered == written {
        return vec![];
    }
    vec![Change::Replace { path: "/spec/levels".to_owned(), value: ordered.into() }]
}

struct Changes<'a> {
    object: &'a Value,
    list: Vec<Change>,
}

impl Changes<'_> {
    fn set(&mut self, path: String, value: Value) {
        let change = match self.object.pointer(&path) {
            None => Change::Add { path, value },
            Some(_) => Change::Replace { path, value },
        };
        self.list.push(change);
    }

    /// Everything that may be left out of a spec.
    fn spec(&mut self, defaulted: &PodCliqueSet) {
        let template = &defaulted.spec.template;
        let object = self.object;
        let written = object.pointer("/spec/template");
        let place = "/spec/template";
        self.fill((written, place), "terminationDelay", template.termination_delay.as_ref().map(|it| json!(it)));
        self.fill(
            (written, place),
            "headlessServiceConfig",
            template.headless_service_config.as_ref().map(|it| json!(it)),
        );
        for (at, clique) in template.cliques.iter().enumerate() {
            let (spec, place) = (&clique.spec, format!("/spec/template/cliques/{at}/spec"));
            let written = object.pointer(&place);
            self.fill((written, &place), "replicas", Some(spec.replicas.into()));
            self.fill((written, &place), "minAvailable", spec.min_available.map(Value::from));
            self.bounds((written, &place), "autoScalingConfig", spec.auto_scaling_config.as_ref());
            let pod = (written.and_then(|spec| spec.get("podSpec")), &*format!("{place}/podSpec"));
            for field in ["restartPolicy", "terminationGracePeriodSeconds"] {
                self.fill(pod, field, spec.pod_spec.get(field).cloned());
            }
        }
        for (at, group) in template.pod_clique_scaling_groups.iter().enumerate() {
            let place = format!("/spec/template/podCliqueScalingGroups/{at}");
            let written = object.pointer(&place);
            self.fill((written, &place), "replicas", group.replicas.map(Value::from));
            self.fill((written, &place), "minAvailable", group.min_available.map(Value::from));
            self.bounds((written, &place), "scaleConfig", group.scale_config.as_ref());
        }
    }

    fn bounds(&mut self, (written, place): (Option<&Value>, &str), field: &str, config: Option<&AutoScalingConfig>) {
        let Some(config) = config else { return };
        let config_written = written.and_then(|written| written.get(field));
        self.fill((config_written, &[place, "/", field].concat()), "minReplicas", config.min_replicas.map(Value::from));
    }

    /// Sets a field of the object that stands at `place`, if nothing is written there and it has a value by default.
    fn fill(&mut self, (written, place): (Option<&Value>, &str), field: &str, value: Option<Value>) {
        let written = written.and_then(|written| written.get(field));
        let is_empty = is_blank(written) || written == Some(&json!(0));
        let Some(value) = value.filter(|value| is_empty && Some(value) != written) else { return };
        let path = [place, "/", field].concat();
        self.list.push(if written.is_none() { Change::Add { path, value } } else { Change::Replace { path, value } });
    }

    /// A set with GPUs gets fabrics of its own, where the feature is on and nobody has said a word about fabrics; a claim
    /// of the name that Grove's gets is such a word.
    fn fabric(&mut self, set: &PodCliqueSet, facts: &Facts) {
        let template = &set.spec.template;
        let says = |annotations: &BTreeMap<String, String>| {
            [AUTO_MNNVL, MNNVL_GROUP].iter().any(|key| annotations.contains_key(*key))
        };
        let is_said = says(set.annotations())
            || template.cliques.iter().any(|clique| says(&clique.annotations))
            || template.pod_clique_scaling_groups.iter().any(|group| says(&group.annotations));
        let is_said = is_said || template.cliques.iter().any(|clique| brings_own_claim(&clique.spec.pod_spec));
        let has_gpu = template.cliques.iter().any(|clique| asks_for_gpu(&clique.spec.pod_spec));
        if facts.mnnvl_enabled && has_gpu && !is_said {
            self.metadata("annotations", AUTO_MNNVL, AUTO_MNNVL_ENABLED);
        }
    }

    /// On a new set the label is written over whatever the user put.
    fn label_of_new(&mut self, set: &PodCliqueSet, facts: &Facts) {
        let topology = &facts.topology;
        let target = resolve_topology_name_on_create(set, &topology.name).filter(|_| topology.enabled);
        let label = set.labels().get(TOPOLOGY_NAME).map(String::as_str);
        self.relabel(label, target);
    }

    /// After an update the label follows the reference. One that the user changed is left for the rules to refuse.
    fn label(&mut self, new: &PodCliqueSet, old: &PodCliqueSet, facts: &Facts) {
        let before = old.labels().get(TOPOLOGY_NAME).map(String::as_str);
        let label = new.labels().get(TOPOLOGY_NAME).map(String::as_str);
        let is_tracked = facts.topology.enabled || before.is_some();
        let target = resolve_topology_name_on_update(new, old, &facts.topology.name).filter(|_| is_tracked);
        if label.is_none() || label == before {
            self.relabel(label, target);
        }
    }

    fn relabel(&mut self, label: Option<&str>, target: Option<&str>) {
        match target {
            _ if label == target => {}
            Some(target) => self.metadata("labels", TOPOLOGY_NAME, target),
            None => self.list.push(Change::Remove { path: metadata_path("labels", TOPOLOGY_NAME) }),
        }
    }

    fn metadata(&mut self, map: &str, key: &str, value: &str) {
        let parent = format!("/metadata/{map}");
        if self.object.pointer(&parent).is_some_and(Value::is_object) {
            self.set(metadata_path(map, key), value.into());
        } else {
            self.set(parent, json!({ key: value }));
        }
    }
}

/// A pointer to a label or annotation; the slash of its key is escaped.
fn metadata_path(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", key.replace('~', "~0").replace('/', "~1"))
}
