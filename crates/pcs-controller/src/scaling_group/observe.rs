//! Takes the snapshot of a scaling group, its set and its cliques from the caches. It sends no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::admission;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision};
use grove_api_types::labels;
use grove_api_types::mnnvl::required_domains_of_replica;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName, PodGangName};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::pod_group::{PodGroupRef, name_in_annotation};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Waiting;
use kube::ResourceExt;

use super::Context;
use super::observed::{Observed, set_replica};
use super::recorded_scale;
use crate::claims::{ClaimInputs, referenced_claims};
use crate::compute_domains::AwaitedDomains;
use crate::informers::PcsCaches;
use crate::native_gangs::{cliques_of_gang, gang_pending, gang_unreadable, latest};
use crate::topology::pack_affinities;

/// The snapshot of `group`.
pub(super) fn observe(ctx: &Context, group: &PodCliqueScalingGroup) -> Observed {
    let caches = &ctx.caches;
    let set = caches.set_of(group);
    let omitted = set.as_deref().map(|set| OmittedMinima::of(&set.spec.template)).unwrap_or_default();
    let set = set.map(|set| admission::default::pod_clique_set(&set));
    let revision = set.as_ref().map(|set| Revision::new(set.spec.template.clone(), omitted));
    let replica = set.as_ref().zip(set_replica(group));
    let siblings: Vec<_> = replica.iter().flat_map(|(set, index)| siblings(caches, set, *index)).collect();
    // `group` comes last and replaces the group of the same name, because it is newer than the cache.
    let current_scale = CurrentScale::of(siblings.iter().map(AsRef::as_ref).chain([group]), []);
    // Read before the children: a child that arrives in between is no longer pending, and is among them.
    let pending_creates = ctx.children.pending_creates(group);
    let children = ctx.children.children(group);
    let mut current_scale = current_scale.with_recorded(recorded_scale::of_missing(group, &children));
    if revision.as_ref().is_some_and(|revision: &Revision| revision.omits_minima()) {
        current_scale = current_scale.with_minima_of(children.of_kind::<PodClique>().map(AsRef::as_ref));
    }
    let observed = Observed {
        current_scale,
        orphans_children: caches.orphan_deletions.contains(group),
        pending_creates,
        is_namespace_terminating: caches.terminating_namespaces.contains(&group.namespace().unwrap_or_default()),
        ..Observed::new(group, set.zip(revision), children)
    };
    let mut observed = observed.expanded();
    if !observed.is_namespace_terminating {
        observed.backed_off = ctx.children.backed_off(group);
    }
    (observed.active_gangs, observed.name_conflicts) = gangs_and_conflicts(ctx, &observed);
    (observed.undecided_gangs, observed.pod_group_names, observed.gang_revisions) = incarnations(ctx, &observed);
    let active = observed.active_gangs.iter().filter_map(|gang| caches.gangs.get(&group.namespace()?, gang));
    let active: Vec<_> = active.collect();
    let cliques = observed.children.of_kind::<PodClique>().map(AsRef::as_ref);
    observed.pack_affinities = pack_affinities(active.iter().map(AsRef::as_ref), cliques);
    observed.awaited_domains = awaited_domains(caches, &observed);
    observed.claims = claims(caches, &observed);
    observed
}

/// What decides about the claims of the group, without the templates.
fn claims(caches: &PcsCaches, observed: &Observed) -> ClaimInputs {
    let expansion = observed.expansion().filter(|expansion| !expansion.claims.sources.is_empty());
    let Some(expansion) = expansion else { return ClaimInputs::default() };
    let cliques = || observed.children.of_kind::<PodClique>().cloned().collect();
    let referenced = referenced_claims(&expansion.claims, &observed.children, cliques);
    caches.resource_claims.inputs(&observed.name_conflicts, referenced)
}

/// The compute domains that the replica of the set waits for.
fn awaited_domains(caches: &PcsCaches, observed: &Observed) -> AwaitedDomains {
    let expansion = observed.expansion().filter(|_| !observed.is_terminating());
    let Some(expansion) = expansion else { return AwaitedDomains::default() };
    let (set, replica) = (expansion.set, expansion.set_replica);
    if required_domains_of_replica(set, replica.index).is_empty() {
        return AwaitedDomains::default();
    }
    AwaitedDomains::from_iter([(replica.index, caches.awaited_domains(set, replica))])
}

