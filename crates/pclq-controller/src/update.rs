//! Updates of the pods of a clique ([ADR 35](../../../docs/adr/0035-rolling-updates.md)): which outdated pods are replaced now (`plan`), and the
//! progress (`status`). pcs-controller decides when it is the turn of the clique, and writes the new template together with the turn.

mod plan;
mod status;

pub(crate) use plan::{
    awaits_status, count_available, count_outdated, delay, has_begun, may_be_next_turn, pods_to_replace,
};
pub(crate) use status::{PodCounts, progress, state};
