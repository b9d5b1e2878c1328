//! The snapshot of a domain, its set, and the cliques and pods of its replica: plain data and pure queries.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::PodGangName;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::lost_owner::has_finalizer;

/// The set of a domain.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// No set controls the domain, and none gets it back.
    None,
    /// The cache does not have the set that controls the domain.
    NotCached(Box<SetReference>),
    /// The set is terminating.
    Terminating,
    /// The set exists.
    Active(Replica),
}

/// What a domain knows about its set: its name, namespace and UID.
#[derive(Clone, Debug, Default, Resource)]
#[resource(inherit = PodCliqueSet)]
pub(crate) struct SetReference {
    /// The metadata.
    pub(crate) metadata: ObjectMeta,
}

/// The replica of a set that uses a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// The name of the set.
    pub(crate) set: String,
    /// Its index; `None` if the labels of the domain do not name it. Then all replicas of the set count.
    pub(crate) index: Option<i32>,
    /// Its base gang, if the set needs the domain.
    pub(crate) base_gang: Option<PodGangName>,
}

/// A domain, and what uses it.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The domain.
    pub(crate) domain: ComputeDomain,
    /// Its set.
    pub(crate) owner: Owner,
    /// Whether the cache has a clique of the replica that may create pods, or a live pod of the replica.
    pub(crate) is_used: bool,
    /// Whether the API server confirmed the reason for the removal of the finalizer.
    pub(crate) confirmed: ConfirmationResult,
}

/// What the API server must confirm before the finalizer is removed.
#[derive(Clone, Debug)]
pub(crate) enum Confirmation {
    /// The set does not exist.
    SetDeleted(Box<SetReference>),
    /// The replica has no clique that may create pods, and no live pod, and its next cliques wait for the domain.
    ReplicaUnused(Replica),
}

/// Whether the API server confirmed a [`Confirmation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmationResult {
    /// No.
    No,
    /// The replica has no clique that may create pods, and no live pod. But pcs-controller creates its cliques again without waiting for the
    /// domain, because its base gang has references to pods.
    CliquesExpected,
    /// Yes.
    Yes,
}

impl Observed {
    /// What the API server must confirm; `None` if the finalizer stays in any case, or is removed in any case.
    pub(crate) fn confirmation(&self) -> Option<Confirmation> {
        if !has_finalizer(&self.domain) {
            return None;
        }
        match &self.owner {
            Owner::None | Owner::Terminating => None,
            Owner::NotCached(set) => Some(Confirmation::SetDeleted(set.clone())),
            Owner::Active(replica) => {
                let is_unused = is_terminating(&self.domain) && !self.is_used;
                is_unused.then(|| Confirmation::ReplicaUnused(replica.clone()))
            }
        }
    }

    /// Whether no pod needs the domain any more.
    pub(crate) fn is_releasable(&self) -> bool {
        match self.owner {
            Owner::None | Owner::Terminating => true,
            Owner::NotCached(_) | Owner::Active(_) => {
                self.confirmation().is_some() && self.confirmed == ConfirmationResult::Yes
            }
        }
    }
}
