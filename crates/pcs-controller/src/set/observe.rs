//! Fills [`Observed`] from the caches: one watch per kind, no request per reconcile.

use futures::stream::BoxStream;
use futures::{StreamExt, stream::SelectAll};
use grove_api_types::admission;
use grove_api_types::core::{PodClique, PodCliqueSet};
use grove_api_types::scheduler_group::PodGang;
use grove_runtime::caches::{Cache, Change};
use grove_runtime::service::Service as GroveService;
use grove_runtime::triggers::owner_of;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};

use super::observed::Observed;
use crate::children::by_name;

/// The children of all sets.
#[derive(Clone)]
pub struct Caches {
    cliques: Cache<PodClique>,
    gangs: Cache<PodGang>,
    services: Cache<Service>,
}

/// What wakes the reconciler.
pub struct Changes {
    /// The sets themselves.
    pub(super) sets: BoxStream<'static, Change<PodCliqueSet>>,
    /// The sets whose children changed.
    pub(super) owners: SelectAll<BoxStream<'static, ObjectRef<PodCliqueSet>>>,
}

/// Starts the watches.
pub fn watch(service: &GroveService) -> (Caches, Changes) {
    let (_, sets) = service.watch::<PodCliqueSet>(watcher::Config::default(), None);
    let (cliques, of_cliques) = service.watch::<PodClique>(watcher::Config::default(), None);
    let (gangs, of_gangs) = service.watch::<PodGang>(watcher::Config::default(), None);
    let (services, of_services) = service.watch::<Service>(watcher::Config::default(), None);
    let owners = SelectAll::from_iter([owners(of_cliques), owners(of_gangs), owners(of_services)]);
    (Caches { cliques, gangs, services }, Changes { sets: sets.boxed(), owners })
}

fn owners<K>(
    changes: impl futures::Stream<Item = Change<K>> + Send + 'static,
) -> BoxStream<'static, ObjectRef<PodCliqueSet>>
where
    K: Resource + Send + Sync + 'static,
{
    changes.filter_map(async |change| owner_of(&change)).boxed()
}

/// What is known about `set` now.
pub(super) fn observe(caches: &Caches, set: &PodCliqueSet) -> Observed {
    Observed { set: admission::default::pod_clique_set(set), ..children(caches, set) }
}

/// The children that `set` controls, whether or not it still exists.
pub(super) fn children(caches: &Caches, set: &PodCliqueSet) -> Observed {
    let uid = set.uid().unwrap_or_default();
    Observed {
        set: set.clone(),
        cliques: by_name(caches.cliques.owned_by(&uid)),
        gangs: by_name(caches.gangs.owned_by(&uid)),
        services: by_name(caches.services.owned_by(&uid)),
    }
}
