//! The snapshot of a domain, and whether its set and its pods still need it: plain data and pure queries.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::lost_owner::has_finalizer;

/// Whether a set needs a domain.
#[derive(Clone, Debug)]
pub(crate) enum DomainNeed {
    /// A set needs it.
    Needed(Replica),
    /// No set needs it: its set was scaled in, is terminating or does not exist.
    NotNeeded(Replica),
    /// The cache does not have the set that controls it.
    Unknown(Replica, Box<SetReference>),
    /// It is not a domain of Grove: no set controls it, and it does not have the labels of a set.
    Foreign,
}

/// What a domain knows about its set: its name, namespace and UID.
#[derive(Clone, Debug, Default, Resource)]
#[resource(inherit = PodCliqueSet)]
pub(crate) struct SetReference {
    /// The metadata.
    pub(crate) metadata: ObjectMeta,
}

/// The replica of a set whose pods use a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// The name of the set.
    pub(crate) set: String,
    /// Its index; `None` if the name of the domain has none. Then all replicas of the set count.
    pub(crate) index: Option<i32>,
}

/// What retains a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention<'a> {
    /// Its set.
    Set,
    /// The pods with a claim of it. The others wait for a claim of the next domain.
    Claims(&'a Replica),
    /// The pods that name its claim template and have not ended, and the cliques of the replica that may create such pods.
    PodsAndCliques(&'a Replica),
    /// Nothing.
    Nothing,
}

/// A domain, and what uses it.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The domain.
    pub(crate) domain: ComputeDomain,
    /// Whether a set needs it.
    pub(crate) need: DomainNeed,
    /// Whether the caches have something that retains it.
    pub(crate) is_used: bool,
    /// Whether the API server confirmed that nothing retains it.
    pub(crate) is_confirmed: bool,
}

/// What happens to a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Nothing.
    No,
    /// Grove's finalizer is removed.
    Finalizer,
    /// It is deleted. The reconcile that follows removes Grove's finalizer.
    Deletion,
}

/// What retains the domain.
///
/// NVIDIA's driver stops a domain as soon as it has a deletion timestamp, although it has other finalizers. So Grove deletes a domain only after its
/// last pod has ended. The finalizer cannot retain the fabric of a domain that a user deleted. It retains the name: the next domain is
/// created when no pod has a claim of the old one.
pub(crate) fn retention<'a>(domain: &ComputeDomain, need: &'a DomainNeed) -> Retention<'a> {
    match (need, is_terminating(domain)) {
        (DomainNeed::Needed(_), false) => Retention::Set,
        (DomainNeed::Needed(replica), true) => Retention::Claims(replica),
        (DomainNeed::NotNeeded(replica) | DomainNeed::Unknown(replica, _), false) => Retention::PodsAndCliques(replica),
        (DomainNeed::NotNeeded(_) | DomainNeed::Unknown(..), true) | (DomainNeed::Foreign, _) => Retention::Nothing,
    }
}

impl Observed {
    /// What retains the domain.
    pub(crate) fn retention(&self) -> Retention<'_> {
        retention(&self.domain, &self.need)
    }

    /// Whether the domain is released if the API server confirms that nothing retains it.
    pub(crate) fn may_be_released(&self) -> bool {
        has_finalizer(&self.domain) && !self.is_used && self.retention() != Retention::Set
    }

    /// What happens to the domain.
    pub(crate) fn release(&self) -> Release {
        match (self.may_be_released() && self.is_confirmed, self.retention()) {
            (false, _) => Release::No,
            (true, Retention::PodsAndCliques(_)) => Release::Deletion,
            (true, Retention::Set | Retention::Claims(_) | Retention::Nothing) => Release::Finalizer,
        }
    }
}
