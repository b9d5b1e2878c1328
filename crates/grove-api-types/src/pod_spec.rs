//! The pod spec of a clique.

pub use crate::raw::RawPodSpec;
