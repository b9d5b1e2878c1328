//! The topology objects of schedulers: a scheduler that packs pods by topology reads its own kind of topologies. Each such scheduler has one
//! file, which implements [`SchedulerTopologyApi`], one arm in [`backend`], and one row in each table of child kinds.

use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use futures::StreamExt;
use futures::stream::BoxStream;
use grove_api_types::configuration::Schedulers;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_controller::children::{ChildKinds, OwnerKind};
use grove_controller::group_kind::group_kind_of;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_runtime::caches::{Availability, InformerOptions};
use grove_runtime::rbac::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::Value;

mod child;
mod drift;
mod kai;
mod object;

use self::child::{SchedulerTopologies, rule};
pub(crate) use self::drift::{
    ObservedSchedulerTopology, drift_condition, managed_schedulers, status_of, with_drift_event,
};
pub(crate) use self::kai::Kai;
pub(crate) use self::object::{LiveSchedulerTopology, SchedulerTopology};

/// The topologies of a scheduler.
pub(crate) trait SchedulerTopologyApi: Send + Sync + 'static {
    /// The scheduler.
    const SCHEDULER: Scheduler;
    /// The API group of the kind.
    const GROUP: &'static str;
    /// The version of the kind.
    const VERSION: &'static str;
    /// The plural of the kind.
    const PLURAL: &'static str;
    /// The scheduler and the kind, for messages.
    const DISPLAY_NAME: &'static str;

    /// The spec with these node labels, the one of the broadest level first.
    fn spec(node_labels: &[String]) -> Value;

    /// The node labels in a spec, the one of the broadest level first.
    fn node_labels(spec: &Value) -> Vec<String>;
}

/// A topology with everything that the topology objects of schedulers are computed from.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyExpansion {
    /// The name of the topology, which its topology objects have, too.
    pub(crate) name: String,
    /// The reference to the topology as their controller.
    pub(crate) owner_references: Vec<OwnerReference>,
    /// The node labels of the levels.
    pub(crate) node_labels: Vec<String>,
    /// The schedulers for which Grove creates a topology object.
    pub(crate) managed: Vec<Scheduler>,
}

/// Owners of topology objects.
#[derive(Debug)]
pub(crate) struct TopologyOwner<K>(PhantomData<fn() -> K>);

impl OwnerKind for TopologyOwner<ClusterTopology> {
    type Object = ClusterTopology;
    type Expansion<'a> = TopologyExpansion;
}

impl OwnerKind for TopologyOwner<ClusterTopologyBinding> {
    type Object = ClusterTopologyBinding;
    type Expansion<'a> = TopologyExpansion;
}

/// The kinds of children of a `ClusterTopology`.
pub(crate) const CHILD_KINDS_OF_CLUSTER_TOPOLOGIES: ChildKinds<TopologyOwner<ClusterTopology>> =
    ChildKinds::in_creation_order(&[&SchedulerTopologies::<TopologyOwner<ClusterTopology>, Kai>::NEW]);

/// The kinds of children of a `ClusterTopologyBinding`.
pub(crate) const CHILD_KINDS_OF_BINDINGS: ChildKinds<TopologyOwner<ClusterTopologyBinding>> =
    ChildKinds::in_creation_order(&[&SchedulerTopologies::<TopologyOwner<ClusterTopologyBinding>, Kai>::NEW]);

/// The functions of a scheduler with topology objects.
pub(crate) struct SchedulerTopologyBackend {
    /// The scheduler.
    pub(crate) scheduler: Scheduler,
    /// See [`SchedulerTopologyApi::DISPLAY_NAME`].
    display_name: &'static str,
    /// Plural and group of the kind.
    crd_name: fn() -> String,
    group_kind: fn() -> String,
    rule: fn() -> PolicyRule,
    start_informer: fn(&SharedInformerFactory),
    availability: fn(&SharedInformerFactory) -> Availability,
    get: fn(&SharedInformerFactory, &str) -> Option<LiveSchedulerTopology>,
    changed_names: fn(&SharedInformerFactory) -> BoxStream<'static, String>,
}

