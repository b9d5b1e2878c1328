//! Fills [`Observed`] from the caches: one watch per kind, no request per reconcile.

use std::time::Duration;

use futures::channel::mpsc;
use futures::future::join5;
use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt};
use grove_api_types::expansion::{self, SetReplica};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{admission, labels, unsupported_fields};
use grove_runtime::caches::{Cache, Change};
use grove_runtime::controller::Wake;
use grove_runtime::executor::Done;
use grove_runtime::namesake::Namesake;
use grove_runtime::plan::Target;
use grove_runtime::refusals::{Refusals, Standing};
use grove_runtime::triggers::{calls_for_act, concerned};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use tokio::time::timeout;

use super::observed::Observed;
use crate::Ctx;
use crate::children::autoscaler::Autoscaler;
use crate::children::{ByName, by_name};
use crate::watch::{Caches, Heard, Relief};

/// The watches are behind the writes by milliseconds, on a busy server by tenths of a second.
const CATCH_UP: Duration = Duration::from_secs(2);

/// What wakes the reconciler.
pub struct Changes {
    /// The sets themselves.
    pub(super) sets: BoxStream<'static, Change<PodCliqueSet>>,
    /// The sets some of whose children changed.
    pub(super) touched: SelectAll<BoxStream<'static, Wake<PodCliqueSet>>>,
    /// The sets for whose children there may be room again.
    pub(super) relieved: BoxStream<'static, ObjectRef<PodCliqueSet>>,
}

/// What of all that is `heard` wakes sets.
pub(crate) fn changes(
    caches: &Caches,
    refused: &Refusals<PodCliqueSet>,
    heard: Heard,
    services: impl Stream<Item = Change<Service>> + Send + 'static,
    autoscalers: impl Stream<Item = Change<Autoscaler>> + Send + 'static,
) -> Changes {
    let Heard { sets, groups, cliques, gangs } = heard;
    let (freed, relieved) = mpsc::unbounded();
    let relief = Relief { refused: refused.clone(), freed };
    let touched = [
        owners(&caches.groups, groups, calls_for_act, &relief),
        owners(&caches.cliques, cliques, calls_for_act, &relief),
        owners(&caches.gangs, gangs, differs_by_more_than_references, &relief),
        owners(&caches.services, services, calls_for_act, &relief),
        owners(&caches.autoscalers, autoscalers, calls_for_act, &relief),
    ];
    Changes { sets, touched: SelectAll::from_iter(touched), relieved: relieved.boxed() }
}

/// The sets that a change of a child concerns: whose it is or was, and who wants its name.
fn owners<K>(
    cache: &Cache<K>,
    changes: impl Stream<Item = Change<K>> + Send + 'static,
    calls_for_act: fn(&Change<K>) -> bool,
    relief: &Relief<PodCliqueSet>,
) -> BoxStream<'static, Wake<PodCliqueSet>>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let (cache, relief) = (cache.clone(), relief.clone());
    let wakes = move |change: Change<K>| {
        relief.tell(&change);
        let act = calls_for_act(&change);
        stream::iter(concerned(&cache, &change)).map(move |set| Wake::new(act, set))
    };
    changes.flat_map(wakes).boxed()
}

/// The references to pods are written by somebody else, and only told by the gang's status.
fn differs_by_more_than_references(change: &Change<PodGang>) -> bool {
    let Change { before: Some(before), after: Some(after) } = change else { return calls_for_act(change) };
    let own = |gang: &PodGang| {
        let mut own = gang.clone();
        own.spec.podgroups.iter_mut().for_each(|group| group.pod_references.clear());
        (own.spec, own.metadata.labels, own.metadata.annotations, own.metadata.owner_references)
    };
    before.metadata.deletion_timestamp != after.metadata.deletion_timestamp || own(before) != own(after)
}

/// Waits until the caches have what was just created, so that the next look does not miss it; not for long, because it may
/// be gone again.
pub(super) async fn catch_up(caches: &Caches, done: &Done) {
    let created = done.outcomes.iter().filter(|outcome| outcome.verb == "create" && outcome.result.is_ok());
    let created: Vec<_> = created.map(|outcome| &outcome.target).collect();
    let seen = join5(
        arrived(&caches.services, &created),
        arrived(&caches.gangs, &created),
        arrived(&caches.groups, &created),
        arrived(&caches.cliques, &created),
        arrived(&caches.autoscalers, &created),
    );
    // Whoever waited in vain makes at worst a create that is refused.
    let _ = timeout(CATCH_UP, seen).await;
}

