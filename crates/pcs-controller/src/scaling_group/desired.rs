//! The desired children of a scaling group: one file per kind. `set/desired.rs` describes how to add a kind.

use grove_controller::children::ChildKinds;

use super::observed::GroupOwner;
use crate::claims::ResourceClaims;

mod pod_clique;

/// The kinds of children of a scaling group. Claims come before the cliques with the pods that use them.
pub(crate) const CHILD_KINDS: ChildKinds<GroupOwner> =
    ChildKinds::in_creation_order(&[&ResourceClaims::<GroupOwner>::ROW, &pod_clique::PodCliques]);
