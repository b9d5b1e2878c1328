//! The snapshot of a domain, its cliques and its daemons: plain data and pure queries.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::compute_domain::assignment::{Assignment, assign};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPod;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::ComputeDomainCliqueName;
use kube::ResourceExt;

use super::domain::SyncedDomain;

/// A domain, the objects of its cliques, and the pods of its daemons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The domain.
    pub(crate) domain: SyncedDomain,
    /// The objects of its cliques.
    pub(crate) cliques: Vec<Arc<ComputeDomainClique>>,
    /// The pods of its daemons.
    pub(crate) pods: Vec<DaemonPod>,
    /// The namespace of the daemons and of the objects of cliques.
    pub(crate) namespace: String,
    /// Whether the status has the entries too.
    pub(crate) mirrors_nodes: bool,
}

/// The desired state of a clique.
#[derive(Clone, Debug)]
pub(crate) struct DesiredClique<'a> {
    /// The ID of the clique.
    pub(crate) id: String,
    /// The name of its object.
    pub(crate) name: ComputeDomainCliqueName,
    /// Its object, if it exists.
    pub(crate) object: Option<&'a ComputeDomainClique>,
    /// Its entries and owners.
    pub(crate) assignment: Assignment,
}

impl Observed {
    /// The cliques of the pods and of the objects.
    pub(crate) fn desired_cliques(&self) -> Vec<DesiredClique<'_>> {
        let uid = self.domain.uid().unwrap_or_default();
        let of_pods = self.pods.iter().filter_map(|pod| pod.clique.clone()).filter(|id| !id.is_empty());
        let of_objects = self.cliques.iter().filter_map(|clique| Some(clique.name_any().split_once('.')?.1.to_owned()));
        let ids: BTreeSet<String> = of_pods.chain(of_objects).collect();
        let desired = |id: String| {
            let name = ComputeDomainCliqueName::of_domain(&uid, &id);
            let object = self.object(&name);
            let current = object.map(|object| &object.daemons[..]).unwrap_or_default();
            let assignment = assign(&id, current, &self.pods, MAX_NODES_PER_CLIQUE);
            DesiredClique { id, name, object, assignment }
        };
        ids.into_iter().map(desired).collect()
    }

    /// Whether a clique gets entries and has no object. A terminating domain gets no objects.
    pub(crate) fn lacks_cliques(&self) -> bool {
        let uid = self.domain.uid().unwrap_or_default();
        let with_entry = self.pods.iter().filter(|pod| !pod.is_ending);
        let mut ids = with_entry.filter_map(|pod| pod.clique.as_deref()).filter(|id| !id.is_empty());
        !is_terminating(&self.domain)
            && ids.any(|id| self.object(&ComputeDomainCliqueName::of_domain(&uid, id)).is_none())
    }

    fn object(&self, name: &ComputeDomainCliqueName) -> Option<&ComputeDomainClique> {
        let has_name = |clique: &&Arc<ComputeDomainClique>| clique.metadata.name.as_deref() == Some(name.as_str());
        self.cliques.iter().find(has_name).map(|clique| &**clique)
    }
}
