//! The children a scaling group should have.

mod pod_clique;

pub(crate) use pod_clique::{Place, pod_clique};
