//! Volcano: the `PodGroup` of `scheduling.volcano.sh`, since Volcano 1.14.

use grove_api_types::labels::POD_CLIQUE;
use grove_api_types::scheduler::{Scheduler, volcano};
use grove_api_types::scheduler_v1alpha1::PodGang;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::min_member;

pub(super) const GROUP: &str = "scheduling.volcano.sh";
pub(super) const VERSION: &str = "v1beta1";

/// A gang without minimums keeps those of its `PodGroup`. Volcano's webhook may replace the default queue by that of the namespace.
pub(super) fn retained_fields(gang: &PodGang) -> &'static [&'static str] {
    match (min_member(gang) == 0, queue(gang).is_none()) {
        (false, false) => &[],
        (false, true) => &["queue"],
        (true, false) => &["minMember", "subGroupPolicy"],
        (true, true) => &["minMember", "subGroupPolicy", "queue"],
    }
}

/// Volcano requires minimums of at least 1.
pub(super) fn spec(gang: &PodGang) -> Value {
    let groups = gang.spec.podgroups.iter().map(|group| {
        json!({ "name": group.name, "labelSelector": { "matchLabels": { POD_CLIQUE: group.name } },
                "matchLabelKeys": [POD_CLIQUE], "subGroupSize": group.min_replicas.max(1), "minSubGroups": 1 })
    });
    json!({
        "minMember": min_member(gang).max(1),
        "queue": queue(gang).unwrap_or(volcano::DEFAULT_QUEUE),
        "priorityClassName": gang.spec.priority_class_name,
        "subGroupPolicy": groups.collect::<Vec<_>>(),
    })
}

/// Volcano has one condition per type, and replaces it in place.
pub(super) fn message(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?.iter();
    let latest = conditions.max_by_key(|condition| condition["lastTransitionTime"].as_str())?;
    latest["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
}

/// The queue of the gang. pcs-controller copies it from the set, or from the cliques if only these name it.
fn queue(gang: &PodGang) -> Option<&str> {
    Scheduler::Volcano.queues().named(gang.labels(), gang.annotations())
}
