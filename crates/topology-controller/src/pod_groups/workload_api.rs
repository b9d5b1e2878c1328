//! The workload API of Kubernetes: the `PodGroup` of `scheduling.k8s.io`, which the default scheduler reads.
//!
//! pcs-controller chooses the name and the immutable fields of the `PodGroup` when an incarnation of the gang begins, and records them in
//! annotations of the gang ([`PodGroupRef`]). So this file reads the record, not the current minimums and priority of the gang.

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::pack_affinity::{GangPacking, digest};
use grove_api_types::pod_group::{self, ApiVersion, PackRecord, PodGroupRef, PodGroupSpec};
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use grove_controller::children::ByName;
use grove_controller::plan::Waiting;
use grove_controller::workload_api;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::{PodGroup, WorkloadApi, unreadable};
use crate::slim_clique::SlimClique;

/// The scheduler preempts all pods of the `PodGroup` together, or none.
const DISRUPTION_MODE: &str = "PodGroup";
/// The same in Kubernetes 1.37, where the mode is a field.
const DISRUPTION_MODE_OF_1_37: &str = "all";
/// The condition of a `PodGroup` that the scheduler writes after it has tried to schedule the pods of the `PodGroup`.
pub(crate) const POD_GROUP_SCHEDULED: &str = "PodGroupScheduled";
/// Without one of these feature gates, the API server drops fields of a `PodGroup`; see [`dropped_fields`].
const PREEMPTION_GATE: &str = "WorkloadAwarePreemption";
const TOPOLOGY_GATE: &str = "TopologyAwareWorkloadScheduling";

pub(super) const GROUP: &str = pod_group::GROUP;
pub(super) const AFTER_DELETION: &str =
    "the pods of the gang stay in it, and the next incarnation of the gang uses another name";

pub(super) fn version() -> &'static str {
    workload_api::version().name()
}

/// Changes to the other version of the API, and returns its URL path.
pub(super) fn use_other_version() -> String {
    workload_api::use_other_version();
    PodGroup::<WorkloadApi>::url_path(&(), None)
}

pub(super) fn name(gang: &PodGang) -> Option<String> {
    pod_group::name_in_annotation(&gang.name_any(), gang).ok().flatten().map(str::to_owned)
}

pub(super) fn unreadable_annotation(gang: &PodGang) -> Option<UnreadableAnnotation> {
    PodGroupRef::of_gang(gang).err()
}

/// The API server requires a minimum of at least 1.
pub(super) fn spec(gang: &PodGang) -> Result<Value, Waiting> {
    let record = PodGroupRef::of_gang(gang).map_err(unreadable)?.map(|group| group.spec).unwrap_or_default();
    let constraints = key(&record).map(|key| json!({ "topology": [{ "key": key }] }));
    Ok(json!({
        "schedulingPolicy": { "gang": { "minCount": record.min_count.max(1) } },
        "disruptionMode": DISRUPTION_MODE,
        "priorityClassName": record.priority_class_name,
        "schedulingConstraints": constraints,
    }))
}

pub(super) fn encode_for_version(spec: Value) -> Value {
    encode(spec, workload_api::version())
}

/// The reason and the message of the condition [`POD_GROUP_SCHEDULED`]. The message is empty once the pods are scheduled.
pub(super) fn message(status: &Value) -> Option<String> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let condition = conditions.find(|condition| condition["type"] == POD_GROUP_SCHEDULED)?;
    let texts = ["reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": "))
}

/// What an administrator does so that the API server serves the kind.
pub(super) fn not_served_remedy() -> String {
    let versions = [ApiVersion::V1Alpha2, ApiVersion::V1Beta1].map(ApiVersion::name).join(" or ");
    format!("enable the API {GROUP}/{versions} and the feature gate GenericWorkload")
}

/// The spec of version 1.36 in the format of `version`.
fn encode(mut spec: Value, version: ApiVersion) -> Value {
    match version {
        ApiVersion::V1Alpha2 => {}
        ApiVersion::V1Beta1 => {
            if let Some(mode) = spec.get_mut("disruptionMode").filter(|mode| **mode == DISRUPTION_MODE) {
                *mode = json!({ DISRUPTION_MODE_OF_1_37: {} });
            }
        }
    }
    spec
}

/// The key of node labels by which the whole gang is packed.
fn key(record: &PodGroupSpec) -> Option<&str> {
    record.packing.as_ref()?.key.as_deref()
}

/// The key of node labels in a live spec.
fn live_key(live: &Value) -> Option<&str> {
    live["schedulingConstraints"]["topology"][0]["key"].as_str()
}

