//! The informers that more than one reconciler of this service reads. The informers of other child kinds follow from the tables
//! of child kinds.

use std::sync::Arc;

use grove_api_types::expansion::{Clique, SetReplica};
use grove_api_types::mnnvl;
use grove_api_types::ownership::{controller_of, is_controlled_by};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, InformerOptions};
use kube::{Resource, ResourceExt};

use crate::claims::{ClaimCaches, SETS_BY_CLAIM_TEMPLATE};
use crate::compute_domains::{AwaitedDomain, ComputeDomains};
use crate::native_gangs::Incarnations;
use crate::startup::IdentityCaches;
use crate::topology::{SETS_BY_TOPOLOGY, Topologies};
use crate::update::{self, UpdateDurations};

/// The caches of `PodCliqueSet`s and of the kinds of Grove below them.
#[derive(Clone)]
pub(crate) struct PcsCaches {
    pub(crate) sets: Cache<PodCliqueSet>,
    pub(crate) groups: Cache<PodCliqueScalingGroup>,
    pub(crate) cliques: Cache<PodClique>,
    pub(crate) gangs: Cache<PodGang>,
    /// The sets and scaling groups with a deletion that keeps their children.
    pub(crate) orphan_deletions: OrphanDeletions,
    /// The namespaces in which nothing is created.
    pub(crate) terminating_namespaces: TerminatingNamespaces,
    /// The incarnations of gangs in the workload API.
    pub(crate) incarnations: Incarnations,
    /// The topologies that the constraints of sets refer to.
    pub(crate) topologies: Topologies,
    /// The compute domains of sets.
    pub(crate) compute_domains: ComputeDomains,
    /// The claims that pods share, and their templates.
    pub(crate) resource_claims: ClaimCaches,
    /// The identities by which waiting pods read the pods of their gang.
    pub(crate) identities: IdentityCaches,
    /// The informers of the other kinds.
    pub(crate) informers: SharedInformerFactory,
}

impl PcsCaches {
    /// Starts the informers, and registers the metrics about the objects in the caches.
    ///
    /// # Errors
    /// If a metric of one of the names is already registered.
    pub(crate) fn start(manager: &Manager) -> anyhow::Result<Self> {
        let durations = UpdateDurations::register(manager)?;
        let (informers, orphan_deletions) = (SharedInformerFactory::new(manager), OrphanDeletions::default());
        let (of_sets, of_groups) = (orphan_deletions.clone(), orphan_deletions.clone());
        let incarnations = Incarnations::start(manager);
        let of_cliques = incarnations.clone();
        let cliques = InformerOptions::<PodClique>::default();
        let sets = InformerOptions::<PodCliqueSet>::default().with_index(SETS_BY_TOPOLOGY);
        let sets = sets.with_index(SETS_BY_CLAIM_TEMPLATE);
        let sets = sets.with_observer(move |delta| {
            of_sets.record(delta);
            durations.observe(delta);
        });
        let groups =
            InformerOptions::<PodCliqueScalingGroup>::default().with_observer(move |delta| of_groups.record(delta));
        // The first request for a cache starts its informer. The table of child kinds requests this one, too.
        drop(informers.cache_with(update::informer_options()));
        let caches = Self {
            sets: informers.cache_with(sets),
            groups: informers.cache_with(groups),
            cliques: informers.cache_with(cliques.with_observer(move |delta| of_cliques.observe_clique(delta))),
            gangs: informers.cache(),
            orphan_deletions,
            terminating_namespaces: manager.start_namespace_informer(),
            incarnations,
            topologies: Topologies::start(manager),
            compute_domains: ComputeDomains::start(manager),
            resource_claims: ClaimCaches::start(manager, &informers),
            identities: IdentityCaches::start(&informers),
            informers,
        };
        update::register_gauges(manager, &caches.sets)?;
        caches.resource_claims.register_metric(manager)?;
        Ok(caches)
    }

    /// Whether the set, or a scaling group of it, controls the clique or could adopt it.
    pub(crate) fn belongs_to(&self, clique: &PodClique, set: &PodCliqueSet) -> bool {
        let Some(owner) = controller_of(&clique.metadata) else { return true };
        if is_controlled_by(clique, set) {
            return true;
        }
        let group = clique.metadata.namespace.as_deref().and_then(|namespace| self.groups.get(namespace, &owner.name));
        group.is_some_and(|group| is_controlled_by(clique, &*group) && is_controlled_by(&*group, set))
    }

    /// The compute domains that the first cliques and scaling groups of the replica wait for. Cliques that replace others do not wait:
    /// they exist, or the references of the base gang show that they did.
    pub(crate) fn awaited_domains(&self, set: &PodCliqueSet, replica: &SetReplica) -> Vec<AwaitedDomain> {
        let missing = self.compute_domains.missing(set, replica.index);
        if missing.is_empty() {
            return missing;
        }
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let exists = |clique: &Clique| {
            let clique = self.cliques.get(namespace, clique.name.as_str());
            clique.is_some_and(|clique| self.belongs_to(&clique, set))
        };
        let base_gang = self.gangs.get(namespace, replica.base_gang.as_str());
        let had_cliques = base_gang.is_some_and(|gang| is_controlled_by(&*gang, set) && mnnvl::had_cliques(&gang));
        if had_cliques || replica.all_cliques().any(exists) { vec![] } else { missing }
    }

    /// The set that controls the child, compared by uid. A set that is terminating counts.
    pub(crate) fn set_of<K: Resource>(&self, child: &K) -> Option<Arc<PodCliqueSet>> {
        let owner = controller_of(child.meta())?;
        let set = self.sets.get(&child.namespace()?, &owner.name)?;
        is_controlled_by(child, &*set).then_some(set)
    }
}

#[cfg(test)]
pub(crate) mod tests;
