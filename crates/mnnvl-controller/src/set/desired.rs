//! The desired children of a set in this service: its domains.

use grove_controller::children::ChildKinds;

use crate::set_owner::SetOwner;

mod compute_domain;

/// The kinds of children of a set.
pub(crate) const CHILD_KINDS: ChildKinds<SetOwner> = ChildKinds::in_creation_order(&[&compute_domain::ComputeDomains]);
