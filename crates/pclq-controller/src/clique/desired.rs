//! The desired pods of a clique.

mod affinity;
mod env;
mod pod;

pub(crate) use pod::{PodTemplate, common_labels};
