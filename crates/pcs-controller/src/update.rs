//! Updates of sets ([ADR 35](../../../docs/adr/0035-rolling-updates.md)). Each template of a set is stored as a `ControllerRevision`
//! (`revisions`). The objects of a replica name the revision that the replica is built from. A replica of a set (`set/observed/update.rs`) or of a
//! scaling group (`scaling_group/observed/update.rs`) keeps its revision until its turn (`turns`), and an earlier revision is read when it is needed (`live_reads`). pclq-controller
//! replaces the pods, `status` reports the progress, and `metrics` sums it up.

mod live_reads;
mod metrics;
mod revisions;
mod status;
mod turns;

pub(crate) use live_reads::read_revisions;
pub(crate) use metrics::{UpdateDurations, register_gauges};
#[cfg(test)]
pub(crate) use revisions::SlimRevision;
pub(crate) use revisions::{History, RevisionOwner, Revisions, exceeds_limit, informer_options};
pub(crate) use status::{
    Awaited, GroupFacts, SetFacts, group_condition, group_deadline, group_progress, set_condition, set_progress,
};
pub(crate) use turns::{ReplicaState, Turns, child_needs_reconcile, earlier_revisions, has_changed, is_open};
