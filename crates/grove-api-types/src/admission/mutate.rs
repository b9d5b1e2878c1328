//! Defaults as JSON patches with the fewest operations, so that fields that this version does not know stay unchanged.

use std::collections::BTreeMap;

use json_patch::jsonptr::{Pointer, PointerBuf};
use json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation};
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Facts, default};
use crate::configuration::{AutoMnnvlScope, TopologyDomain};
use crate::deletion::is_terminating;
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, TOPOLOGY_NAME};
use crate::mnnvl::{has_domain_claim, requests_gpu, spans_nodes};
use crate::syntax::is_blank;
use crate::topology::{
    domain_rank, labelled_topology_name, resolve_topology_name_on_create, resolve_topology_name_on_update,
};
use crate::v1alpha1::{AutoScalingConfig, PodCliqueSet};

/// The CRD denies a set with more cliques, so reading one would only cost memory.
const MAX_CLIQUES: usize = 4096;

/// The defaults of a new set, or of a set that is updated from `old`. There are none for an object that is not a valid
/// `PodCliqueSet`: the API server calls the mutating webhook before it validates against the CRD, whose errors name the invalid
/// fields.
pub fn default_pod_clique_set(object: &Value, old: Option<&Value>, facts: &Facts) -> Vec<PatchOperation> {
    let cliques = object.pointer("/spec/template/cliques").and_then(Value::as_array);
    if cliques.is_some_and(|cliques| cliques.len() > MAX_CLIQUES) {
        return vec![];
    }
    let read = |object: &Value| PodCliqueSet::deserialize(object);
    let Ok(set) = read(object) else { return vec![] };
    let mut patch = PatchBuilder { object, operations: vec![] };
    let Some(old_object) = old else {
        patch.spec(&default::pod_clique_set(&set));
        patch.auto_mnnvl(&set, facts);
        patch.topology_label_on_create(&set, facts);
        return patch.operations;
    };
    // A stored set that this version cannot read must not prevent its own repair.
    let Ok(old) = read(old_object) else {
        patch.spec(&default::pod_clique_set(&set));
        return patch.operations;
    };
    if is_terminating(&old) {
        return vec![];
    }
    if object.get("spec") != old_object.get("spec") {
        patch.spec(&default::pod_clique_set_on_update(&set, &old));
    }
    patch.topology_label_on_update(&set, &old, facts);
    patch.operations
}

/// Sorts the levels of a `ClusterTopology`, the broadest first. If a domain is unknown, the order stays, so that the error about
/// it contains the index that the user wrote.
pub fn default_cluster_topology(object: &Value) -> Vec<PatchOperation> {
    let written = object.get("spec").and_then(|spec| spec.get("levels")?.as_array()).cloned().unwrap_or_default();
    let domain = |level: &Value| level.get("domain").and_then(Value::as_str).map_or(usize::MAX, domain_rank);
    let mut ordered = written.clone();
    ordered.sort_by_key(domain);
    let is_known = written.iter().all(|level| domain(level) < TopologyDomain::ALL.len());
    if !is_known || ordered == written {
        return vec![];
    }
    let path = PointerBuf::from_tokens(["spec", "levels"]);
    vec![PatchOperation::Replace(ReplaceOperation { path, value: ordered.into() })]
}

/// Builds the patch of one object.
struct PatchBuilder<'a> {
    object: &'a Value,
    operations: Vec<PatchOperation>,
}

