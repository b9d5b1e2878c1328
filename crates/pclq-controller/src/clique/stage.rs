//! The names of a plan's stages.

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
