//! The desired children of a gang: one `PodGroup` in the API of its scheduler.

use grove_controller::children::ChildKinds;

use crate::pod_groups::{GangOwner, Kai, Volcano, WorkloadApi};

mod pod_group;

use pod_group::PodGroups;

/// The kinds of children of a gang: one row for each API of `pod_groups.rs`.
pub(crate) const CHILD_KINDS: ChildKinds<GangOwner> = ChildKinds::in_creation_order(&[
    &PodGroups::<WorkloadApi>::NEW,
    &PodGroups::<Kai>::NEW,
    &PodGroups::<Volcano>::NEW,
]);
