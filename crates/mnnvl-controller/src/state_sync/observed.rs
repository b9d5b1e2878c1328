//! The snapshot of a domain and its objects: plain data and pure queries.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use grove_api_types::compute_domain::STRATEGY_ANNOTATION;
use grove_api_types::compute_domain::assignment::{Assignment, assign, loses_entries, nodes_with_two_daemons};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPod;
use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::stale_entries::stale_entries;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::ComputeDomainCliqueName;
use kube::ResourceExt;

use super::domain::SyncedDomain;
use super::objects::{ClaimTarget, SlimClaimTemplate, SlimDaemonSet, SlimNode};

/// A domain, the objects of its cliques, the pods of its daemons, and the other objects with its label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The domain.
    pub(crate) domain: SyncedDomain,
    /// The objects of its cliques.
    pub(crate) cliques: Vec<Arc<ComputeDomainClique>>,
    /// The pods of its daemons.
    pub(crate) pods: Vec<DaemonPod>,
    /// Its `DaemonSet`, if it exists.
    pub(crate) daemon_set: Option<Arc<SlimDaemonSet>>,
    /// Its claim templates.
    pub(crate) claim_templates: Vec<Arc<SlimClaimTemplate>>,
    /// Its nodes.
    pub(crate) nodes: Vec<Arc<SlimNode>>,
    /// Another manager of its state.
    pub(crate) other_manager: Option<String>,
    /// What applies to all domains.
    pub(crate) settings: Arc<Settings>,
}

/// What applies to all domains.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The namespace of the daemons and of the objects of cliques.
    pub(crate) namespace: String,
    /// The strategy of new domains.
    pub(crate) strategy: Strategy,
    /// Whether the status has the entries too, although the objects of cliques have them.
    pub(crate) mirrors_nodes: bool,
    /// The image of the daemons.
    pub(crate) daemon_image: String,
}

impl Settings {
    /// The settings of a service in this namespace.
    pub(crate) fn new(config: &OperatorConfiguration, namespace: &str) -> Self {
        let domains = &config.compute_domains;
        Self {
            namespace: namespace.to_owned(),
            strategy: domains.strategy(),
            mirrors_nodes: domains.mirror_nodes,
            daemon_image: domains.daemon_image().to_owned(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(&OperatorConfiguration::default(), "")
    }
}

/// Why Grove does not synchronize a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A field manager that is not one of Grove's writes its state.
    OtherManager(String),
    /// Its annotation has no known strategy.
    UnknownStrategy(String),
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherManager(manager) => write!(
                f,
                "the field manager {manager} writes the state of this ComputeDomain too, so Grove does not; delete the ComputeDomain, stop \
                 {manager} and create it again, or set computeDomain.stateSync to external"
            ),
            Self::UnknownStrategy(name) => {
                let known = Strategy::ALL.map(|(name, _)| name).join(", ");
                write!(
                    f,
                    "the annotation {STRATEGY_ANNOTATION} has the value {name:?}, which is none of {known}; correct it if a user changed it, \
                     otherwise create the ComputeDomain again"
                )
            }
        }
    }
}

/// The desired state of a clique.
#[derive(Clone, Debug)]
pub(crate) struct DesiredClique {
    /// The ID of the clique.
    pub(crate) id: String,
    /// The name of its object.
    pub(crate) name: ComputeDomainCliqueName,
    /// Its object, if it exists.
    pub(crate) object: Option<Arc<ComputeDomainClique>>,
    /// Its entries and owners.
    pub(crate) assignment: Assignment,
}

