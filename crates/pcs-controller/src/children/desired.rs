//! What all children have in common, whatever their kind or owner.

mod metadata;
mod pod_clique;

pub(crate) use metadata::{labels, metadata};
pub(crate) use pod_clique::pod_clique;
