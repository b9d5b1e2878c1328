//! The desired pods of a clique.

mod env;
mod pod;

pub(crate) use pod::{PodTemplate, common_labels};
