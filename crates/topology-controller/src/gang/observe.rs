//! Takes the snapshot of a gang, its cliques, its base gang and its `PodGroup` from the caches. It sends no requests.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::pod_group;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::create_backoff::BackedOffCreates;
use kube::ResourceExt;

use super::Context;
use super::observed::{BaseGang, Observed};
use crate::base_gangs::is_scheduled;
use crate::informers::GangCaches;
use crate::pod_groups::{self, PodGroupApi};

/// The snapshot of `gang`.
pub(super) fn observe(ctx: &Context, gang: &PodGang) -> Observed {
    let caches = &ctx.caches;
    let namespace = gang.namespace().unwrap_or_default();
    let groups = gang.spec.podgroups.iter();
    let cliques = groups.filter_map(|group| caches.cliques.get(&namespace, &group.name));
    // Read before the children: a child that arrives in between is no longer pending, and is among them.
    let pending_creates = ctx.children.pending_creates(gang);
    let is_namespace_terminating = caches.terminating_namespaces.contains(&namespace);
    let scheduler = scheduler(ctx, gang);
    let mut observed = Observed {
        gang: gang.clone(),
        scheduler,
        cliques: cliques.map(|clique| (clique.name_any(), clique)).collect(),
        base_gang: None,
        availability: pod_groups::availability(scheduler, &caches.informers),
        native_gangs: ctx.config().native_gangs,
        children: ctx.children.children(gang),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates,
        orphans_children: caches.orphan_deletions.contains(gang),
        is_namespace_terminating,
    };
    observed.base_gang = awaited_base_gang(caches, &observed);
    if !is_namespace_terminating {
        observed.backed_off = ctx.children.backed_off(gang);
    }
    if !is_terminating(gang) {
        observed.name_conflicts = ctx.children.name_conflicts(gang, &observed.expand());
    }
    observed
}

/// The base gang that must be scheduled before the `PodGroup` is created. It is not read if the `PodGroup` exists.
fn awaited_base_gang(caches: &GangCaches, observed: &Observed) -> Option<BaseGang> {
    let gang = &observed.gang;
    PodGroupApi::of(observed.scheduler).filter(|api| api.awaits_base_gang())?;
    observed.pod_group_name().filter(|_| observed.live_pod_group().is_none())?;
    let name = pod_group::base_gang(gang)?;
    let namespace = gang.namespace().unwrap_or_default();
    let is_scheduled = is_scheduled(&caches.gangs, &caches.cliques, &namespace, name.as_str());
    Some(BaseGang { name, is_scheduled })
}

/// The configured scheduler that the label of the gang names, otherwise the default one.
fn scheduler(ctx: &Context, gang: &PodGang) -> Scheduler {
    let named = gang.labels().get(labels::SCHEDULER_NAME).and_then(|name| Scheduler::named(name));
    let schedulers = &ctx.config().schedulers;
    named.filter(|scheduler| schedulers.contains(*scheduler)).unwrap_or(schedulers.default_profile)
}
