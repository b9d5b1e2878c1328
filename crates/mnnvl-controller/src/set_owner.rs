//! Sets as owners of domains, and the input of the desired domains. Pure.

use grove_api_types::mnnvl::RequiredDomain;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::OwnerKind;
use grove_controller::plan::Waiting;
use grove_controller::status_patch::StatusOwnership;

/// Sets as owners of domains.
#[derive(Debug)]
pub(crate) struct SetOwner;

impl OwnerKind for SetOwner {
    type Object = PodCliqueSet;
    type Expansion<'a> = SetExpansion<'a>;
    const STATUS_OWNERSHIP: StatusOwnership = StatusOwnership::SharedConditions;
}

/// A set with everything that its domains are computed from.
#[derive(Debug)]
pub(crate) struct SetExpansion<'a> {
    /// The set.
    pub(crate) set: &'a PodCliqueSet,
    /// The domains that it needs.
    pub(crate) domains: Vec<RequiredDomain<'a>>,
    /// The UID of its namespace; `None` if the cache does not have it.
    pub(crate) namespace_uid: Option<String>,
    /// Why no domain can be created.
    pub(crate) unavailable: Option<Waiting>,
}
