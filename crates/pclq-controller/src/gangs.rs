//! The gangs of cliques: which pods have Grove's scheduling gate until a gang is scheduled (`gated_cliques`, `gating_gangs`), the number of pods
//! of a gang (`gang_pods`), and the `PodGroup` of the workload API that pods belong to. The steps of the reconciler of cliques are in files of the
//! same names. Another reconciler, `pod_references`, writes the references of gangs to pods.

mod gang_pods;
mod gated_cliques;
mod gating_gangs;
mod observe;
mod observed;
mod plan;
mod triggers;

pub(crate) use gang_pods::{PODS_BY_GANG, desired_pods};
pub(crate) use gated_cliques::BY_GATING_GANG;
#[cfg(test)]
pub(crate) use gated_cliques::{cliques_gated_by, gating_gang};
#[cfg(test)]
pub(crate) use gating_gangs::GatingGangState;
pub(crate) use gating_gangs::GatingGangs;
pub(crate) use observe::observe;
#[cfg(test)]
pub(crate) use observed::GatingGang;
pub(crate) use observed::{GatedPods, ObservedGang, incarnation, pod_group_of_new_pods, unreadable_annotations};
pub(crate) use plan::{remove_scheduling_gates, waiting_for_references};
#[cfg(test)]
pub(crate) use triggers::{changed_pod_groups, cliques_of_gang};
pub(crate) use triggers::{may_open_gates, watch};
