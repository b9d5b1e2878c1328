//! The desired children of a set: one pure builder per kind, independent of the existing children.

mod autoscaler;
mod headless_service;
mod pod_clique;
mod pod_gang;
mod scaling_group;

pub(crate) use autoscaler::autoscaler;
pub(crate) use headless_service::headless_service;
pub(crate) use pod_clique::pod_clique;
pub(crate) use pod_gang::pod_gang;
pub(crate) use scaling_group::scaling_group;
