//! The desired children of a scaling group: one file per kind. `set/desired.rs` describes how to add a kind.

use grove_controller::children::ChildKinds;

use super::observed::GroupOwner;

mod pod_clique;
mod resource_claim;

/// The kinds of children of a scaling group. Claims come before the cliques with the pods that use them.
pub(crate) const CHILD_KINDS: ChildKinds<GroupOwner> =
    ChildKinds::in_creation_order(&[&resource_claim::ResourceClaims, &pod_clique::PodCliques]);
