//! Defaults as the smallest changes of an object as it was sent: what nobody knows here stays untouched.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Facts, default, syntax::is_blank};
use crate::core::PodCliqueSet;
use crate::fabric::{asks_for_gpu, brings_own_claim};
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, TOPOLOGY_NAME};
use crate::topology::{breadth, reference_after, reference_of_new};

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

/// What is filled in of a set that is created, or changed from `old`.
///
/// # Errors
/// What keeps the object from being a `PodCliqueSet`.
pub fn default_pod_clique_set(object: &Value, old: Option<&Value>, facts: &Facts) -> Result<Vec<Change>, String> {
    let read = |object: &Value| PodCliqueSet::deserialize(object);
    let set = read(object).map_err(|error| format!("the object is no PodCliqueSet: {error}"))?;
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(vec![]);
    }
    let mut changes = Changes { object, list: vec![] };
    let Some(old_object) = old else {
        changes.spec(&default::pod_clique_set(&set));
        changes.fabric(&set, facts);
        changes.label_of_new(&set, facts);
        return Ok(changes.list);
    };
    // One that was stored and cannot be read any more must not keep its own repair out.
    let Ok(old) = read(old_object) else {
        changes.spec(&default::pod_clique_set(&set));
        return Ok(changes.list);
    };
    if object.get("spec") != old_object.get("spec") {
        changes.spec(&default::pod_clique_set_after(&set, &old));
    }
    changes.label(&set, &old, facts);
    Ok(changes.list)
}

/// Puts the levels of a `ClusterTopology` in order, the broadest first.
pub fn default_cluster_topology(object: &Value) -> Vec<Change> {
    let written = object.get("spec").and_then(|spec| spec.get("levels")?.as_array()).cloned().unwrap_or_default();
    let domain = |level: &Value| level.get("domain").and_then(Value::as_str).map_or(usize::MAX, breadth);
    let mut ordered = written.clone();
    ordered.sort_by_key(domain);
    let is_leaving = object.get("metadata").is_some_and(|metadata| metadata.get("deletionTimestamp").is_some());
    if is_leaving || ordered == written {
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
        let Ok(defaulted) = serde_json::to_value(defaulted) else { return };
        let mut fill = |path: String| {
            let written = self.object.pointer(&path);
            let is_empty = is_blank(written) || written == Some(&json!(0));
            if let Some(value) = defaulted.pointer(&path).filter(|value| is_empty && Some(*value) != written) {
                self.set(path, value.clone());
            }
        };
        let items = |list: &str| defaulted.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        fill("/spec/template/terminationDelay".to_owned());
        fill("/spec/template/headlessServiceConfig".to_owned());
        for at in 0..items("/spec/template/cliques") {
            let fields = [
                "replicas",
                "minAvailable",
                "autoScalingConfig/minReplicas",
                "podSpec/restartPolicy",
                "podSpec/terminationGracePeriodSeconds",
            ];
            for field in fields {
                fill(format!("/spec/template/cliques/{at}/spec/{field}"));
            }
        }
        for at in 0..items("/spec/template/podCliqueScalingGroups") {
            for field in ["replicas", "minAvailable", "scaleConfig/minReplicas"] {
                fill(format!("/spec/template/podCliqueScalingGroups/{at}/{field}"));
            }
        }
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
        let target = reference_of_new(set, &topology.name).filter(|_| topology.enabled);
        let label = set.labels().get(TOPOLOGY_NAME).map(String::as_str);
        self.relabel(label, target);
    }

    /// After an update the label follows the reference. One that the user changed is left for the rules to refuse.
    fn label(&mut self, new: &PodCliqueSet, old: &PodCliqueSet, facts: &Facts) {
        let before = old.labels().get(TOPOLOGY_NAME).map(String::as_str);
        let label = new.labels().get(TOPOLOGY_NAME).map(String::as_str);
        let is_tracked = facts.topology.enabled || before.is_some();
        let target = reference_after(new, old, &facts.topology.name).filter(|_| is_tracked);
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
