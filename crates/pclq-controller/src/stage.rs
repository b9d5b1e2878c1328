//! The stages of a plan: their names, and their largest size.

use grove_controller::plan::{Stage, Step};

/// The largest number of steps of a stage, so that the memory and the time of a plan have a bound. The watch events of these writes
/// trigger the next plan.
pub(crate) const MAX_STEPS: usize = 2048;

/// Removes the finalizer of the Go operator from a terminating clique.
pub(crate) const FINALIZERS: &str = "finalizers";
/// Adopts pods that have lost their owner reference.
pub(crate) const ADOPTION: &str = "adoption";
/// Restores the labels of pods.
pub(crate) const LABELS: &str = "labels";
/// Removes the scheduling gates of pods.
pub(crate) const GATES: &str = "gates";
/// Creates and deletes pods.
pub(crate) const PODS: &str = "pods";
/// Creates, restores and deletes resource claims.
pub(crate) const CLAIMS: &str = "resource-claims";

/// The stage of this name with the first [`MAX_STEPS`] steps.
pub(crate) fn bounded(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Stage {
    Stage::new(name, steps.into_iter().take(MAX_STEPS))
}
