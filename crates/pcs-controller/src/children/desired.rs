//! The parts of desired children that sets and scaling groups share.

mod metadata;
mod pod_clique;

pub(crate) use metadata::{labels, metadata};
pub(crate) use pod_clique::pod_clique;
