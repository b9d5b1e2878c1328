//! The pods to create: one for each index without a live pod.

use std::sync::Arc;

use grove_api_types::events;
use grove_api_types::names::PodName;
use grove_controller::plan::{ManifestTemplate, SlowStart, Stage, Step};

use super::names::Names;
use super::{replacement, with_event};
use crate::clique::desired::PodTemplate;
use crate::clique::observed::Observed;
use crate::observed::CliqueIdentity;
use crate::stage::{self, MAX_STEPS};
use crate::startup;
use crate::write_history::is_pending;

/// The creates of one plan.
pub(super) struct PodCreates {
    /// The stage that creates the pods.
    pub(super) stage: Stage,
    /// Whether further pods are missing. The next plan creates them.
    pub(super) has_more: bool,
}

impl PodCreates {
    fn none() -> Self {
        Self { stage: Stage::new(stage::PODS, []), has_more: false }
    }
}

/// Creates pods at the `free` indices, lowest first. A pod waits if its watch event is pending, if its predecessors ended soon after
/// they started, if a claim that it uses cannot be used yet, if its `PodGroup` is undecided, if a clique that it starts after does not exist, or its
/// init container has no image, if the API server has just rejected pods of the
/// clique, while a pod or an annotation of the clique cannot be decoded, or while the namespace is terminating.
pub(super) fn pods(observed: &Observed, identity: &CliqueIdentity, free: &[i32]) -> PodCreates {
    let (clique, claims) = (observed.name(), &observed.claims);
    let is_unreadable = !observed.unreadable_pods.is_empty() || observed.unreadable_annotations().next().is_some();
    let is_blocked =
        is_unreadable || observed.backed_off.slow_start().is_none() || startup::waiting(&observed.startup).is_some();
    if free.is_empty() || is_blocked || observed.is_namespace_terminating || !claims.are_usable_by_all_pods(&clique) {
        return PodCreates::none();
    }
    let names = Names::of(observed);
    let due = free.iter().copied().filter(|index| !replacement::is_delayed(observed, free, *index));
    let due = due.filter(|index| claims.are_usable_by_pod(&clique, *index));
    let undecided = observed.gang.undecided_pods(&observed.clique).map_or(i32::MAX, |(first, _)| first);
    let due = due.filter(|index| *index < undecided);
    let candidates = due.map(|index| (index, names.for_index(index)));
    let missing = candidates.filter(|(_, name)| !is_pending(&observed.pending_creates, name.as_str()));
    let mut missing: Vec<_> = missing.take(MAX_STEPS + 1).collect();
    if missing.is_empty() {
        return PodCreates::none();
    }
    let has_more = missing.len() > MAX_STEPS;
    missing.truncate(MAX_STEPS);
    let slow_start = observed.backed_off.slow_start().map(|start| SlowStart {
        alternate: (start == SlowStart::RETRY).then(|| next_in_turn(&missing, observed.own_writes.last_create)),
        ..start
    });
    let template = Arc::new(PodTemplate::of(observed, identity));
    let create = |(index, name): (i32, PodName)| {
        let shared: Arc<dyn ManifestTemplate> = template.clone();
        Step::create_from_template(template.target(name), shared, index)
    };
    let stage = Stage::new(stage::PODS, missing.into_iter().map(create)).with_slow_start(slow_start);
    let reasons = (events::POD_CREATE_SUCCESSFUL, events::POD_CREATE_FAILED);
    let stage = with_event(stage, observed, reasons, "Created");
    PodCreates { stage, has_more }
}

/// The position of the create that a retry sends if the API server rejects the first one: that behind the last create of the attempt
/// before. So each index is tried in turn, and pods that are rejected for reasons of their own do not block the others. The first
/// create stays at the lowest index: if quota was released, that pod is needed most.
fn next_in_turn(missing: &[(i32, PodName)], last_create: Option<i32>) -> usize {
    let is_behind = |(index, _): &(i32, PodName)| last_create.is_some_and(|last| *index > last);
    missing.iter().position(is_behind).unwrap_or_default().max(1)
}
