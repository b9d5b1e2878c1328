//! The condition `GangScheduling` of a gang whose scheduler reads the workload API of Kubernetes.

use grove_api_types::conditions::gang_scheduling;
use grove_api_types::configuration::NativeGangs;
use grove_api_types::pod_group::PodGroupRef;

use super::{GangScheduling, message_of_scheduler};
use crate::gang::observed::Observed;
use crate::pod_groups::workload_api::{POD_GROUP_SCHEDULED, PREEMPTION_GATE, differs_from_record, dropped_fields};

const NATIVE_GANGS_OFF: &str = "nativeGangs is off";
const CREATED_WITHOUT_POD_GROUP: &str = "the gang was created without a PodGroup, which a restart of the gang (the deletion of \
                                         all its cliques) changes, or the pods of its set name a schedulingGroup";

/// Whether the scheduler schedules the pods of the gang together. The plan waits for nothing, and no write was rejected.
pub(super) fn gang_scheduling(observed: &Observed) -> GangScheduling {
    let Some(PodGroupRef { name, spec: record }) = PodGroupRef::of_gang(&observed.gang) else {
        return GangScheduling::by_none(gang_scheduling::PODS_SCHEDULED_INDIVIDUALLY, individually(observed));
    };
    let live = observed.live_pod_group();
    if live.is_some_and(|live| live.message.is_none()) && has_scheduled_pods(observed) {
        let scheduler = observed.scheduler.name();
        let message = format!(
            "pods of the gang are scheduled, but PodGroup {name} has no condition {POD_GROUP_SCHEDULED}; enable the feature gates \
             GenericWorkload and GangScheduling of {scheduler}"
        );
        return GangScheduling::by_none(gang_scheduling::SCHEDULER_IGNORES_POD_GROUPS, message);
    }
    let mut message = message_of_scheduler(observed);
    let dropped = live.map(|live| dropped_fields(live.spec, &record)).unwrap_or_default();
    if !dropped.is_empty() {
        let fields = dropped.join(" and ");
        let cause = format!("; the API server dropped {fields} because its feature gate {PREEMPTION_GATE} is off");
        message.push_str(&cause);
    }
    if differs_from_record(&observed.gang, &observed.cliques, &record) {
        message += "; the minimums or the priority of the gang have changed, which takes effect with the next restart of the gang";
    }
    GangScheduling::by_scheduler(observed, message)
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
    format!("{} schedules each pod of the gang on its own: {cause}", observed.scheduler.name())
}
