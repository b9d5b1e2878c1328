//! Volcano: the `PodGroup` of `scheduling.volcano.sh`, since Volcano 1.14.

use grove_api_types::labels::POD_CLIQUE;
use grove_api_types::scheduler::{Scheduler, volcano};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::plan::Waiting;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{PodGroupApi, min_member};

/// The API of Volcano.
#[derive(Debug)]
pub(crate) struct Volcano;

impl PodGroupApi for Volcano {
    const SCHEDULER: Scheduler = Scheduler::Volcano;
    const GROUP: &'static str = "scheduling.volcano.sh";
    const RETAINED_LABELS: &'static [&'static str] = &[];
    const HAS_ANNOTATIONS: bool = false;
    const UNKNOWN_SPEC_EVENT: &'static str = "";

    /// A gang without minimums keeps those of its `PodGroup`. Volcano's webhook may replace the default queue by that of the namespace.
    fn version() -> &'static str {
        "v1beta1"
    }

    fn retained_fields(gang: &PodGang) -> &'static [&'static str] {
        match (min_member(gang) == 0, queue(gang).is_none()) {
            (false, false) => &[],
            (false, true) => &["queue"],
            (true, false) => &["minMember", "subGroupPolicy"],
            (true, true) => &["minMember", "subGroupPolicy", "queue"],
        }
    }

    /// Volcano requires minimums of at least 1.
    fn spec(gang: &PodGang) -> Result<Value, Waiting> {
        let groups = gang.spec.podgroups.iter().map(|group| {
            json!({ "name": group.name, "labelSelector": { "matchLabels": { POD_CLIQUE: group.name } },
                "matchLabelKeys": [POD_CLIQUE], "subGroupSize": group.min_replicas.max(1), "minSubGroups": 1 })
        });
        Ok(json!({
            "minMember": min_member(gang).max(1),
            "queue": queue(gang).unwrap_or(volcano::DEFAULT_QUEUE),
            "priorityClassName": gang.spec.priority_class_name,
            "subGroupPolicy": groups.collect::<Vec<_>>(),
        }))
    }

    /// Volcano has one condition per type, and replaces it in place.
    fn message(status: &Value) -> Option<String> {
        let conditions = status["conditions"].as_array()?.iter();
        let latest = conditions.max_by_key(|condition| condition["lastTransitionTime"].as_str())?;
        latest["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
    }
}

/// The queue of the gang. pcs-controller copies it from the set, or from the cliques if only these name it.
fn queue(gang: &PodGang) -> Option<&str> {
    Scheduler::Volcano.queues().named(gang.labels(), gang.annotations())
}
