//! The topology object of a scheduler as a child of a topology.

use std::fmt::Debug;
use std::marker::PhantomData;

use grove_api_types::events;
use grove_api_types::labels::{self, GROVE_OPERATOR, MANAGED_BY};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild, OwnerKind};
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{SchedulerTopology, SchedulerTopologyApi, TopologyExpansion};

/// The topology objects of one scheduler, as children of one kind of topologies.
#[derive(Debug)]
pub(super) struct SchedulerTopologies<O, A>(PhantomData<fn() -> (O, A)>);

impl<O, A> SchedulerTopologies<O, A> {
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<O, A> ChildKind for SchedulerTopologies<O, A>
where
    O: for<'a> OwnerKind<Expansion<'a> = TopologyExpansion>,
    A: SchedulerTopologyApi,
{
    type Owner = O;
    type Object = SchedulerTopology<A>;

    const STAGE: &'static str = "scheduler-topologies";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::SCHEDULER_TOPOLOGY_CREATE_OR_UPDATE_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        vec![rule::<A>()]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r TopologyExpansion,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SchedulerTopology<A>>> {
        let is_managed = expansion.managed.contains(&A::SCHEDULER);
        is_managed.then(|| DesiredChild::new(expansion.name.as_str(), || build(expansion))).into_iter()
    }

    /// The levels are immutable, so an object with other levels is deleted. The watch event of its deletion triggers the create.
    fn patch(live: &SchedulerTopology<A>, desired: SchedulerTopology<A>) -> Option<Step> {
        (!live.has_same_levels(&desired)).then(|| Step::delete(live))
    }
}

fn build<A>(expansion: &TopologyExpansion) -> SchedulerTopology<A> {
    let metadata = ObjectMeta {
        name: Some(expansion.name.clone()),
        labels: Some(labels::of([(MANAGED_BY, GROVE_OPERATOR)])),
        owner_references: Some(expansion.owner_references.clone()),
        ..ObjectMeta::default()
    };
    SchedulerTopology::new(metadata, expansion.node_labels.clone())
}

/// The permission on the topology objects of one scheduler.
pub(super) fn rule<A: SchedulerTopologyApi>() -> PolicyRule {
    use Verb::{Create, Delete, List, Watch};
    let reason = "create and delete the topology objects of topologies, and compare those that others manage";
    PolicyRule::for_resource::<SchedulerTopology<A>>(&[List, Watch, Create, Delete], reason)
}
