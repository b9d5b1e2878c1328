//! The desired children of a gang: none. The gang itself is a child of a set: `set/desired/pod_gang.rs`.

use grove_controller::children::ChildKinds;

use super::observed::GangOwner;

/// The kinds of children of a gang.
pub(crate) const CHILD_KINDS: ChildKinds<GangOwner> = ChildKinds::in_creation_order(&[]);
