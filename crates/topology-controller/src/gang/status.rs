//! The conditions of a gang about its scheduling. When they are written: `grove-controller/src/status_limiter.rs`. pcs-controller writes the
//! other conditions and the phase.

use grove_api_types::conditions::{self, gang_scheduling, scheduled};
use grove_api_types::scheduler::GangSupport;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGangStatus};
use grove_api_types::text::join_names;
use grove_controller::conditions::{ConditionUpdate, is_status_condition_true, set_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::rejections::{RejectedObjects, rejection_message};
use grove_controller::status_limiter::StatusChange;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

mod workload_api;

/// A message has this many names of cliques; it only counts the others.
const MAX_NAMED: usize = 3;

/// Whether a scheduler schedules the pods of a gang together.
struct GangScheduling {
    holds: bool,
    reason: String,
    message: String,
}

impl GangScheduling {
    /// The scheduler of the gang does. The reason names it.
    fn by_scheduler(observed: &Observed, message: String) -> Self {
        Self { holds: true, reason: camel_case(observed.scheduler.name()), message }
    }

    /// No scheduler does, for this reason.
    fn by_none(reason: &str, message: String) -> Self {
        Self { holds: false, reason: reason.to_owned(), message }
    }
}

/// The status of the gang, in which only the conditions of this service differ.
pub(crate) fn status(observed: &Observed, plan: &Plan, result: &ExecutionResult, now: Timestamp) -> PodGangStatus {
    let mut status = observed.gang.status.clone().unwrap_or_default();
    set_status_condition(&mut status.conditions, scheduled_condition(observed), now);
    set_status_condition(&mut status.conditions, gang_scheduling_condition(observed, plan, result), now);
    status
}

/// A change is significant if the gang loses its scheduled pods outside of an update, or the cause why no scheduler schedules it as a gang changes. A
/// scheduler may change its message every second, so another message is a minor change. Until its pods are scheduled, the gang is being started.
pub(crate) fn status_change(observed: &Observed, new: &PodGangStatus) -> StatusChange {
    let is_scheduled = |status: &PodGangStatus| is_status_condition_true(&status.conditions, conditions::SCHEDULED);
    let old = observed.gang.status.as_ref();
    let loses_pods = old.is_some_and(is_scheduled) && !is_scheduled(new) && !observed.is_updating();
    let has_other_cause = old.and_then(cause) != cause(new);
    match (loses_pods || has_other_cause, is_scheduled(new)) {
        (true, _) => StatusChange::Significant,
        (false, true) => StatusChange::Minor,
        (false, false) => StatusChange::Starting,
    }
}

/// Why no scheduler schedules the gang as one, unless its scheduler never does.
fn cause(status: &PodGangStatus) -> Option<&str> {
    let condition = status.conditions.iter().find(|condition| condition.type_ == conditions::GANG_SCHEDULING)?;
    let is_failure = condition.status == "False" && !gang_scheduling::NORMAL.contains(&condition.reason.as_str());
    is_failure.then_some(condition.reason.as_str())
}

fn scheduled_condition(observed: &Observed) -> ConditionUpdate {
    let lacks_pods = |group: &&GangPodGroup| {
        let clique = observed.cliques.get(&group.name);
        clique.is_none_or(|clique| clique.scheduled_replicas() < group.required_replicas(Some(clique.replicas())))
    };
    let lacking = observed.gang.spec.podgroups.iter().filter(lacks_pods).map(|group| group.name.as_str());
    let lacking: Vec<_> = lacking.collect();
    let (reason, message) = if lacking.is_empty() {
        (scheduled::SUFFICIENT_SCHEDULED_PODS, "every clique has its minimum of scheduled pods".to_owned())
    } else {
        let message = format!("fewer scheduled pods than the minimum: {}", join_names(&lacking, MAX_NAMED));
        (scheduled::INSUFFICIENT_SCHEDULED_PODS, message)
    };
    condition(conditions::SCHEDULED, lacking.is_empty(), reason.to_owned(), message)
}

/// The reason names the scheduler, or the cause if none schedules the pods of the gang together.
fn gang_scheduling_condition(observed: &Observed, plan: &Plan, result: &ExecutionResult) -> ConditionUpdate {
    let waiting = plan.waiting.first().map(|waiting| (waiting.reason, waiting.message.clone()));
    let rejection = rejection_message(result, &observed.backed_off, RejectedObjects::Named);
    let scheduling = match (observed.scheduler.gang_support(), rejection.or(waiting)) {
        (_, Some((reason, message))) => GangScheduling::by_none(reason, message),
        (GangSupport::OwnPodGroups, None) => GangScheduling::by_scheduler(observed, message_of_scheduler(observed)),
        (GangSupport::WorkloadApi, None) => workload_api::gang_scheduling(observed),
        (GangSupport::None, None) => {
            let name = observed.scheduler.name();
            let message = format!("Grove creates no object for {name} that describes the gang");
            GangScheduling::by_none(gang_scheduling::NO_POD_GROUP, message)
        }
    };
    let GangScheduling { holds, reason, message } = scheduling;
    condition(conditions::GANG_SCHEDULING, holds, reason, message)
}

/// What the scheduler reports about the `PodGroup` of the gang.
fn message_of_scheduler(observed: &Observed) -> String {
    let name = observed.scheduler.name();
    observed.live_pod_group().and_then(|live| live.message).map_or_else(
        || format!("{name} schedules the PodGroup of the gang"),
        |message| format!("{name} reports: {message}"),
    )
}

/// `MyScheduler` for `my-scheduler`.
fn camel_case(name: &str) -> String {
    let capitalized = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(capitalized).collect()
}

/// Without a generation, as in the Go operator: each pod reference is a new one, and says nothing about the conditions.
fn condition(type_: &'static str, holds: bool, reason: String, message: String) -> ConditionUpdate {
    ConditionUpdate { type_, status: holds.into(), reason, message, observed_generation: None }
}