impl Debug for SchedulerTopologyBackend {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerTopologyBackend").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl SchedulerTopologyBackend {
    const fn of<A: SchedulerTopologyApi>() -> Self {
        Self {
            scheduler: A::SCHEDULER,
            display_name: A::DISPLAY_NAME,
            crd_name: || [A::PLURAL, A::GROUP].join("."),
            group_kind: group_kind_of::<SchedulerTopology<A>>,
            rule: rule::<A>,
            start_informer: |informers| {
                drop(informers.cache_with(InformerOptions::<SchedulerTopology<A>>::default().optional()));
            },
            availability: |informers| informers.cache::<SchedulerTopology<A>>().availability(),
            get: |informers, name| {
                informers.cache::<SchedulerTopology<A>>().get("", name).map(|topology| topology.as_live())
            },
            changed_names: |informers| {
                let deltas = informers.cache::<SchedulerTopology<A>>().subscribe();
                let name = |delta: grove_runtime::caches::Delta<SchedulerTopology<A>>| {
                    std::future::ready(delta.object().map(|topology| topology.name_any()))
                };
                deltas.filter_map(name).boxed()
            },
        }
    }

    /// The topology object of this name, which a topology refers to.
    pub(crate) fn observe(
        &self,
        informers: &SharedInformerFactory,
        reference: &str,
        is_external: bool,
    ) -> ObservedSchedulerTopology {
        ObservedSchedulerTopology {
            scheduler: self.scheduler,
            display_name: self.display_name,
            crd_name: (self.crd_name)(),
            reference: reference.to_owned(),
            is_external,
            availability: (self.availability)(informers),
            live: (self.get)(informers, reference),
        }
    }

    /// The names of changed topology objects.
    pub(crate) fn changed_names(&self, informers: &SharedInformerFactory) -> BoxStream<'static, String> {
        (self.changed_names)(informers)
    }
}

/// The topology objects of a scheduler; `None` if it has none.
fn backend(scheduler: Scheduler) -> Option<&'static SchedulerTopologyBackend> {
    static KAI: SchedulerTopologyBackend = SchedulerTopologyBackend::of::<Kai>();
    match scheduler {
        Scheduler::Kai => Some(&KAI),
        Scheduler::Kube | Scheduler::Volcano | Scheduler::Lpx => None,
    }
}

fn backends() -> impl Iterator<Item = &'static SchedulerTopologyBackend> {
    Scheduler::ALL.into_iter().filter_map(|(_, scheduler)| backend(scheduler))
}

/// The configured schedulers with topology objects. If topology-aware scheduling is disabled, there are none: no topology object is read,
/// created or deleted.
pub(crate) fn configured_backends(
    schedulers: &Schedulers,
    is_enabled: bool,
) -> impl Iterator<Item = &'static SchedulerTopologyBackend> {
    backends().filter(move |backend| is_enabled && schedulers.contains(backend.scheduler))
}

/// Starts the informers of these schedulers. Returns the kinds in `all` that are watched.
pub(crate) fn start_informers<O: OwnerKind>(
    all: ChildKinds<O>,
    schedulers: &Schedulers,
    is_enabled: bool,
    informers: &SharedInformerFactory,
) -> ChildKinds<O> {
    configured_backends(schedulers, is_enabled).for_each(|backend| (backend.start_informer)(informers));
    let kinds: Vec<String> =
        configured_backends(schedulers, is_enabled).map(|backend| (backend.group_kind)()).collect();
    all.select(|kind| kinds.iter().any(|configured| configured == kind))
}

/// The permissions on the topology objects of each scheduler.
pub(crate) fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    backends().map(|backend| (backend.scheduler, vec![(backend.rule)()])).collect()
}

#[cfg(test)]
mod tests {
    use grove_api_types::scheduler::TopologySupport;

    use super::*;

    #[test]
    fn every_scheduler_that_supports_topologies_with_objects_has_a_backend() {
        for (name, scheduler) in Scheduler::ALL {
            let has_objects = matches!(scheduler.topology_support(), TopologySupport::Supported);
            let of_backend = backend(scheduler).map(|backend| backend.scheduler);
            assert_eq!(of_backend, has_objects.then_some(scheduler), "{name}");
        }
    }

    #[test]
    fn the_children_of_topologies_have_the_kind_of_each_backend() {
        let kinds: Vec<String> = backends().map(|backend| (backend.group_kind)()).collect();
        assert_eq!(CHILD_KINDS_OF_CLUSTER_TOPOLOGIES.kinds().collect::<Vec<_>>(), kinds);
        assert_eq!(CHILD_KINDS_OF_BINDINGS.kinds().collect::<Vec<_>>(), kinds);
    }
}
