//! The facts about the cluster that the rules need, read from the configuration and the caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::admission::{Facts, ReferencingSet, TopologyFacts};
use grove_api_types::configuration::{
    CrossNamespaceTemplates, Network, OperatorConfiguration, Schedulers, TopologyAwareScheduling,
};
use grove_api_types::expansion::object_count::clique_size;
use grove_api_types::labels::{PART_OF, POD_GANG};
use grove_api_types::topology::{Topology, constraints, resolve_topology_name, used_domains};
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_runtime::caches::{Cache, IndexScope, InformerOptions, Sum};
use grove_runtime::runtime::Runtime;
use kube::{Resource, ResourceExt};

use crate::cache_transform::TransformedObject;
use crate::gpu_nodes::{self, GpuNode};
use crate::queues::{self, Queue};

/// The configuration and the caches that the facts come from.
pub(crate) struct ClusterFacts {
    topology: TopologyAwareScheduling,
    schedulers: Schedulers,
    network: Network,
    /// Whether the authorizer protects managed objects.
    pub(crate) is_authorizer_enabled: bool,
    /// Whether users may refer to templates that they may not read.
    pub(crate) allows_all_templates: bool,
    /// User names of Grove's own services.
    own_users: BTreeSet<String>,
    /// `own_users` and the users that the configuration exempts from the authorizer.
    pub(crate) exempt_users: BTreeSet<String>,
    pub(crate) caches: RuleCaches,
}

/// The caches of the objects that the rules read.
pub(crate) struct RuleCaches {
    pub(crate) sets: Cache<TransformedObject<PodCliqueSet>>,
    pub(crate) groups: Cache<TransformedObject<PodCliqueScalingGroup>>,
    pub(crate) cliques: Cache<TransformedObject<PodClique>>,
    pub(crate) topologies: Cache<TransformedObject<ClusterTopology>>,
    pub(crate) bindings: Cache<TransformedObject<ClusterTopologyBinding>>,
    /// `None` if no configured scheduler has them.
    pub(crate) queues: Option<Cache<Queue>>,
    /// `None` if MNNVL is disabled.
    pub(crate) gpu_nodes: Option<Cache<GpuNode>>,
}

/// The sizes of gangs: the pods and the pod groups of their existing cliques.
const SIZE_BY_GANG: Sum<TransformedObject<PodClique>> =
    Sum { name: "gang-size", value: gang_key, amount: size_in_gang, scope: IndexScope::Namespaced };

/// The scheduled pods of sets.
const SCHEDULED_PODS_BY_SET: Sum<TransformedObject<PodClique>> =
    Sum { name: "set-scheduled-pods", value: set_key, amount: scheduled_pods, scope: IndexScope::Namespaced };

/// Namespace and name of the set of a clique; neither contains a slash.
fn set_key(TransformedObject(clique): &TransformedObject<PodClique>) -> Option<String> {
    let (namespace, set) = (clique.namespace()?, clique.labels().get(PART_OF)?);
    Some(format!("{namespace}/{set}"))
}

fn scheduled_pods(TransformedObject(clique): &TransformedObject<PodClique>) -> usize {
    clique.status.as_ref().map_or(0, |status| usize::try_from(status.scheduled_replicas).unwrap_or_default())
}

/// Namespace and name of the gang of a clique; neither contains a slash.
fn gang_key(TransformedObject(clique): &TransformedObject<PodClique>) -> Option<String> {
    let (namespace, gang) = (clique.namespace()?, clique.labels().get(POD_GANG)?);
    Some(format!("{namespace}/{gang}"))
}

fn size_in_gang(TransformedObject(clique): &TransformedObject<PodClique>) -> usize {
    usize::try_from(clique_size(clique.spec.replicas)).unwrap_or(usize::MAX)
}

impl ClusterFacts {
    /// Starts the informers. `accounts` are the names of the service accounts of Grove's services.
    pub(crate) fn start(runtime: &Runtime, accounts: &[String]) -> Self {
        let user = |account: &String| format!("system:serviceaccount:{}:{account}", runtime.namespace());
        let caches = RuleCaches {
            sets: cache(runtime),
            groups: cache(runtime),
            cliques: runtime
                .start_informer(InformerOptions::default().with_sum(SIZE_BY_GANG).with_sum(SCHEDULED_PODS_BY_SET)),
            topologies: cache(runtime),
            bindings: cache(runtime),
            // Without the permission, only sets of the scheduler are denied.
            queues: runtime
                .config()
                .schedulers
                .contains(queues::SCHEDULER)
                .then(|| runtime.start_informer(InformerOptions::default().optional())),
            gpu_nodes: runtime.config().network.auto_mnnvl_enabled.then(|| gpu_nodes::start_informer(runtime)),
        };
        Self::from_caches(runtime.config().clone(), accounts.iter().map(user).collect(), caches)
    }

