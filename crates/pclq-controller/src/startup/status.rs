//! Which parents the pods of a clique wait for: a part of the condition `Available`. Pure.

use grove_api_types::text::join_names;
use grove_controller::slim_pod::SlimPod;

use crate::observed::ObservedClique;

use super::observed::ObservedStartup;

/// The message has this many names; it only counts the others.
const MAX_NAMED: usize = 5;

/// The parents that need more ready pods, with their counts, if pods of the clique wait for them. A pod that has started does not wait again.
pub(crate) fn waiting_pods(clique: &ObservedClique, startup: &ObservedStartup) -> Option<String> {
    let not_ready: Vec<_> = startup
        .not_ready()
        .map(|(name, required, ready)| format!("PodClique {name} ({ready} of {required} ready)"))
        .collect();
    let waits = |pod: &SlimPod| pod.is_scheduled() && !pod.is_initialized();
    (!not_ready.is_empty() && clique.live().any(waits))
        .then(|| format!("pods start after {}", join_names(&not_ready, MAX_NAMED)))
}
