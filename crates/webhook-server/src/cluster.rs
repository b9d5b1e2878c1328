//! What the rules have to know of the cluster, gathered from the configuration and from the caches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::admission::{Facts, Referring, TopologyFacts};
use grove_api_types::configuration::{OperatorConfiguration, Schedulers, TopologyAwareScheduling};
use grove_api_types::labels::PART_OF;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::{Topology, constraints, resolve_topology_name, used_domains};
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_runtime::caches::Cache;
use grove_runtime::runtime::Runtime;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use tokio::time::timeout;

use crate::known::{Known, Queue};

/// What is scaled a moment after it was created may not be in the cache yet; so long it is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The cluster as the rules see it.
pub(crate) struct Cluster {
    topology: TopologyAwareScheduling,
    schedulers: Schedulers,
    mnnvl_enabled: bool,
    /// Whether what Grove manages is protected.
    pub(crate) protects: bool,
    /// Grove's own accounts.
    own_accounts: BTreeSet<String>,
    /// Those, and whom the configuration exempts.
    pub(crate) exempt: BTreeSet<String>,
    pub(crate) caches: Caches,
}

/// What is followed of the cluster.
pub(crate) struct Caches {
    pub(crate) sets: Cache<Known<PodCliqueSet>>,
    pub(crate) groups: Cache<Known<PodCliqueScalingGroup>>,
    pub(crate) cliques: Cache<Known<PodClique>>,
    pub(crate) topologies: Cache<Known<ClusterTopology>>,
    pub(crate) bindings: Cache<Known<ClusterTopologyBinding>>,
    /// Only where Volcano is among the schedulers.
    pub(crate) queues: Option<Cache<Queue>>,
}

fn has_volcano(schedulers: &Schedulers) -> bool {
    schedulers.profiles.iter().any(|profile| profile.name == Scheduler::Volcano)
}

impl Cluster {
    /// Starts the watches. `accounts` are the names of the service accounts by which Grove's services act.
    pub(crate) fn watch(service: &Runtime, accounts: &[String]) -> Self {
        let user = |account: &String| format!("system:serviceaccount:{}:{account}", service.namespace());
        let caches = Caches {
            sets: cache(service),
            groups: cache(service),
            cliques: cache(service),
            topologies: cache(service),
            bindings: cache(service),
            queues: has_volcano(&service.config().schedulers).then(|| cache(service)),
        };
        Self::over(service.config().clone(), accounts.iter().map(user).collect(), caches)
    }

    /// Over caches that exist.
    pub(crate) fn over(config: OperatorConfiguration, own_accounts: BTreeSet<String>, caches: Caches) -> Self {
        let OperatorConfiguration { topology, schedulers, network, authorizer, .. } = config;
        let exempt = own_accounts.iter().cloned().chain(authorizer.exempt_users).collect();
        let (mnnvl_enabled, protects) = (network.auto_mnnvl_enabled, authorizer.enabled);
        Self { topology, schedulers, mnnvl_enabled, protects, own_accounts, exempt, caches }
    }

    /// What is known when a set is judged that is created.
    pub(crate) fn of_new_set(&self) -> Facts {
        let topologies = self.caches.topologies.all().into_iter().map(|known| Topology::from(&known.0));
        let bindings = self.caches.bindings.all().into_iter().map(|known| Topology::from(&known.0));
        let queues = self.caches.queues.iter().flat_map(Cache::all);
        Facts {
            topology: self.topology.clone(),
            mnnvl_enabled: self.mnnvl_enabled,
            schedulers: self.schedulers.clone(),
            topologies: topologies.chain(bindings).collect(),
            volcano_queues: queues.map(|queue| (queue.name_any(), queue.is_open())).collect(),
            is_scheduled: false,
        }
    }

    /// What is known when a set is judged that exists: as it is, and as it is to be.
    pub(crate) fn of_set(&self, namespace: &str, name: &str, states: &[&PodCliqueSet]) -> Facts {
        // Only topologies are frozen by it, and most sets have none.
        let is_packed = states.iter().any(|set| constraints(&set.spec.template).next().is_some());
        let is_scheduled = is_packed && self.is_scheduled(namespace, name);
        Facts { is_scheduled, ..self.of_new_set() }
    }

    /// What is known when a topology is judged. `other_has` says whether the other kind has one of that name.
    pub(crate) fn of_topology(&self, name: &str, user: &str, is_taken: bool) -> TopologyFacts {
        let refers =
            |known: &Arc<Known<PodCliqueSet>>| resolve_topology_name(&known.0, &self.topology.name) == Some(name);
        TopologyFacts {
            topology: self.topology.clone(),
            schedulers: self.schedulers.clone(),
            is_taken,
            is_grove: self.own_accounts.contains(user),
            referring: self
                .caches
                .sets
                .all()
                .iter()
                .filter(|known| refers(known))
                .map(|known| self.referring(&known.0))
                .collect(),
        }
    }

    pub(crate) fn has_topology(&self, name: &str) -> bool {
        self.caches.topologies.get("", name).is_some()
    }

    pub(crate) fn has_binding(&self, name: &str) -> bool {
        self.caches.bindings.get("", name).is_some()
    }

    fn referring(&self, set: &PodCliqueSet) -> Referring {
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        Referring {
            is_scheduled: self.is_scheduled(&namespace, &name),
            domains: used_domains(&set.spec.template).into_iter().map(str::to_owned).collect(),
            set: [namespace, name].join("/"),
        }
    }

    fn is_scheduled(&self, namespace: &str, set: &str) -> bool {
        self.caches.cliques.all().iter().any(|known| {
            let Known(clique) = &**known;
            clique.status.as_ref().is_some_and(|status| status.scheduled_replicas > 0)
                && clique.namespace().as_deref() == Some(namespace)
                && clique.labels().get(PART_OF).is_some_and(|part_of| part_of == set)
        })
    }
}

fn cache<K>(service: &Runtime) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    // Nobody listens to the changes: questions come from outside.
    service.watch(watcher::Config::default(), None).0
}

/// Returns once the cache has the object of that name, or it is clear that it does not come.
pub(crate) async fn appear<K>(cache: &Cache<K>, namespace: &str, name: &str) {
    // The time runs only for what is not there at once.
    let _ = timeout(PATIENCE, cache.wait_for(|cache| cache.get(namespace, name).is_some())).await;
}