    pub(crate) fn from_caches(config: OperatorConfiguration, own_users: BTreeSet<String>, caches: RuleCaches) -> Self {
        let OperatorConfiguration { topology, schedulers, network, authorizer, resource_sharing, .. } = config;
        let allows_all_templates = resource_sharing.cross_namespace_templates == CrossNamespaceTemplates::Allowed;
        let exempt_users = own_users.iter().cloned().chain(authorizer.exempt_users).collect();
        let is_authorizer_enabled = authorizer.enabled;
        Self {
            topology,
            schedulers,
            network,
            is_authorizer_enabled,
            allows_all_templates,
            own_users,
            exempt_users,
            caches,
        }
    }

    /// The facts for a set that is created.
    pub(crate) fn for_create(&self) -> Facts {
        let topologies = self.caches.topologies.all().into_iter().map(|cached| Topology::from(&cached.0));
        let bindings = self.caches.bindings.all().into_iter().map(|cached| Topology::from(&cached.0));
        let readable = self.caches.queues.as_ref().filter(|queues| !queues.is_forbidden());
        let queues = readable.map(Cache::all);
        Facts {
            topology: self.topology.clone(),
            mnnvl_enabled: self.network.auto_mnnvl_enabled,
            mnnvl_scope: self.network.auto_mnnvl_scope,
            gpus_per_node: self.caches.gpu_nodes.as_ref().and_then(gpu_nodes::most_gpus),
            schedulers: self.schedulers.clone(),
            topologies: topologies.chain(bindings).collect(),
            queues: queues.map(|queues| queues.iter().map(|queue| (queue.name_any(), queue.is_open())).collect()),
            is_scheduled: false,
        }
    }

    /// The facts for a set that is updated. `versions` are the old and the new object.
    pub(crate) fn for_update(&self, namespace: &str, name: &str, versions: &[&PodCliqueSet]) -> Facts {
        // Only the topology is immutable while pods are scheduled. Most sets have no topology constraints, and need no
        // search for scheduled pods.
        let has_constraints = versions.iter().any(|set| constraints(&set.spec.template).next().is_some());
        let is_scheduled = has_constraints && self.is_scheduled(namespace, name);
        Facts { is_scheduled, ..self.for_create() }
    }

    /// The size of the other existing cliques of the gang of a cached clique.
    pub(crate) fn size_of_other_cliques(&self, cached: &TransformedObject<PodClique>) -> u64 {
        let size = gang_key(cached).map_or(0, |gang| self.caches.cliques.sum(&SIZE_BY_GANG, &gang));
        u64::try_from(size.saturating_sub(size_in_gang(cached))).unwrap_or(u64::MAX)
    }

    /// The facts for a topology. `other_kind` is the topology of the other kind with this name.
    pub(crate) fn for_topology(&self, name: &str, user: &str, other_kind: Option<Topology>) -> TopologyFacts {
        let refers = |cached: &Arc<TransformedObject<PodCliqueSet>>| {
            resolve_topology_name(&cached.0, &self.topology.name) == Some(name)
        };
        TopologyFacts {
            topology: self.topology.clone(),
            schedulers: self.schedulers.clone(),
            other_kind,
            is_grove_user: self.own_users.contains(user),
            referencing_sets: self
                .caches
                .sets
                .all()
                .iter()
                .filter(|cached| refers(cached))
                .map(|cached| self.referencing_set(&cached.0))
                .collect(),
        }
    }

    /// The `ClusterTopology` of this name.
    pub(crate) fn topology(&self, name: &str) -> Option<Topology> {
        self.caches.topologies.get("", name).map(|cached| Topology::from(&cached.0))
    }

    /// The `ClusterTopologyBinding` of this name.
    pub(crate) fn binding(&self, name: &str) -> Option<Topology> {
        self.caches.bindings.get("", name).map(|cached| Topology::from(&cached.0))
    }

    fn referencing_set(&self, set: &PodCliqueSet) -> ReferencingSet {
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        ReferencingSet {
            is_scheduled: self.is_scheduled(&namespace, &name),
            domains: used_domains(&set.spec.template).into_iter().map(str::to_owned).collect(),
            set: [namespace, name].join("/"),
        }
    }

    fn is_scheduled(&self, namespace: &str, set: &str) -> bool {
        self.caches.cliques.sum(&SCHEDULED_PODS_BY_SET, &format!("{namespace}/{set}")) > 0
    }
}

fn cache<K>(runtime: &Runtime) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    runtime.start_informer(InformerOptions::default())
}
