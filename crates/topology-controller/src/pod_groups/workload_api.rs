//! The workload API of Kubernetes: the `PodGroup` of `scheduling.k8s.io`, which the default scheduler reads.
//!
//! pcs-controller chooses the name and the immutable fields of the `PodGroup` when an incarnation of the gang begins, and records them in
//! annotations of the gang ([`PodGroupRef`]). So this file reads the record, not the current minimums and priority of the gang.

use grove_api_types::pod_group::{self, PodGroupRef, PodGroupSpec};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::children::ByName;
use grove_controller::plan::Waiting;
use serde_json::{Value, json};

use super::PodGroupApi;
use crate::slim_clique::SlimClique;

/// The scheduler preempts all pods of the `PodGroup` together, or none.
const DISRUPTION_MODE: &str = "PodGroup";
/// The condition of a `PodGroup` that the scheduler writes after it has tried to schedule the pods of the `PodGroup`.
pub(crate) const POD_GROUP_SCHEDULED: &str = "PodGroupScheduled";
/// Without this feature gate, the API server drops fields of a `PodGroup`; see [`dropped_fields`].
pub(crate) const PREEMPTION_GATE: &str = "WorkloadAwarePreemption";

/// The workload API.
#[derive(Debug)]
pub(crate) struct WorkloadApi;

impl PodGroupApi for WorkloadApi {
    const SCHEDULER: Scheduler = Scheduler::Kube;
    const GROUP: &'static str = pod_group::GROUP;
    const VERSION: &'static str = pod_group::VERSION;
    const RETAINED_LABELS: &'static [&'static str] = &[];
    const HAS_ANNOTATIONS: bool = false;
    const UNKNOWN_SPEC_EVENT: &'static str = "";
    const HAS_IMMUTABLE_SPEC: bool = true;
    const AWAITS_BASE_GANG: bool = true;
    const AFTER_DELETION: &'static str =
        "the pods of the gang stay in it, and the next incarnation of the gang uses another name";

    fn name(gang: &PodGang) -> Option<String> {
        PodGroupRef::of_gang(gang).map(|group| group.name)
    }

    fn retained_fields(_gang: &PodGang) -> &'static [&'static str] {
        &[]
    }

    /// The API server requires a minimum of at least 1.
    fn spec(gang: &PodGang) -> Result<Value, Waiting> {
        let record = PodGroupRef::of_gang(gang).map(|group| group.spec).unwrap_or_default();
        Ok(json!({
            "schedulingPolicy": { "gang": { "minCount": record.min_count.max(1) } },
            "disruptionMode": DISRUPTION_MODE,
            "priorityClassName": record.priority_class_name,
        }))
    }

    /// The reason and the message of the condition [`POD_GROUP_SCHEDULED`]. The message is empty once the pods are scheduled.
    fn message(status: &Value) -> Option<String> {
        let mut conditions = status["conditions"].as_array()?.iter();
        let condition = conditions.find(|condition| condition["type"] == POD_GROUP_SCHEDULED)?;
        let texts = ["reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
        Some(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": "))
    }

    fn not_served_remedy() -> String {
        format!("enable the API {}/{} and the feature gate GenericWorkload", Self::GROUP, Self::VERSION)
    }
}

/// The fields of the record that a live spec lacks because the API server does not have [`PREEMPTION_GATE`]. A `disruptionMode` that was
/// dropped has its default in each response.
pub(crate) fn dropped_fields(live: &Value, record: &PodGroupSpec) -> Vec<&'static str> {
    let has_priority =
        record.priority_class_name.as_ref().is_none_or(|name| live["priorityClassName"] == name.as_str());
    let fields = [("disruptionMode", live["disruptionMode"] == DISRUPTION_MODE), ("priorityClassName", has_priority)];
    fields.into_iter().filter(|(_, is_stored)| !is_stored).map(|(field, _)| field).collect()
}

/// Whether the gang now has other minimums or another priority than its record. A clique that was scaled below its minimum cannot have that
/// many pods. The gang has only the priority of its set, and the record may have that of the pods.
pub(crate) fn differs_from_record(gang: &PodGang, cliques: &ByName<SlimClique>, record: &PodGroupSpec) -> bool {
    let minimums = gang.spec.podgroups.iter().map(|group| {
        let replicas = cliques.get(&group.name).map_or(i32::MAX, |clique| clique.replicas());
        group.min_replicas.min(replicas).max(0)
    });
    let min_count = minimums.fold(0, i32::saturating_add);
    let priority = gang.spec.priority_class_name.as_ref().filter(|name| !name.is_empty());
    let has_other_priority = priority.is_some() && priority != record.priority_class_name.as_ref();
    // A gang that is scaled to zero retains its minimum.
    (min_count != record.min_count && min_count > 0) || has_other_priority
}
