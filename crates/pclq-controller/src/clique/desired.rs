//! The desired pods and resource claims of a clique.

use grove_controller::children::ChildKinds;

use crate::clique_owner::CliqueOwner;

mod affinity;
mod env;
mod first_pods;
mod pod;
mod resource_claim;

pub(crate) use first_pods::FirstPods;
pub(crate) use pod::{PodTemplate, common_labels};

/// The children of a clique besides its pods.
pub(crate) const CLAIM_KINDS: ChildKinds<CliqueOwner> =
    ChildKinds::in_creation_order(&[&resource_claim::ResourceClaims]);
