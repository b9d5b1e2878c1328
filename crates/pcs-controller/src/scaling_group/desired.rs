//! The desired children of a scaling group: one file per kind. `set/desired.rs` describes how to add a kind.

use grove_controller::children::ChildKinds;

use super::observed::GroupOwner;

mod pod_clique;

/// The kinds of children of a scaling group.
pub(crate) const CHILD_KINDS: ChildKinds<GroupOwner> = ChildKinds::in_creation_order(&[&pod_clique::PodCliques]);
