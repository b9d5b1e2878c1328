//! Takes the snapshot of a set and its children from the caches. It sends no requests.

use grove_api_types::expansion::{self, SetReplica};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{admission, labels, unsupported_fields};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::NameConflict;
use kube::ResourceExt;

use super::observed::Observed;
use crate::children::{ByName, by_name};
use crate::context::Context;
use crate::informers::Caches;

/// The snapshot of `set`.
pub(super) fn observe(ctx: &Context, set: &PodCliqueSet) -> Observed {
    let Context { caches, default_scheduler, .. } = ctx;
    let (defaulted, default_scheduler) = (admission::default::pod_clique_set(set), *default_scheduler);
    let mut observed = Observed { set: defaulted, default_scheduler, ..children(caches, set) };
    if !observed.is_terminating() && !observed.is_too_large() {
        observed.adoptable_groups = adoptable_groups(caches, &observed);
        observed.name_conflicts = name_conflicts(ctx, &observed);
        observed.backed_off = ctx.create_backoffs.sets.active(set);
        observed.pending_creates = ctx.pending_creates(set);
    }
    observed
}

/// The children that `set` controls. The set itself may be deleted.
pub(super) fn children(caches: &Caches, set: &PodCliqueSet) -> Observed {
    let uid = set.uid().unwrap_or_default();
    Observed {
        set: set.clone(),
        unsupported_fields: unsupported_fields::fields(set),
        cliques: by_name(caches.cliques.owned_by(&uid)),
        groups: by_name(caches.groups.owned_by(&uid)),
        gangs: by_name(caches.gangs.owned_by(&uid)),
        services: by_name(caches.services.owned_by(&uid)),
        autoscalers: by_name(caches.autoscalers.owned_by(&uid)),
        default_scheduler: Scheduler::default(),
        adoptable_groups: ByName::new(),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
    }
}

/// The scaling groups that the set will adopt.
fn adoptable_groups(caches: &Caches, observed: &Observed) -> ByName<PodCliqueScalingGroup> {
    let replicas = expansion::expand(&observed.set, &observed.current_scale());
    let groups = replicas.iter().flat_map(|replica| &replica.groups).map(|group| group.name.as_str());
    let namespace = observed.set.namespace().unwrap_or_default();
    let base_labels = labels::base(&observed.name());
    let candidates = groups.filter(|name| !observed.groups.contains_key(*name));
    let found = candidates.filter_map(|name| caches.groups.get(&namespace, name));
    by_name(found.filter(|group| NameConflict::with(&**group).is_adoptable(&base_labels)))
}

/// The objects that have the name of a child of the set, and that the set does not control.
fn name_conflicts(ctx: &Context, observed: &Observed) -> Vec<NameConflict> {
    let replicas = expansion::expand(&observed.set, &observed.current_scale());
    let gangs: Vec<_> = replicas.iter().flat_map(SetReplica::gangs).map(|gang| gang.name.to_string()).collect();
    let groups = replicas.iter().flat_map(|replica| &replica.groups).map(|group| group.name.as_str());
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques).map(|clique| clique.name.as_str());
    let autoscalers: Vec<_> =
        replicas.iter().flat_map(SetReplica::autoscalers).map(|autoscaler| autoscaler.name.to_string()).collect();
    let services = replicas.iter().map(|replica| replica.service.as_str());
    let (set, caches, waiters) = (&observed.set, &ctx.caches, &ctx.name_waiters.sets);
    let mut conflicts = waiters.name_conflicts(&caches.services, set, services);
    conflicts.extend(waiters.name_conflicts(&caches.gangs, set, gangs.iter().map(String::as_str)));
    conflicts.extend(waiters.name_conflicts(&caches.groups, set, groups));
    conflicts.extend(waiters.name_conflicts(&caches.cliques, set, cliques));
    conflicts.extend(waiters.name_conflicts(&caches.autoscalers, set, autoscalers.iter().map(String::as_str)));
    conflicts
}
