//! The parts of desired children that sets and scaling groups share.

mod metadata;
pub(crate) mod pod_clique;

pub(crate) use metadata::{labels, metadata};
