//! The desired pods of a clique.

mod affinity;
mod decorators;
mod env;
mod first_pods;
mod pod;

pub(crate) use decorators::common_labels;
#[cfg(test)]
pub(crate) use decorators::{Add, CommonParts, DECORATORS, OwnParts, PodsOfClique};
pub(crate) use first_pods::FirstPods;
pub(crate) use pod::PodTemplate;
