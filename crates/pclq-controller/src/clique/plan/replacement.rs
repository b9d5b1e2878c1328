//! Which replacements of pods wait, and the message about them. `replacement_backoff.rs` computes the delays. Function `finished` in
//! `clique/plan.rs` deletes the ended pods.

use std::time::Duration;

use grove_api_types::conditions::available;
use grove_api_types::text::join_names;
use grove_controller::plan::Waiting;

use crate::clique::observed::Observed;

/// The message contains this many indices; it only counts the others.
const MAX_NAMED: usize = 10;

/// Whether the pod at this index is replaced later. `free` are the indices without a live pod, in ascending order.
pub(super) fn is_delayed(observed: &Observed, free: &[i32], index: i32) -> bool {
    observed.delayed_replacements.contains_key(&index) && free.binary_search(&index).is_ok()
}

/// The time to the first replacement.
pub(super) fn shortest_delay(observed: &Observed, free: &[i32]) -> Option<Duration> {
    let delayed = observed.delayed_replacements.iter().filter(|(index, _)| is_delayed(observed, free, **index));
    delayed.map(|(_, delay)| *delay).min()
}

/// The reason for not replacing pods now. Its message does not contain the remaining time, so that the status stays the same.
pub(super) fn waiting(observed: &Observed, free: &[i32]) -> Option<Waiting> {
    let delayed = observed.delayed_replacements.keys().filter(|index| is_delayed(observed, free, **index));
    let indices: Vec<_> = delayed.map(ToString::to_string).collect();
    let message = || {
        let indices = join_names(&indices, MAX_NAMED);
        format!(
            "pods that ended soon after they started are replaced with exponential backoff, from 10 s to 5 min; indices: {indices}"
        )
    };
    (!indices.is_empty()).then(|| Waiting::new(available::POD_REPLACEMENT_BACKOFF, message()))
}
