//! What is known about a set and its children: plain data, and questions about it.

use std::sync::Arc;

use grove_api_types::core::{PodClique, PodCliqueSet};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::scheduler_group::PodGang;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

/// A set and the children it controls, as the caches have them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The set, with our defaults applied.
    pub set: PodCliqueSet,
    /// Its cliques, sorted by name.
    pub cliques: Vec<Arc<PodClique>>,
    /// Its gangs, sorted by name.
    pub gangs: Vec<Arc<PodGang>>,
    /// Its Services, sorted by name.
    pub services: Vec<Arc<Service>>,
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

    /// The clique of this name, unless it is being deleted.
    pub fn clique(&self, name: &str) -> Option<&PodClique> {
        self.cliques.iter().map(Arc::as_ref).find(|clique| clique.name_any() == name)
    }
}
