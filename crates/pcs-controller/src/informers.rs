//! Starts one informer per kind. All reconcilers of this service share the caches; each has its own copy of the deltas.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use grove_api_types::ownership::{controller_of, is_controlled_by};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::controllers::Controllers;
use grove_controller::expectations::ChildKey;
use grove_controller::triggers::fan_out;
use grove_runtime::caches::{Cache, Delta, InformerOptions};
use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;

use crate::children::autoscaler::Autoscaler;

/// `PodCliqueSet`s and all objects below them except pods.
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
    /// The set that controls the child, compared by uid. A set that is terminating counts.
    pub(crate) fn set_of<K: Resource>(&self, child: &K) -> Option<Arc<PodCliqueSet>> {
        let owner = controller_of(child.meta())?;
        let set = self.sets.get(&child.namespace()?, &owner.name)?;
        is_controlled_by(child, &*set).then_some(set)
    }

    /// Whether the cache of the kind has the child with this UID.
    pub(crate) fn has_child(&self, namespace: &str, child: &ChildKey, uid: &str) -> bool {
        let ChildKey { kind, name } = child;
        let is_cached = |cached: Option<String>| cached.is_some_and(|cached| cached == uid);
        match kind.as_str() {
            "Service" => is_cached(uid_of(&self.services, namespace, name)),
            "PodGang" => is_cached(uid_of(&self.gangs, namespace, name)),
            "PodCliqueScalingGroup" => is_cached(uid_of(&self.groups, namespace, name)),
            "PodClique" => is_cached(uid_of(&self.cliques, namespace, name)),
            _ => is_cached(uid_of(&self.autoscalers, namespace, name)),
        }
    }

    /// The relist counters of all child kinds of a set.
    pub(crate) fn relist_counters(&self) -> Vec<watch::Receiver<u64>> {
        let Self { sets: _, groups, cliques, gangs, services, autoscalers } = self;
        vec![groups.relists(), cliques.relists(), gangs.relists(), services.relists(), autoscalers.relists()]
    }

    /// How often the cache of the kind was filled from a complete list.
    pub(crate) fn relists(&self, kind: &str) -> u64 {
        let relists = match kind {
            "Service" => self.services.relists(),
            "PodGang" => self.gangs.relists(),
            "PodCliqueScalingGroup" => self.groups.relists(),
            "PodClique" => self.cliques.relists(),
            _ => self.autoscalers.relists(),
        };
        *relists.borrow()
    }
}

fn uid_of<K: Resource<DynamicType = ()>>(cache: &Cache<K>, namespace: &str, name: &str) -> Option<String> {
    cache.get(namespace, name)?.uid()
}

/// The deltas of one kind.
type DeltaStream<K> = BoxStream<'static, Delta<K>>;

/// The deltas that the reconciler of sets reads.
pub(crate) struct SetDeltas {
    pub(crate) sets: DeltaStream<PodCliqueSet>,
    pub(crate) groups: DeltaStream<PodCliqueScalingGroup>,
    pub(crate) cliques: DeltaStream<PodClique>,
    pub(crate) gangs: DeltaStream<PodGang>,
    pub(crate) services: DeltaStream<Service>,
    pub(crate) autoscalers: DeltaStream<Autoscaler>,
}

/// The deltas that the reconciler of scaling groups reads.
pub(crate) struct GroupDeltas {
    pub(crate) sets: DeltaStream<PodCliqueSet>,
    pub(crate) groups: DeltaStream<PodCliqueScalingGroup>,
    pub(crate) cliques: DeltaStream<PodClique>,
    pub(crate) gangs: DeltaStream<PodGang>,
}

/// The deltas that the reconciler of gangs reads.
pub(crate) struct GangDeltas {
    pub(crate) cliques: DeltaStream<PodClique>,
    pub(crate) gangs: DeltaStream<PodGang>,
}

/// The deltas of all reconcilers.
pub(crate) struct Deltas {
    pub(crate) sets: SetDeltas,
    pub(crate) groups: GroupDeltas,
    pub(crate) gangs: GangDeltas,
}

/// Starts the informers.
pub(crate) fn start(service: &Controllers) -> (Caches, Deltas) {
    let (sets, set_deltas) = service.start_informer(InformerOptions::default());
    let (groups, group_deltas) = service.start_informer(InformerOptions::default());
    let (cliques, clique_deltas) = service.start_informer(InformerOptions::default());
    let (gangs, gang_deltas) = service.start_informer(InformerOptions::default());
    let (services, service_deltas) = service.start_informer(InformerOptions::default());
    let (autoscalers, autoscaler_deltas) = service.start_informer(InformerOptions::default());
    let caches = Caches { sets, groups, cliques, gangs, services, autoscalers };
    let ([sets, sets_for_groups], [groups, groups_for_groups]) = (fan_out(set_deltas), fan_out(group_deltas));
    let [cliques, cliques_for_groups, cliques_for_gangs] = fan_out(clique_deltas);
    let [gangs, gangs_for_groups, gangs_for_gangs] = fan_out(gang_deltas);
    let (services, autoscalers) = (service_deltas.boxed(), autoscaler_deltas.boxed());
    let deltas = Deltas {
        sets: SetDeltas { sets, groups, cliques, gangs, services, autoscalers },
        groups: GroupDeltas {
            sets: sets_for_groups,
            groups: groups_for_groups,
            cliques: cliques_for_groups,
            gangs: gangs_for_groups,
        },
        gangs: GangDeltas { cliques: cliques_for_gangs, gangs: gangs_for_gangs },
    };
    (caches, deltas)
}
