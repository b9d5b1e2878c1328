//! What a daemon knows: the strategies decide from it, and the daemon changes it.

use super::ComputeDomainState;
use super::clique::ComputeDomainClique;
use super::entry::{self, Entry};
use super::state_object::{Object, StateObject};
use crate::names::ComputeDomainCliqueName;
use crate::resource_version::is_older;

/// The node, the pod and the domain of a daemon. They do not change while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The namespace of the domain.
    pub domain_namespace: String,
    /// The name of the domain.
    pub domain_name: String,
    /// The UID of the domain.
    pub domain_uid: String,
    /// The namespace of the daemons and of the objects of cliques.
    pub driver_namespace: String,
    /// The clique of the node. Empty without `NVLink` fabric.
    pub clique: String,
    /// The node.
    pub node: String,
    /// The name of the daemon's pod.
    pub pod_name: String,
    /// The UID of the daemon's pod.
    pub pod_uid: String,
    /// The address of the daemon's pod.
    pub pod_ip: String,
    /// The number of indices of a clique.
    pub max_nodes: usize,
}

impl Identity {
    /// The name of the object of the daemon's clique.
    pub fn clique_object_name(&self) -> String {
        ComputeDomainCliqueName::of_domain(&self.domain_uid, &self.clique).into()
    }
}

/// What a daemon knows.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct DaemonState {
    /// What does not change.
    pub identity: Identity,
    /// The newest known version of the object with the entries.
    pub(super) object: Option<StateObject>,
    /// Whether the own pod is ready; `None` until the watch has delivered the pod.
    pub(super) is_ready: Option<bool>,
    /// The index in the annotation of the own pod.
    pub(super) published: Option<i64>,
    /// The index that the object still had after the daemon had published it.
    pub(super) confirmed: Option<i64>,
    /// Whether another manager owned a field that the daemon applied, for example of an entry that an earlier version has written
    /// without server-side apply. The daemon takes the field over then.
    pub(super) applies_by_force: bool,
    /// The IMEX process, if it was started.
    pub imex: Option<Imex>,
    /// How far it is.
    pub(super) phase: Phase,
}

/// The peers of the IMEX process, which has been started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Imex {
    /// The index with which it runs.
    pub index: i64,
    /// The entries that it has read.
    pub peers: Vec<Entry>,
}

/// How far the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It runs.
    Running,
    /// It removes its entry.
    Stopping,
    /// It has applied that it has no entry any more.
    HasLeft,
}

impl DaemonState {
    pub(super) fn new(identity: Identity) -> Self {
        Self {
            identity,
            object: None,
            is_ready: None,
            published: None,
            confirmed: None,
            applies_by_force: false,
            imex: None,
            phase: Phase::Running,
        }
    }

    /// The entries of the object that the daemon has read.
    pub fn entries(&self) -> &[Entry] {
        self.object.as_ref().map_or(&[], StateObject::entries)
    }

    /// The resource version of the object that the daemon has read.
    pub(super) fn version(&self) -> Option<String> {
        self.object.as_ref()?.metadata().resource_version.clone()
    }

    /// The domain that the daemon has read, without entries.
    pub(super) fn domain(&self) -> Option<&ComputeDomainState> {
        match &*self.object.as_ref()?.object {
            Object::Domain(domain) => Some(domain),
            Object::Clique(_) => None,
        }
    }

    /// The object of the clique that the daemon has read, without entries.
    pub(super) fn clique(&self) -> Option<&ComputeDomainClique> {
        match &*self.object.as_ref()?.object {
            Object::Domain(_) => None,
            Object::Clique(clique) => Some(clique),
        }
    }

    /// The index of the daemon's pod in the object.
    pub(super) fn assigned_index(&self) -> Option<i64> {
        let own = entry::of_node(self.entries(), &self.identity.node)?;
        (own.ip_address == self.identity.pod_ip).then_some(own.index)
    }

    /// Stores the object, unless it is older than the known version. If it is that of another domain of the same name, the known one does
    /// not exist any more.
    pub(super) fn remember(&mut self, object: StateObject) {
        let is_older = self.object.as_ref().is_some_and(|known| is_older(object.metadata(), known.metadata()));
        if !is_older {
            self.object = Some(object).filter(|object| object.belongs_to(&self.identity.domain_uid));
        }
    }
}
