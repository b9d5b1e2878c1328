//! Fills [`Observed`] from the caches, and says which changes wake which group.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::channel::mpsc;
use futures::stream::{self, BoxStream, StreamExt};
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::CurrentScale;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName, PodGangName};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{admission, labels};
use grove_runtime::caches::{Cache, Change};
use grove_runtime::controller::Wake;
use grove_runtime::namesake::Namesake;
use grove_runtime::refusals::Refusals;
use grove_runtime::triggers;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use super::observed::{Observed, set_replica};
use crate::Ctx;
use crate::children::{ByName, by_name};
use crate::watch::{Caches, Heard, Relief};

/// What wakes the reconciler.
pub struct Changes {
    /// The groups themselves.
    pub(super) groups: BoxStream<'static, Change<PodCliqueScalingGroup>>,
    /// The groups whose set, cliques or gangs changed.
    pub(super) touched: BoxStream<'static, Wake<PodCliqueScalingGroup>>,
    /// The groups for whose cliques there may be room again.
    pub(super) relieved: BoxStream<'static, ObjectRef<PodCliqueScalingGroup>>,
}

/// What of all that is `heard` wakes groups.
pub(crate) fn changes(caches: &Caches, refused: &Refusals<PodCliqueScalingGroup>, heard: Heard) -> Changes {
    let (freed, relieved) = mpsc::unbounded();
    let relief = Relief { refused: refused.clone(), freed };
    let Heard { sets, groups, cliques, gangs } = heard;
    let of_sets = caches.groups.clone();
    let of_sets = sets
        .filter(|change| std::future::ready(triggers::changed_spec_or_labels(change)))
        .flat_map(move |change| stream::iter(of_set(&of_sets, change.latest().map(AsRef::as_ref))));
    let of_gangs = caches.sets.clone();
    let of_gangs = gangs
        .filter(|change| std::future::ready(came_or_went(change)))
        .flat_map(move |change| stream::iter(of_gang(&of_gangs, change.latest().map(AsRef::as_ref))));
    let of_cliques = caches.cliques.clone();
    let owners = cliques.flat_map(move |change| {
        relief.tell(&change);
        let act = triggers::calls_for_act(&change);
        stream::iter(triggers::concerned(&of_cliques, &change)).map(move |group| Wake::new(act, group))
    });
    let others = stream::select(of_sets, of_gangs).map(Wake::Act);
    let touched = stream::select(others, owners);
    Changes { groups, touched: touched.boxed(), relieved: relieved.boxed() }
}

fn came_or_went(change: &Change<PodGang>) -> bool {
    let stands = |gang: &Option<Arc<PodGang>>| gang.as_ref().is_some_and(|gang| !is_terminating(&**gang));
    stands(&change.before) != stands(&change.after)
}

fn of_set(groups: &Cache<PodCliqueScalingGroup>, set: Option<&PodCliqueSet>) -> Vec<ObjectRef<PodCliqueScalingGroup>> {
    let uid = set.and_then(ResourceExt::uid).unwrap_or_default();
    groups.owned_by(&uid).iter().map(|group| ObjectRef::from_obj(&**group)).collect()
}

/// The groups some of whose cliques are to be scheduled with `gang`: by its name, since they may not exist yet.
fn of_gang(sets: &Cache<PodCliqueSet>, gang: Option<&PodGang>) -> Vec<ObjectRef<PodCliqueScalingGroup>> {
    let Some(gang) = gang else { return Vec::new() };
    let name = PodGangName::new(gang.name_any());
    let namespace = gang.namespace().unwrap_or_default();
    let Some((counted, number)) = name.split_index() else { return Vec::new() };
    let set = gang.labels().get(labels::PART_OF).filter(|set| *set == counted);
    let set = set.and_then(|set| sets.get(&namespace, set));
    let of_base = set.iter().flat_map(|set| {
        let set_name = PodCliqueSetName::new(counted);
        let configs = &set.spec.template.pod_clique_scaling_groups;
        configs.iter().map(move |config| PodCliqueScalingGroupName::of_replica(&set_name, number, &config.name))
    });
    let of_scaled = PodCliqueScalingGroupName::new(counted);
    of_base.chain([of_scaled]).map(|group| ObjectRef::new(group.as_str()).within(&namespace)).collect()
}

/// What is known about `group` now.
pub(super) fn observe(ctx: &Ctx, group: &PodCliqueScalingGroup) -> Observed {
    let caches = &ctx.caches;
    let set = caches.set_of(group).map(|set| admission::default::pod_clique_set(&set));
    let place = set.as_ref().zip(set_replica(group));
    let siblings: Vec<_> = place.iter().flat_map(|(set, index)| siblings(caches, set, *index)).collect();
    // The group itself comes last: it is newer than the cache.
    let live = CurrentScale::of(siblings.iter().map(AsRef::as_ref).chain([group]), []);
    let (cliques, refused) = (cliques(caches, group), ctx.refused.groups.standing(group));
    let (gangs, taken) = (BTreeSet::new(), Vec::new());
    let mut seen = Observed { group: group.clone(), set, live, cliques, gangs, taken, refused };
    (seen.gangs, seen.taken) = around(caches, &seen);
    seen
}

/// The gangs that stand of those that cliques of the group belong to, and who has names that its cliques should have. Which
/// those are is said by the set; of the group only its size counts.
fn around(caches: &Caches, seen: &Observed) -> (BTreeSet<String>, Vec<Namesake>) {
    let set = seen.set.as_ref().filter(|_| !seen.is_leaving());
    let wanted = set.and_then(|set| Some((set, seen.wanted(set)?)));
    let group = wanted.as_ref().and_then(|(set, replica)| Some((*set, seen.of_group(replica)?)));
    let Some((set, group)) = group else { return Default::default() };
    let cliques = group.members.iter().flat_map(|member| &member.cliques);
    let taken = caches.cliques.namesakes(&seen.group, cliques.map(|clique| clique.name.as_str()));
    (gangs(caches, set, group.members.iter().map(|member| &member.gang)), taken)
}

/// The cliques that `group` controls, whether or not it still exists.
pub(super) fn cliques(caches: &Caches, group: &PodCliqueScalingGroup) -> ByName<PodClique> {
    by_name(caches.cliques.owned_by(&group.uid().unwrap_or_default()))
}

/// The groups of one replica of `set`.
fn siblings(caches: &Caches, set: &PodCliqueSet, index: i32) -> Vec<Arc<PodCliqueScalingGroup>> {
    let (name, namespace) = (PodCliqueSetName::new(set.name_any()), set.namespace().unwrap_or_default());
    let names = set.spec.template.pod_clique_scaling_groups.iter();
    let names = names.map(|config| PodCliqueScalingGroupName::of_replica(&name, index, &config.name));
    names.filter_map(|name| caches.groups.get(&namespace, name.as_str())).collect()
}

/// Those of the gangs that stand. Somebody else's gang of such a name does not: its references are not for our pods.
fn gangs<'a>(caches: &Caches, set: &PodCliqueSet, names: impl Iterator<Item = &'a PodGangName>) -> BTreeSet<String> {
    let namespace = set.namespace().unwrap_or_default();
    let stands = |gang: &&PodGangName| {
        let gang = caches.gangs.get(&namespace, gang.as_str());
        gang.is_some_and(|gang| !is_terminating(&*gang) && is_controlled_by(&*gang, set))
    };
    names.filter(stands).map(ToString::to_string).collect()
}