/// The active gangs that the cliques of the group belong to, and the name conflicts of its children. The names follow from
/// the set and from the replica count of the group.
fn gangs_and_conflicts(ctx: &Context, observed: &Observed) -> (BTreeSet<String>, Vec<NameConflict>) {
    let expansion = observed.expansion().filter(|_| !observed.is_terminating());
    let Some(expansion) = expansion else { return Default::default() };
    let conflicts = ctx.children.name_conflicts(&observed.group, &expansion);
    let gangs = expansion.scaling_group.replicas.iter().map(|replica| &replica.gang);
    (active_gangs(&ctx.caches, expansion.set, gangs), conflicts)
}

/// The gangs of which the set must decide the `PodGroup` first, the `PodGroup`s that the cliques name, which are those of their gangs, and the
/// revisions of scaled gangs. Without an active gang, a clique stays as it is.
fn incarnations(
    ctx: &Context,
    observed: &Observed,
) -> (BTreeMap<String, Waiting>, BTreeMap<String, String>, BTreeMap<i32, String>) {
    let (caches, mut undecided, mut pod_group_names) = (&ctx.caches, BTreeMap::new(), BTreeMap::new());
    let mut revisions = BTreeMap::new();
    let Some(expansion) = observed.expansion().filter(|_| !observed.is_terminating()) else {
        return Default::default();
    };
    let (set, namespace) = (expansion.set, observed.group.namespace().unwrap_or_default());
    let applies =
        caches.incarnations.apply_to(set, Scheduler::of_set(set).unwrap_or(ctx.config().schedulers.default_profile));
    let mut checked = BTreeSet::new();
    for replica in &expansion.scaling_group.replicas {
        let name = replica.gang.as_str();
        let gang = caches.gangs.get(&namespace, name).filter(|_| observed.active_gangs.contains(name));
        let of_gang = gang.as_deref().and_then(|gang| name_in_annotation(name, gang).ok().flatten().map(str::to_owned));
        for clique in &replica.cliques {
            let live = observed.children.get::<PodClique>(clique.name.as_str());
            let of_clique = live.and_then(|live| live.annotations().get(labels::POD_GROUP));
            // The set restores the annotation of the gang if a user has edited it.
            if let Some(pod_group) = latest(name, of_gang.as_ref(), of_clique) {
                pod_group_names.insert(clique.name.to_string(), pod_group);
            }
        }
        let revision = gang.as_deref().and_then(|gang| gang.labels().get(labels::GENERATION_HASH));
        let is_scaled = applies && of_gang.is_some() && replica.base_gang.is_some();
        revisions.extend(revision.filter(|_| is_scaled).map(|revision| (replica.index, revision.clone())));
        if let Some(Err(error)) = gang.as_deref().map(PodGroupRef::of_gang) {
            undecided.insert(name.to_owned(), gang_unreadable(name, &error));
            continue;
        }
        let is_native = applies || of_gang.is_some();
        let Some(gang) = gang.as_deref().filter(|_| is_native && checked.insert(name)) else { continue };
        let mut names = gang.spec.podgroups.iter().map(|group| std::iter::once(group.name.as_str()));
        let belongs_to_set = |clique: &PodClique| caches.belongs_to(clique, set);
        let has_cliques = names.any(|name_of_clique| {
            cliques_of_gang(&caches.cliques, (&namespace, name), name_of_clique, belongs_to_set).exist
        });
        if !caches.incarnations.allow_creates((set, applies), gang, has_cliques) {
            undecided.insert(name.to_owned(), gang_pending(name));
        }
    }
    (undecided, pod_group_names, revisions)
}

/// The groups of one replica of `set`.
fn siblings(caches: &PcsCaches, set: &PodCliqueSet, index: i32) -> Vec<Arc<PodCliqueScalingGroup>> {
    let (name, namespace) = (PodCliqueSetName::new(set.name_any()), set.namespace().unwrap_or_default());
    let names = set.spec.template.pod_clique_scaling_groups.iter();
    let names = names.map(|config| PodCliqueScalingGroupName::of_replica(&name, index, &config.name));
    names.filter_map(|name| caches.groups.get(&namespace, name.as_str())).collect()
}

/// The gangs among the given ones that exist, are not terminating, and are controlled by `set`. A gang of another owner
/// does not reference the pods of this set.
fn active_gangs<'a>(
    caches: &PcsCaches,
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
