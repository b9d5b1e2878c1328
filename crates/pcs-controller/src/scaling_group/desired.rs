//! The desired children of a scaling group.

mod pod_clique;

pub(crate) use pod_clique::{CliqueContext, pod_clique};
