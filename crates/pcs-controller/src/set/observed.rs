//! What is known about a set and its children: plain data, and questions about it.

use grove_api_types::core::{PodClique, PodCliqueSet};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::scheduler_group::PodGang;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::children::ByName;

/// A set and the children it controls, as the caches have them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The set, with our defaults applied.
    pub set: PodCliqueSet,
    /// Its standalone cliques.
    pub(crate) cliques: ByName<PodClique>,
    /// Its gangs.
    pub(crate) gangs: ByName<PodGang>,
    /// Its Services.
    pub(crate) services: ByName<Service>,
}

impl Observed {
    /// Whether the set is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// The name of the set.
    pub fn name(&self) -> PodCliqueSetName {
        PodCliqueSetName::new(self.set.name_any())
    }

    /// The clique of this name.
    pub fn clique(&self, name: &str) -> Option<&PodClique> {
        self.cliques.get(name).map(AsRef::as_ref)
    }
}
