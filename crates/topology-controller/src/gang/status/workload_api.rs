//! The condition `GangScheduling` of a gang, if its scheduler reads the workload API of Kubernetes.

use std::collections::BTreeMap;

use grove_api_types::conditions::gang_scheduling;
use grove_api_types::configuration::NativeGangs;
use grove_api_types::pack_affinity::digest;
use grove_api_types::pod_group::PodGroupRef;
use serde_json::Value;

use super::{GangScheduling, message_of_scheduler};
use crate::gang::observed::Observed;
use crate::pod_groups::workload_api::{
    POD_GROUP_SCHEDULED, dropped_fields, has_other_constraints, has_other_minimums, has_other_priority, is_successor,
    packing,
};
use crate::pod_groups::{PodGroup, WorkloadApi};

const UNBOUND: &str = "no pod of the gang is bound, for example after its restart";
const NATIVE_GANGS_OFF: &str = "nativeGangs is off";
const CREATED_WITHOUT_POD_GROUP: &str = "the gang was created without a PodGroup, which a restart of the gang (the deletion of \
                                         all its cliques) changes, or the pods of its set name a schedulingGroup";

/// Whether the scheduler schedules the pods of the gang together. The plan waits for nothing, and no write was rejected.
pub(super) fn gang_scheduling(observed: &Observed) -> GangScheduling {
    let Ok(Some(PodGroupRef { name, spec: record })) = PodGroupRef::of_gang(&observed.gang) else {
        return GangScheduling::by_none(gang_scheduling::PODS_SCHEDULED_INDIVIDUALLY, individually(observed));
    };
    let live = observed.live_pod_group();
    if live.is_some() && has_scheduled_pods(observed) && !has_considered_pod_group(observed) {
        let scheduler = observed.scheduler.name();
        let message = format!(
            "pods of the gang are scheduled, but PodGroup {name} has no condition {POD_GROUP_SCHEDULED}; enable the feature gates \
             GenericWorkload and GangScheduling of {scheduler}"
        );
        return GangScheduling::by_none(gang_scheduling::SCHEDULER_IGNORES_POD_GROUPS, message);
    }
    let message = message_of_scheduler(observed);
    let details = details(observed, &PodGroupRef { name, spec: record }, live.map(|live| live.spec));
    let message = [message].into_iter().chain(details).collect::<Vec<_>>().join("; ");
    GangScheduling::by_scheduler(observed, message)
}

/// What differs from the record of the incarnation, and how the gang is packed.
fn details(observed: &Observed, PodGroupRef { name, spec: record }: &PodGroupRef, live: Option<&Value>) -> Vec<String> {
    let mut details = Vec::new();
    let dropped = live.map(|live| dropped_fields(live, record)).unwrap_or_default();
    let mut by_gate: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, gate) in dropped {
        by_gate.entry(gate).or_default().push(field);
    }
    for (gate, fields) in by_gate {
        let fields = fields.join(" and ");
        details.push(format!("the API server dropped {fields} because its feature gate {gate} is off"));
    }
    if is_successor(&observed.gang, name) {
        details.push(format!(
            "PodGroup {name} has the pods that were not bound when it began, and the others stay in an earlier one until {UNBOUND}"
        ));
    } else if has_other_minimums(&observed.gang, &observed.cliques, record) {
        details.push(
            "the minimums of the gang have changed, and the PodGroup of its next pods has the new ones".to_owned(),
        );
    }
    if has_other_priority(&observed.gang, record) {
        details.push(format!("the priority of the gang has changed, which takes effect when {UNBOUND}"));
    }
    if has_other_constraints(&observed.gang, record) {
        details.push(format!(
            "the topology constraints of the gang have changed; those of the whole gang take effect when {UNBOUND}"
        ));
    } else {
        details.extend(packing(&observed.gang, record, live));
    }
    details
}

/// Whether the scheduler has considered a `PodGroup` of the gang. A successor has no pods if all were bound to nodes as pods of an earlier one,
/// which exists as long as they do.
fn has_considered_pod_group(observed: &Observed) -> bool {
    observed.children.of_kind::<PodGroup<WorkloadApi>>().any(|group| group.as_live().message.is_some())
}

fn has_scheduled_pods(observed: &Observed) -> bool {
    observed.cliques.values().any(|clique| clique.scheduled_replicas() > 0)
}

/// Why the scheduler schedules each pod on its own.
fn individually(observed: &Observed) -> String {
    let cause = match (observed.native_gangs, observed.unavailable()) {
        (NativeGangs::Off, _) => NATIVE_GANGS_OFF.to_owned(),
        (NativeGangs::Auto, Some(unavailable)) => unavailable.message,
        (NativeGangs::Auto, None) => CREATED_WITHOUT_POD_GROUP.to_owned(),
    };
    let constraints =
        digest(&observed.gang.spec).map(|_| "; its topology constraints have no effect").unwrap_or_default();
    format!("{} schedules each pod of the gang on its own: {cause}{constraints}", observed.scheduler.name())
}