impl PatchBuilder<'_> {
    /// Sets a field to a value, whether or not the object has the field.
    fn set(&mut self, path: PointerBuf, value: Value) {
        self.operations.push(match self.object.pointer(path.as_str()) {
            None => PatchOperation::Add(AddOperation { path, value }),
            Some(_) => PatchOperation::Replace(ReplaceOperation { path, value }),
        });
    }

    /// Sets a field of the spec to its default, if the object has no value for it.
    fn default_field(&mut self, parent: &Pointer, field: &str, default: Option<Value>) {
        let path = parent.with_trailing_token(field);
        let value = self.object.pointer(path.as_str());
        let is_empty = is_blank(value) || value == Some(&json!(0));
        if let Some(default) = default.filter(|default| is_empty && Some(default) != value) {
            self.set(path, default);
        }
    }

    /// The defaults of the spec. `defaulted` is the set with all defaults.
    fn spec(&mut self, defaulted: &PodCliqueSet) {
        let template = &defaulted.spec.template;
        let path = Pointer::from_static("/spec/template");
        self.default_field(path, "terminationDelay", template.termination_delay.as_ref().map(|it| json!(it)));
        let headless_service = template.headless_service_config.as_ref().map(|it| json!(it));
        self.default_field(path, "headlessServiceConfig", headless_service);
        for (at, clique) in template.cliques.iter().enumerate() {
            let spec = &clique.spec;
            let path = path.with_trailing_token("cliques").with_trailing_token(at).with_trailing_token("spec");
            self.default_field(&path, "replicas", Some(spec.replicas.into()));
            self.default_field(&path, "minAvailable", spec.min_available.map(Value::from));
            self.autoscaling(&path.with_trailing_token("autoScalingConfig"), spec.auto_scaling_config.as_ref());
            let path = path.with_trailing_token("podSpec");
            for field in ["restartPolicy", "terminationGracePeriodSeconds"] {
                self.default_field(&path, field, spec.pod_spec.get(field));
            }
        }
        for (at, group) in template.pod_clique_scaling_groups.iter().enumerate() {
            let path = path.with_trailing_token("podCliqueScalingGroups").with_trailing_token(at);
            self.default_field(&path, "replicas", group.replicas.map(Value::from));
            self.default_field(&path, "minAvailable", group.min_available.map(Value::from));
            self.autoscaling(&path.with_trailing_token("scaleConfig"), group.scale_config.as_ref());
        }
    }

    fn autoscaling(&mut self, path: &Pointer, config: Option<&AutoScalingConfig>) {
        if let Some(config) = config {
            self.default_field(path, "minReplicas", config.min_replicas.map(Value::from));
        }
    }

    /// Enables automatic MNNVL for a set with GPUs, if the feature is enabled for such sets and the user has not configured MNNVL. An
    /// own claim with the name of Grove's claim counts as configured.
    fn auto_mnnvl(&mut self, set: &PodCliqueSet, facts: &Facts) {
        let template = &set.spec.template;
        let has_key = |annotations: &BTreeMap<String, String>| {
            [AUTO_MNNVL, MNNVL_GROUP].iter().any(|key| annotations.contains_key(*key))
        };
        let is_configured = has_key(set.annotations())
            || template.cliques.iter().any(|clique| has_key(&clique.annotations))
            || template.pod_clique_scaling_groups.iter().any(|group| has_key(&group.annotations))
            || template.cliques.iter().any(|clique| has_domain_claim(&clique.spec.pod_spec));
        let has_gpu = template.cliques.iter().any(|clique| requests_gpu(&clique.spec.pod_spec));
        let is_in_scope = || match facts.mnnvl_scope {
            AutoMnnvlScope::All => true,
            AutoMnnvlScope::MultiNode => spans_nodes(set, facts.gpus_per_node),
        };
        if facts.mnnvl_enabled && has_gpu && !is_configured && is_in_scope() {
            self.set_metadata("annotations", AUTO_MNNVL, AUTO_MNNVL_ENABLED);
        }
    }

    /// On a new set, the resolved name replaces the user's value of the label.
    fn topology_label_on_create(&mut self, set: &PodCliqueSet, facts: &Facts) {
        let topology = &facts.topology;
        let resolved = resolve_topology_name_on_create(set, &topology.name).filter(|_| topology.enabled);
        self.set_topology_label(labelled_topology_name(set), resolved);
    }

    /// After an update the label contains the resolved name. A label that the user changed stays, so that the rules deny the
    /// update.
    fn topology_label_on_update(&mut self, new: &PodCliqueSet, old: &PodCliqueSet, facts: &Facts) {
        let (before, label) = (labelled_topology_name(old), labelled_topology_name(new));
        let has_label = facts.topology.enabled || before.is_some();
        let resolved = resolve_topology_name_on_update(new, old, &facts.topology.name).filter(|_| has_label);
        if label.is_none() || label == before {
            self.set_topology_label(label, resolved);
        }
    }

    fn set_topology_label(&mut self, label: Option<&str>, resolved: Option<&str>) {
        match resolved {
            _ if label == resolved => {}
            Some(resolved) => self.set_metadata("labels", TOPOLOGY_NAME, resolved),
            None => {
                let path = PointerBuf::from_tokens(["metadata", "labels", TOPOLOGY_NAME]);
                self.operations.push(PatchOperation::Remove(RemoveOperation { path }));
            }
        }
    }

    /// Sets one label or annotation.
    fn set_metadata(&mut self, map: &str, key: &str, value: &str) {
        let parent = PointerBuf::from_tokens(["metadata", map]);
        if self.object.pointer(parent.as_str()).is_some_and(Value::is_object) {
            self.set(parent.with_trailing_token(key), value.into());
        } else {
            self.set(parent, json!({ key: value }));
        }
    }
}
