//! The desired pods of a clique.

mod affinity;
mod env;
mod first_pods;
mod pod;

pub(crate) use first_pods::FirstPods;
pub(crate) use pod::{PodTemplate, common_labels};