async fn arrived<K: Resource<DynamicType = ()>>(cache: &Cache<K>, created: &[&Target]) {
    let of_kind: Vec<_> = created.iter().filter(|target| target.resource.kind == K::kind(&())).collect();
    let is_there = |cache: &Cache<K>, target: &Target| {
        cache.get(target.namespace.as_deref().unwrap_or_default(), &target.name).is_some()
    };
    // What was there once is not looked at again: a thousand changes come while a thousand objects arrive.
    let mut there = 0;
    cache
        .until(|cache| {
            there += of_kind.iter().skip(there).take_while(|target| is_there(cache, target)).count();
            there == of_kind.len()
        })
        .await;
}

/// What is known about `set` now.
pub(super) fn observe(ctx: &Ctx, set: &PodCliqueSet) -> Observed {
    let Ctx { caches, default_scheduler, .. } = ctx;
    let (defaulted, default_scheduler) = (admission::default::pod_clique_set(set), *default_scheduler);
    let mut seen = Observed { set: defaulted, default_scheduler, ..children(caches, set) };
    if !seen.is_leaving() && !seen.is_too_large() {
        seen.released = released(caches, &seen);
        seen.taken = taken(caches, &seen);
        seen.refused = ctx.refused.sets.standing(set);
    }
    seen
}

/// The scaling groups that the set will adopt.
fn released(caches: &Caches, seen: &Observed) -> ByName<PodCliqueScalingGroup> {
    let replicas = expansion::expand(&seen.set, &seen.live());
    let groups = replicas.iter().flat_map(|replica| &replica.groups).map(|group| group.name.as_str());
    let namespace = seen.set.namespace().unwrap_or_default();
    let ours = labels::base(&seen.name());
    let candidates = groups.filter(|name| !seen.groups.contains_key(*name));
    let found = candidates.filter_map(|name| caches.groups.get(&namespace, name));
    by_name(found.filter(|group| Namesake::of(&**group).is_adoptable(&ours)))
}

/// Who has names that children should have.
fn taken(caches: &Caches, seen: &Observed) -> Vec<Namesake> {
    let replicas = expansion::expand(&seen.set, &seen.live());
    let gangs: Vec<_> = replicas.iter().flat_map(SetReplica::gangs).map(|gang| gang.name.to_string()).collect();
    let groups = replicas.iter().flat_map(|replica| &replica.groups).map(|group| group.name.as_str());
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques).map(|clique| clique.name.as_str());
    let scaled: Vec<_> =
        replicas.iter().flat_map(SetReplica::autoscalers).map(|scaler| scaler.name.to_string()).collect();
    let set = &seen.set;
    let mut taken = caches.services.namesakes(set, replicas.iter().map(|replica| replica.service.as_str()));
    taken.extend(caches.gangs.namesakes(set, gangs.iter().map(String::as_str)));
    taken.extend(caches.groups.namesakes(set, groups));
    taken.extend(caches.cliques.namesakes(set, cliques));
    taken.extend(caches.autoscalers.namesakes(set, scaled.iter().map(String::as_str)));
    taken
}

/// The children that `set` controls, whether or not it still exists.
pub(super) fn children(caches: &Caches, set: &PodCliqueSet) -> Observed {
    let uid = set.uid().unwrap_or_default();
    let groups = caches.groups.owned_by(&uid);
    Observed {
        set: set.clone(),
        ignored: unsupported_fields::fields(set),
        cliques: by_name(caches.cliques.owned_by(&uid)),
        groups: by_name(groups),
        gangs: by_name(caches.gangs.owned_by(&uid)),
        services: by_name(caches.services.owned_by(&uid)),
        autoscalers: by_name(caches.autoscalers.owned_by(&uid)),
        default_scheduler: Scheduler::default(),
        released: ByName::new(),
        taken: Vec::new(),
        refused: Standing::default(),
    }
}
