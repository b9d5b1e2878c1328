//! One watch per kind for all reconcilers of this service: the caches they share, and what each of them hears.

use std::sync::Arc;

use futures::channel::mpsc;
use futures::stream::BoxStream;
use grove_api_types::ownership::{controller_of, is_controlled_by};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::{Cache, Change};
use grove_runtime::refusals::Refusals;
use grove_runtime::service::Service as GroveService;
use grove_runtime::triggers::fan_out;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};

use crate::children::autoscaler::Autoscaler;
use crate::gang;
use crate::scaling_group;
use crate::set;

/// Sets and all that is made for them but pods.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) sets: Cache<PodCliqueSet>,
    pub(crate) groups: Cache<PodCliqueScalingGroup>,
    pub(crate) cliques: Cache<PodClique>,
    pub(crate) gangs: Cache<PodGang>,
    pub(crate) services: Cache<Service>,
    pub(crate) autoscalers: Cache<Autoscaler>,
}

impl Caches {
    /// The very set that controls the child, also while it is being deleted.
    pub(crate) fn set_of<K: Resource>(&self, child: &K) -> Option<Arc<PodCliqueSet>> {
        let owner = controller_of(child.meta())?;
        let set = self.sets.get(&child.namespace()?, &owner.name)?;
        is_controlled_by(child, &*set).then_some(set)
    }
}

/// The changes of the kinds that both reconcilers listen to.
pub(crate) struct Heard {
    pub(crate) sets: BoxStream<'static, Change<PodCliqueSet>>,
    pub(crate) groups: BoxStream<'static, Change<PodCliqueScalingGroup>>,
    pub(crate) cliques: BoxStream<'static, Change<PodClique>>,
    pub(crate) gangs: BoxStream<'static, Change<PodGang>>,
}

/// What each reconciler hears.
pub(crate) struct Changes {
    pub(crate) sets: set::observe::Changes,
    pub(crate) groups: scaling_group::observe::Changes,
    pub(crate) gangs: gang::observe::Changes,
}

/// What was refused to sets and groups.
#[derive(Clone, Default)]
pub(crate) struct Refused {
    pub(crate) sets: Refusals<PodCliqueSet>,
    pub(crate) groups: Refusals<PodCliqueScalingGroup>,
}

/// Who is told that there may be room for what was refused.
pub(crate) struct Relief<K: Resource<DynamicType = ()>> {
    pub(crate) refused: Refusals<K>,
    pub(crate) freed: mpsc::UnboundedSender<ObjectRef<K>>,
}

impl<K: Resource<DynamicType = ()>> Clone for Relief<K> {
    fn clone(&self) -> Self {
        Self { refused: self.refused.clone(), freed: self.freed.clone() }
    }
}

impl<K: Resource<DynamicType = ()>> Relief<K> {
    /// Takes a change of anything that may count against a quota.
    pub(crate) fn tell<C: Resource>(&self, change: &Change<C>) {
        // Nobody listens any more when the service stops.
        self.refused.relieved(change).into_iter().for_each(|object| drop(self.freed.unbounded_send(object)));
    }
}

/// Starts the watches.
pub(crate) fn watch(service: &GroveService, refused: &Refused) -> (Caches, Changes) {
    let all = watcher::Config::default;
    let (sets, of_sets) = service.watch(all(), None);
    let (groups, of_groups) = service.watch(all(), None);
    let (cliques, of_cliques) = service.watch(all(), None);
    let (gangs, of_gangs) = service.watch(all(), None);
    let (services, of_services) = service.watch(all(), None);
    let (autoscalers, of_autoscalers) = service.watch(all(), None);
    let caches = Caches { sets, groups, cliques, gangs, services, autoscalers };
    let ([sets, sets_too], [groups, groups_too]) = (fan_out(of_sets), fan_out(of_groups));
    let ([cliques, cliques_too, members], [gangs, gangs_too, told]) = (fan_out(of_cliques), fan_out(of_gangs));
    let by_sets = Heard { sets, groups, cliques, gangs };
    let by_groups = Heard { sets: sets_too, groups: groups_too, cliques: cliques_too, gangs: gangs_too };
    let changes = Changes {
        sets: set::observe::changes(&caches, &refused.sets, by_sets, of_services, of_autoscalers),
        groups: scaling_group::observe::changes(&caches, &refused.groups, by_groups),
        gangs: gang::observe::changes(told, members),
    };
    (caches, changes)
}