impl Observed {
    /// Why the domain is not synchronized.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        if let Some(manager) = &self.other_manager {
            return Some(Obstacle::OtherManager(manager.clone()));
        }
        let name = self.domain.strategy_name().filter(|name| Strategy::of_name(name).is_none())?;
        Some(Obstacle::UnknownStrategy(name.to_owned()))
    }

    /// Whether Grove stops the domain when it is deleted, although something prevents its synchronization: the annotation shows that it created
    /// the objects of the domain, or no other manager protects them. Otherwise the domain would never end, and retain its nodes.
    pub(crate) fn may_be_stopped(&self) -> bool {
        self.domain.has_finalizer() && (self.domain.strategy_name().is_some() || self.other_manager.is_none())
    }

    /// Whether the status is written: the synchronization has begun, and nothing prevents it.
    pub(crate) fn writes_status(&self) -> bool {
        self.domain.is_registered() && self.obstacle().is_none()
    }

    /// The strategy of the domain. With an unknown one nothing is written.
    pub(crate) fn strategy(&self) -> Strategy {
        self.domain.strategy(self.settings.strategy).unwrap_or(self.settings.strategy)
    }

    /// The claim template for these pods, if it exists.
    pub(crate) fn claim_template(&self, target: ClaimTarget) -> Option<&SlimClaimTemplate> {
        self.claim_templates.iter().find(|template| template.is_for(target)).map(|template| &**template)
    }

    /// The cliques of the pods and of the objects.
    pub(crate) fn desired_cliques(&self) -> Vec<DesiredClique> {
        let uid = self.domain.uid().unwrap_or_default();
        let of_pods = self.pods.iter().filter_map(|pod| pod.clique.clone()).filter(|id| !id.is_empty());
        let of_objects = self.cliques.iter().filter_map(|clique| clique_id(clique).map(str::to_owned));
        let ids: BTreeSet<String> = of_pods.chain(of_objects).collect();
        let of_status = if self.strategy().has_cliques() { Vec::new() } else { self.stored_entries() };
        let desired = |id: String| {
            let name = ComputeDomainCliqueName::of_domain(&uid, &id);
            let object = self.object(&name).cloned();
            let current = object.as_ref().map(|object| &object.daemons[..]).unwrap_or_default();
            let assignment = self.assignment(&id, current, &of_status);
            DesiredClique { id, name, object, assignment }
        };
        ids.into_iter().map(desired).collect()
    }

    /// The entries of a clique: those of its pods, or those that its daemons wrote, as far as they have a pod. Of a strategy without cliques,
    /// `of_status` has the entries.
    fn assignment(&self, id: &str, current: &[Entry], of_status: &[Entry]) -> Assignment {
        if self.strategy() == Strategy::ControllerClique {
            return assign(id, current, &self.pods, MAX_NODES_PER_CLIQUE);
        }
        let stored = if self.strategy().has_cliques() { current } else { of_status };
        let problems = nodes_with_two_daemons(id, stored, &self.pods);
        Assignment { entries: self.without_stale(current), problems, ..Assignment::default() }
    }

    /// The entries of nodes with fabric in the status of the domain, as far as they have a pod.
    pub(crate) fn status_entries(&self) -> Vec<Entry> {
        self.without_stale(&self.stored_entries())
    }

    /// The entries of nodes with fabric in the status of the domain.
    fn stored_entries(&self) -> Vec<Entry> {
        let entries = self.domain.status.nodes.iter().cloned().map(Entry::from);
        entries.filter(|entry| !entry.clique_id.is_empty()).collect()
    }

    fn without_stale(&self, entries: &[Entry]) -> Vec<Entry> {
        let stale = stale_entries(entries, &self.pods);
        entries.iter().filter(|entry| !stale.contains(entry)).cloned().collect()
    }

    /// Whether the plan depends on pods that the cache may lack: a clique gets entries and has no object, or an entry has no pod.
    pub(crate) fn needs_live_pods(&self) -> bool {
        match self.strategy() {
            Strategy::ControllerClique => {
                self.lacks_cliques() || self.cliques.iter().any(|clique| self.loses_entries(clique))
            }
            Strategy::RmwClique | Strategy::SsaClique => {
                self.cliques.iter().any(|clique| !stale_entries(&clique.daemons, &self.pods).is_empty())
            }
            Strategy::RmwStatus | Strategy::SsaStatus => !stale_entries(&self.stored_entries(), &self.pods).is_empty(),
        }
    }

    /// Whether a clique gets entries and has no object. A terminating domain gets no objects.
    fn lacks_cliques(&self) -> bool {
        let uid = self.domain.uid().unwrap_or_default();
        let with_entry = self.pods.iter().filter(|pod| !pod.is_ending);
        let mut ids = with_entry.filter_map(|pod| pod.clique.as_deref()).filter(|id| !id.is_empty());
        !is_terminating(&self.domain)
            && ids.any(|id| self.object(&ComputeDomainCliqueName::of_domain(&uid, id)).is_none())
    }

    fn loses_entries(&self, clique: &ComputeDomainClique) -> bool {
        let id = clique_id(clique).unwrap_or_default();
        loses_entries(id, &clique.daemons, &self.pods, MAX_NODES_PER_CLIQUE)
    }

    fn object(&self, name: &ComputeDomainCliqueName) -> Option<&Arc<ComputeDomainClique>> {
        let has_name = |clique: &&Arc<ComputeDomainClique>| clique.metadata.name.as_deref() == Some(name.as_str());
        self.cliques.iter().find(has_name)
    }
}

/// The ID in the name of the object of a clique.
fn clique_id(clique: &ComputeDomainClique) -> Option<&str> {
    clique.metadata.name.as_deref()?.split_once('.').map(|(_, id)| id)
}
