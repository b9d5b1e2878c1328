//! Takes the snapshot of a scaling group, its set and its cliques from the caches. It sends no requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::admission;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::CurrentScale;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName, PodGangName};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::name_conflict::NameConflict;
use kube::ResourceExt;

use super::observed::{Observed, set_replica};
use crate::children::{ByName, by_name};
use crate::context::Context;
use crate::informers::Caches;

/// The snapshot of `group`.
pub(super) fn observe(ctx: &Context, group: &PodCliqueScalingGroup) -> Observed {
    let caches = &ctx.caches;
    let set = caches.set_of(group).map(|set| admission::default::pod_clique_set(&set));
    let replica = set.as_ref().zip(set_replica(group));
    let siblings: Vec<_> = replica.iter().flat_map(|(set, index)| siblings(caches, set, *index)).collect();
    // The last group of a name wins, and the group itself is newer than the cache.
    let current_scale = CurrentScale::of(siblings.iter().map(AsRef::as_ref).chain([group]), []);
    let (cliques, backed_off) = (children(caches, group), ctx.create_backoffs.groups.active(group));
    let (active_gangs, name_conflicts) = (BTreeSet::new(), Vec::new());
    let (pending_creates, group) = (ctx.pending_creates(group), group.clone());
    let mut observed =
        Observed { group, set, current_scale, cliques, active_gangs, name_conflicts, backed_off, pending_creates };
    (observed.active_gangs, observed.name_conflicts) = gangs_and_conflicts(ctx, &observed);
    observed
}

/// The cliques that `group` controls. The group itself may be deleted.
pub(super) fn children(caches: &Caches, group: &PodCliqueScalingGroup) -> ByName<PodClique> {
    by_name(caches.cliques.owned_by(&group.uid().unwrap_or_default()))
}

/// The active gangs that the cliques of the group belong to, and the name conflicts of its cliques. The names follow from
/// the set and from the replica count of the group.
fn gangs_and_conflicts(ctx: &Context, observed: &Observed) -> (BTreeSet<String>, Vec<NameConflict>) {
    let set = observed.set.as_ref().filter(|_| !observed.is_terminating());
    let desired = set.and_then(|set| Some((set, observed.desired_replica(set)?)));
    let group = desired.as_ref().and_then(|(set, replica)| Some((*set, observed.in_replica(replica)?)));
    let Some((set, group)) = group else { return Default::default() };
    let cliques = group.members.iter().flat_map(|member| &member.cliques);
    let cliques = cliques.map(|clique| clique.name.as_str());
    let conflicts = ctx.name_waiters.groups.name_conflicts(&ctx.caches.cliques, &observed.group, cliques);
    (active_gangs(&ctx.caches, set, group.members.iter().map(|member| &member.gang)), conflicts)
}

/// The groups of one replica of `set`.
fn siblings(caches: &Caches, set: &PodCliqueSet, index: i32) -> Vec<Arc<PodCliqueScalingGroup>> {
    let (name, namespace) = (PodCliqueSetName::new(set.name_any()), set.namespace().unwrap_or_default());
    let names = set.spec.template.pod_clique_scaling_groups.iter();
    let names = names.map(|config| PodCliqueScalingGroupName::of_replica(&name, index, &config.name));
    names.filter_map(|name| caches.groups.get(&namespace, name.as_str())).collect()
}

/// Those of the gangs that exist, are not terminating, and are controlled by `set`. The references of another owner's gang
/// are not for the pods of this set.
fn active_gangs<'a>(
    caches: &Caches,
    set: &PodCliqueSet,
    names: impl Iterator<Item = &'a PodGangName>,
) -> BTreeSet<String> {
    let namespace = set.namespace().unwrap_or_default();
    let is_active = |name: &&PodGangName| {
        let gang = caches.gangs.get(&namespace, name.as_str());
        gang.is_some_and(|gang| !is_terminating(&*gang) && is_controlled_by(&*gang, set))
    };
    names.filter(is_active).map(ToString::to_string).collect()
}
