//! The object that contains the entries of a daemon's peers: the domain, or the object of its clique.

use std::fmt;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::ComputeDomainState;
use super::clique::ComputeDomainClique;
use super::entry::Entry;

/// A version of the object. Its entries are separate, in one form for both kinds.
#[derive(Clone, PartialEq)]
pub struct StateObject {
    /// The object without entries.
    pub(super) object: Box<Object>,
    pub(super) entries: Vec<Entry>,
}

/// The object without entries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    /// The domain.
    Domain(ComputeDomainState),
    /// The object of a clique.
    Clique(ComputeDomainClique),
}

impl From<ComputeDomainState> for StateObject {
    fn from(mut domain: ComputeDomainState) -> Self {
        let entries = std::mem::take(&mut domain.status.nodes).into_iter().map(Entry::from).collect();
        Self { object: Box::new(Object::Domain(domain)), entries }
    }
}

impl From<ComputeDomainClique> for StateObject {
    fn from(mut clique: ComputeDomainClique) -> Self {
        let entries = std::mem::take(&mut clique.daemons);
        Self { object: Box::new(Object::Clique(clique)), entries }
    }
}

impl fmt::Debug for StateObject {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("StateObject")
            .field("version", &self.metadata().resource_version)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl Hash for StateObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.metadata().resource_version, &self.entries).hash(state);
    }
}

impl StateObject {
    /// The entries of all daemons in the object.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The metadata of the object.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        match &*self.object {
            Object::Domain(domain) => &domain.metadata,
            Object::Clique(clique) => &clique.metadata,
        }
    }

    /// Whether the object belongs to the domain. A domain can be deleted and created again with the same name.
    pub(super) fn belongs_to(&self, domain_uid: &str) -> bool {
        match &*self.object {
            Object::Domain(domain) => domain.metadata.uid.as_deref() == Some(domain_uid),
            Object::Clique(clique) => clique.name_any().starts_with(&format!("{domain_uid}.")),
        }
    }
}
