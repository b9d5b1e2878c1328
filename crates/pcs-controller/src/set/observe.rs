//! Fills [`Observed`] from the caches: one watch per kind, no request per reconcile.

use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt};
use grove_api_types::admission;
use grove_api_types::core::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::{Cache, Change};
use grove_runtime::triggers::owner_of;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use super::observed::Observed;
use crate::children::autoscaler::Autoscaler;
use crate::children::by_name;
use crate::watch::{Caches, Heard};

/// What wakes the reconciler.
pub struct Changes {
    /// The sets themselves.
    pub(super) sets: BoxStream<'static, Change<PodCliqueSet>>,
    /// The sets some of whose children changed.
    pub(super) touched: SelectAll<BoxStream<'static, ObjectRef<PodCliqueSet>>>,
}

/// What of all that is `heard` wakes sets.
pub(crate) fn changes(
    caches: &Caches,
    heard: Heard,
    services: impl Stream<Item = Change<Service>> + Send + 'static,
    autoscalers: impl Stream<Item = Change<Autoscaler>> + Send + 'static,
) -> Changes {
    let Heard { sets, groups, cliques, gangs } = heard;
    let of_groups = caches.groups.clone();
    let cliques = cliques.flat_map(move |change| stream::iter(of_clique(&of_groups, &change))).boxed();
    let touched = [owners(groups), cliques, owners(gangs), owners(services), owners(autoscalers)];
    Changes { sets, touched: SelectAll::from_iter(touched) }
}

fn owners<K>(changes: impl Stream<Item = Change<K>> + Send + 'static) -> BoxStream<'static, ObjectRef<PodCliqueSet>>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    changes.filter_map(async |change| owner_of(&change)).boxed()
}

/// The set that a clique belongs to, itself or through its scaling group: gangs follow the cliques of groups as well.
fn of_clique(groups: &Cache<PodCliqueScalingGroup>, change: &Change<PodClique>) -> Option<ObjectRef<PodCliqueSet>> {
    owner_of(change).or_else(|| {
        let group: ObjectRef<PodCliqueScalingGroup> = owner_of(change)?;
        let group = groups.get(group.namespace.as_deref().unwrap_or_default(), &group.name)?;
        owner_of(&Change { before: None, after: Some(group) })
    })
}

/// What is known about `set` now.
pub(super) fn observe(caches: &Caches, set: &PodCliqueSet) -> Observed {
    Observed { set: admission::default::pod_clique_set(set), ..children(caches, set) }
}

/// The children that `set` controls, whether or not it still exists.
pub(super) fn children(caches: &Caches, set: &PodCliqueSet) -> Observed {
    let uid = set.uid().unwrap_or_default();
    let groups = caches.groups.owned_by(&uid);
    let members = groups.iter().flat_map(|group| caches.cliques.owned_by(&group.uid().unwrap_or_default()));
    Observed {
        set: set.clone(),
        cliques: by_name(caches.cliques.owned_by(&uid)),
        members: by_name(members),
        groups: by_name(groups),
        gangs: by_name(caches.gangs.owned_by(&uid)),
        services: by_name(caches.services.owned_by(&uid)),
        autoscalers: by_name(caches.autoscalers.owned_by(&uid)),
    }
}