/// The fields of the record that a live spec lacks because the API server does not have a feature gate, with the gate. A `disruptionMode`
/// that was dropped has its default in each response.
pub(crate) fn dropped_fields(live: &Value, record: &PodGroupSpec) -> Vec<(&'static str, &'static str)> {
    let has_priority =
        record.priority_class_name.as_ref().is_none_or(|name| live["priorityClassName"] == name.as_str());
    let mode = &live["disruptionMode"];
    let has_mode = mode == DISRUPTION_MODE || mode[DISRUPTION_MODE_OF_1_37].is_object();
    let has_key = key(record).is_none_or(|key| live_key(live) == Some(key));
    let fields = [
        ("disruptionMode", PREEMPTION_GATE, has_mode),
        ("priorityClassName", PREEMPTION_GATE, has_priority),
        ("schedulingConstraints", TOPOLOGY_GATE, has_key),
    ];
    fields.into_iter().filter(|(_, _, is_stored)| !is_stored).map(|(field, gate, _)| (field, gate)).collect()
}

/// How the scheduler packs the gang; `None` if its `PodGroup` expresses all constraints exactly. `live` is the spec of the `PodGroup`, if it
/// exists.
pub(crate) fn packing(gang: &PodGang, record: &PodGroupSpec, live: Option<&Value>) -> Option<String> {
    GangPacking::of(&gang.spec).description(live.map_or_else(|| key(record), live_key))
}

/// Whether the topology constraints of the gang differ from its record.
pub(crate) fn has_other_constraints(gang: &PodGang, record: &PodGroupSpec) -> bool {
    let recorded = record.packing.as_ref().map(|PackRecord { key: _, constraints }| constraints);
    digest(&gang.spec).as_ref() != recorded
}

/// Whether the gang now has other minimums than its record. A clique that was scaled below its minimum cannot have that many pods. A gang that
/// is scaled to zero retains its minimum.
pub(crate) fn has_other_minimums(gang: &PodGang, cliques: &ByName<SlimClique>, record: &PodGroupSpec) -> bool {
    let replicas = |group: &GangPodGroup| cliques.get(&group.name).map(|clique| clique.replicas());
    let minimums = gang.spec.podgroups.iter().map(|group| group.required_replicas(replicas(group)));
    let min_count = minimums.fold(0, i32::saturating_add);
    min_count != record.min_count && min_count > 0
}

/// Whether the gang now has another priority than its record. The gang has only the priority of its set, and the record may have that of the
/// pods.
pub(crate) fn has_other_priority(gang: &PodGang, record: &PodGroupSpec) -> bool {
    let priority = gang.spec.priority_class_name.as_ref().filter(|name| !name.is_empty());
    priority.is_some() && priority != record.priority_class_name.as_ref()
}

/// Whether the `PodGroup` of this name has only the pods that were not bound when it began.
pub(crate) fn is_successor(gang: &PodGang, name: &str) -> bool {
    pod_group::number(&gang.name_any(), name).is_some_and(|number| number.successor.is_some())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::scheduling::v1beta1;

    use super::*;

    /// The types of Kubernetes 1.37 have no unknown field, so a field that they lack fails the comparison. No server of 1.37 was tried.
    #[test]
    fn the_spec_has_the_format_of_the_version() {
        for (record, of_1_36, of_1_37) in [
            (
                json!({ "schedulingPolicy": { "gang": { "minCount": 3 } }, "disruptionMode": "PodGroup" }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 3 } }, "disruptionMode": "PodGroup" }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 3 } }, "disruptionMode": { "all": {} } }),
            ),
            (
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": "PodGroup", "priorityClassName": "high" }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": "PodGroup", "priorityClassName": "high" }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": { "all": {} }, "priorityClassName": "high" }),
            ),
            (
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": "PodGroup", "schedulingConstraints": { "topology": [{ "key": "rack" }] } }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": "PodGroup", "schedulingConstraints": { "topology": [{ "key": "rack" }] } }),
                json!({ "schedulingPolicy": { "gang": { "minCount": 7 } }, "disruptionMode": { "all": {} }, "schedulingConstraints": { "topology": [{ "key": "rack" }] } }),
            ),
        ] {
            assert_eq!(encode(record.clone(), ApiVersion::V1Alpha2), of_1_36);
            let encoded = encode(record, ApiVersion::V1Beta1);
            assert_eq!(encoded, of_1_37);
            let typed: v1beta1::PodGroupSpec = serde_json::from_value(encoded).expect("a PodGroup of 1.37");
            assert_eq!(serde_json::to_value(typed).expect("JSON"), of_1_37);
            let stored = PodGroupSpec { min_count: 1, ..PodGroupSpec::default() };
            for live in [&of_1_36, &of_1_37] {
                assert_eq!(dropped_fields(live, &stored), [], "{live}");
            }
            let dropped = json!({ "disruptionMode": { "single": {} } });
            assert_eq!(dropped_fields(&dropped, &stored), [("disruptionMode", PREEMPTION_GATE)]);
        }
    }
}
