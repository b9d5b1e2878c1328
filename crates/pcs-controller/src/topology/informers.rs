//! The topologies of the cluster, which the constraints of sets refer to.

use std::borrow::Cow;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::configuration::TopologyAwareScheduling;
use grove_api_types::topology::{Topology, resolve_topology_name};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use grove_controller::manager::Manager;
use grove_runtime::caches::{Cache, Delta, Index, IndexScope, InformerOptions};
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// The sets that refer to a topology, by its name. Those that refer to the configured default have the empty name.
pub(crate) const SETS_BY_TOPOLOGY: Index<PodCliqueSet> =
    Index { name: "topology", values: topology_of_set, scope: IndexScope::Cluster };

fn topology_of_set(set: &PodCliqueSet) -> Vec<Cow<'_, str>> {
    resolve_topology_name(set, "").map(Cow::Borrowed).into_iter().collect()
}

/// The topologies, if the configuration enables topology-aware scheduling. A clone shares the caches.
#[derive(Clone, Debug)]
pub(crate) struct Topologies {
    /// The name of the default topology.
    default: Arc<str>,
    caches: Option<TopologyCaches>,
}

#[derive(Clone, Debug)]
struct TopologyCaches {
    topologies: Cache<ClusterTopology>,
    bindings: Cache<ClusterTopologyBinding>,
}

impl Topologies {
    /// Starts the informers of both kinds, if the configuration enables topology-aware scheduling.
    pub(crate) fn start(manager: &Manager) -> Self {
        let TopologyAwareScheduling { enabled, name, .. } = &manager.config().topology;
        let caches = enabled.then(|| TopologyCaches {
            topologies: manager.start_informer(InformerOptions::default().optional()),
            bindings: manager.start_informer(InformerOptions::default().optional()),
        });
        Self { default: name.as_str().into(), caches }
    }

    /// With these topologies, and with the default `grove-topology`.
    #[cfg(test)]
    pub(crate) fn of(topologies: Vec<ClusterTopology>, bindings: Vec<ClusterTopologyBinding>) -> Self {
        let (topologies, bindings) = (Cache::from_objects(topologies), Cache::from_objects(bindings));
        Self { default: "grove-topology".into(), caches: Some(TopologyCaches { topologies, bindings }) }
    }

    /// Without topology-aware scheduling.
    #[cfg(test)]
    pub(crate) fn disabled() -> Self {
        Self { default: "grove-topology".into(), caches: None }
    }

    /// Whether the configuration enables topology-aware scheduling.
    pub(crate) fn is_enabled(&self) -> bool {
        self.caches.is_some()
    }

    /// The name of the topology that the set refers to.
    pub(crate) fn name_for<'a>(&'a self, set: &'a PodCliqueSet) -> Option<&'a str> {
        resolve_topology_name(set, &self.default)
    }

    /// The topology of this name: a `ClusterTopology`, otherwise a `ClusterTopologyBinding`.
    pub(crate) fn get(&self, name: &str) -> Option<Topology> {
        let TopologyCaches { topologies, bindings } = self.caches.as_ref()?;
        let topology = topologies.get("", name).map(|topology| Topology::from(&*topology));
        topology.or_else(|| bindings.get("", name).map(|binding| Topology::from(&*binding)))
    }

    /// The sets that refer to a topology whose levels changed.
    pub(crate) fn sets_of_changed(
        &self,
        sets: &Cache<PodCliqueSet>,
    ) -> impl Stream<Item = ObjectRef<PodCliqueSet>> + Send + 'static + use<> {
        let (sets, default) = (sets.clone(), Arc::clone(&self.default));
        let changed = self.caches.as_ref().map(|TopologyCaches { topologies, bindings }| {
            stream::select(
                topologies.subscribe().filter_map(|delta| std::future::ready(name_if_changed(&delta))),
                bindings.subscribe().filter_map(|delta| std::future::ready(name_if_changed(&delta))),
            )
        });
        stream::iter(changed).flatten().flat_map(move |name| {
            let mut referring = sets.by_index(&SETS_BY_TOPOLOGY, &name);
            if *name == *default {
                referring.extend(sets.by_index(&SETS_BY_TOPOLOGY, ""));
            }
            stream::iter(referring.into_iter().map(|set| ObjectRef::from_obj(&*set)))
        })
    }
}

/// The name of the topology, if its levels changed, or it was created or deleted.
fn name_if_changed<K>(delta: &Delta<K>) -> Option<String>
where
    K: Resource,
    Topology: for<'a> From<&'a K>,
{
    let levels = |object: &Option<Arc<K>>| object.as_ref().map(|object| Topology::from(&**object).levels);
    let has_changed = levels(&delta.old) != levels(&delta.new);
    has_changed.then(|| delta.object().map(|object| object.name_any())).flatten()
}

/// The topology of this name at the API server. A topology that was created together with a set may not be in the cache yet.
///
/// # Errors
/// If the API server does not answer, or the object cannot be decoded.
pub(crate) async fn get_live(client: &Client, name: &str) -> Result<Option<Topology>, kube::Error> {
    if let Some(topology) = get::<ClusterTopology>(client, name).await? {
        return Ok(Some(Topology::from(&topology)));
    }
    let binding = get::<ClusterTopologyBinding>(client, name).await?;
    Ok(binding.as_ref().map(Topology::from))
}

async fn get<K>(client: &Client, name: &str) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    with_timeout(REQUEST_TIMEOUT, Api::<K>::all(client.clone()).get_opt(name)).await
}

/// The permissions to read the topologies.
pub(crate) fn rules() -> [PolicyRule; 2] {
    let verbs = &[Verb::Get, Verb::List, Verb::Watch];
    let reason = "translate the topology constraints of sets; get confirms that a topology does not exist";
    [
        PolicyRule::for_resource::<ClusterTopology>(verbs, reason),
        PolicyRule::for_resource::<ClusterTopologyBinding>(verbs, reason),
    ]
}
