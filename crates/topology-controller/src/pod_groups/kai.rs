//! KAI: the `PodGroup` of `scheduling.run.ai`.

use grove_api_types::conditions::gang_scheduling;
use grove_api_types::labels::TOPOLOGY_NAME;
use grove_api_types::scheduler::{Scheduler, kai};
use grove_api_types::scheduler_v1alpha1::{PodGang, TopologyConstraint};
use grove_controller::plan::Waiting;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::min_member;

/// KAI's own annotation for the name of the topology.
const TOPOLOGY: &str = "kai.scheduler/topology";
/// KAI writes this label.
const NODE_POOL: &str = "kai.scheduler/node-pool";

pub(super) const GROUP: &str = "scheduling.run.ai";
pub(super) const VERSION: &str = "v2alpha2";
pub(super) const RETAINED_LABELS: &[&str] = &[kai::QUEUE, NODE_POOL];
pub(super) const RETAINED_FIELDS: &[&str] = &["queue"];
pub(super) const UNKNOWN_SPEC_EVENT: &str = "KAIBackendMappingFailed";

pub(super) fn spec(gang: &PodGang) -> Result<Value, Waiting> {
    let topology = topology(gang)?;
    let of_gang = levels(gang.spec.topology_constraint.as_ref());
    let constraint = |constraint: Option<&TopologyConstraint>| {
        let Levels { required, preferred } = levels(constraint);
        let is_some = required.is_some() || preferred.is_some();
        if is_some {
            json!({ "topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred })
        } else {
            Value::Null
        }
    };
    let configs =
        gang.spec.topology_constraint_group_configs.iter().filter(|config| !config.pod_group_names.is_empty());
    let parents = configs.clone().map(|config| {
        json!({ "name": config.name, "minSubGroup": config.pod_group_names.len(), "parent": null,
                "topologyConstraint": constraint(config.topology_constraint.as_ref()) })
    });
    let parent_of: Map<String, Value> = configs
        .flat_map(|config| config.pod_group_names.iter().map(|group| (group.clone(), json!(config.name))))
        .collect();
    let groups = gang.spec.podgroups.iter().map(|group| {
        json!({ "name": group.name, "minMember": group.min_replicas,
                "parent": parent_of.get(&group.name).cloned().unwrap_or_default(),
                "topologyConstraint": constraint(group.topology_constraint.as_ref()) })
    });
    let has_constraint = of_gang.required.is_some() || of_gang.preferred.is_some();
    Ok(json!({
        "minMember": min_member(gang),
        "queue": queue(gang)?,
        "priorityClassName": gang.spec.priority_class_name,
        "subGroups": parents.chain(groups).collect::<Vec<_>>(),
        "topologyConstraint": { "topology": has_constraint.then_some(topology).flatten(),
            "requiredTopologyLevel": of_gang.required, "preferredTopologyLevel": of_gang.preferred },
    }))
}

pub(super) fn message(status: &Value) -> Option<String> {
    let condition = status["schedulingConditions"].as_array()?.last()?;
    // Newer versions write a list of reasons, each with a message, in place of the message.
    let of_reasons = condition["reasons"].as_array().into_iter().flatten().map(|reason| &reason["message"]);
    let mut messages = [&condition["message"]].into_iter().chain(of_reasons).filter_map(Value::as_str);
    messages.find(|message| !message.is_empty()).map(str::to_owned)
}

/// The keys of node labels by which pods are packed.
#[derive(Clone, Copy, Default)]
struct Levels<'a> {
    required: Option<&'a str>,
    preferred: Option<&'a str>,
}

fn levels(constraint: Option<&TopologyConstraint>) -> Levels<'_> {
    let pack = constraint.and_then(|constraint| constraint.pack_constraint.as_ref());
    pack.map_or_else(Levels::default, |pack| Levels {
        required: pack.required.as_deref(),
        preferred: pack.preferred.as_deref(),
    })
}

/// The name of the topology; an error if a constraint needs one and the gang has none.
fn topology(gang: &PodGang) -> Result<Option<&str>, Waiting> {
    let annotation = |key: &str| gang.annotations().get(key).map(String::as_str).filter(|name| !name.is_empty());
    let name = annotation(TOPOLOGY_NAME).or_else(|| annotation(TOPOLOGY));
    let of_groups = gang.spec.podgroups.iter().map(|group| group.topology_constraint.as_ref());
    let of_configs =
        gang.spec.topology_constraint_group_configs.iter().map(|config| config.topology_constraint.as_ref());
    let all = of_groups.chain(of_configs).chain([gang.spec.topology_constraint.as_ref()]);
    let is_constrained = all.map(levels).any(|levels| levels.required.is_some() || levels.preferred.is_some());
    match name {
        None if is_constrained => {
            let message = format!("the gang has topology constraints and no annotation {TOPOLOGY_NAME}");
            Err(Waiting::new(gang_scheduling::TOPOLOGY_NAME_MISSING, message))
        }
        name => Ok(name),
    }
}

/// The queue of the gang. pcs-controller copies it from the set, or from the cliques if only these name it.
fn queue(gang: &PodGang) -> Result<&str, Waiting> {
    let queue = Scheduler::Kai.queues().named(gang.labels(), gang.annotations());
    queue.ok_or_else(|| {
        let message =
            format!("the gang has no label or annotation {}; the set or its cliques must name one queue", kai::QUEUE);
        Waiting::new(gang_scheduling::QUEUE_MISSING, message)
    })
}
