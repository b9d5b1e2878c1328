//! Takes the snapshot of a set and its children from the caches. It sends no requests.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::mnnvl::required_domains_of_replica;
use grove_api_types::names::PodCliqueScalingGroupName;
use grove_api_types::resource_sharing::claim_source::shares_claims;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{admission, labels, unsupported_fields};
use grove_controller::children::ByName;
use grove_controller::name_conflict::NameConflict;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::Context;
use super::observed::Observed;
use crate::children::by_name;
use crate::claims::{ClaimInputs, referenced_claims};
use crate::compute_domains::AwaitedDomains;
use crate::informers::PcsCaches;
use crate::native_gangs::{Incarnations, gang_decisions};
use crate::startup::Identity;
use crate::topology::GangTopologies;

/// The snapshot of `set`.
pub(super) fn observe(ctx: &Context, set: &PodCliqueSet) -> Observed {
    // Read before the children: a child that arrives in between is no longer pending, and is among them.
    let pending_creates = ctx.children.pending_creates(set);
    let namespace = set.namespace().unwrap_or_default();
    let scheduler = Scheduler::of_set(set).unwrap_or(ctx.config().schedulers.default_profile);
    let has_pod_groups = ctx.caches.incarnations.apply_to(set, scheduler);
    let with_defaults = admission::default::pod_clique_set(set);
    let omitted = OmittedMinima::of(&set.spec.template);
    let revision = Revision::new(with_defaults.spec.template.clone(), omitted);
    let children = ctx.children.children(set);
    let identity = Identity::new(ctx.config().startup.token, &with_defaults, &children);
    let mut observed = Observed {
        unsupported_fields: unsupported_fields::fields(set, scheduler, has_pod_groups),
        default_scheduler: ctx.config().schedulers.default_profile,
        orphans_children: ctx.caches.orphan_deletions.contains(set),
        pending_creates,
        is_namespace_terminating: ctx.caches.terminating_namespaces.contains(&namespace),
        is_topology_enabled: ctx.caches.topologies.is_enabled(),
        identity,
        ..Observed::new(with_defaults, revision, children)
    };
    if !observed.is_terminating() && observed.exceeded_limit().is_none() {
        observed.adoptable_groups = adoptable_groups(&ctx.caches, &observed);
        if observed.revision.omits_minima() || observed.exceeds_history_limit() {
            observed.members = members(&ctx.caches, &observed);
        }
        observed = observed.expanded();
        observed.topologies = gang_topologies(&ctx.caches, &observed);
        observed.pack_affinities = observed.pack_affinities_of_cliques();
        observed.awaited_domains = awaited_domains(&ctx.caches, &observed);
        observed.name_conflicts = ctx.children.name_conflicts(set, &observed.expansion());
        observed.claims = claims(&ctx.caches, &observed);
        if !observed.is_namespace_terminating {
            observed.backed_off = ctx.children.backed_off(set);
        }
    }
    observed
}

/// Decides which `PodGroup`s the gangs have. The topologies of the gangs are known now.
pub(super) fn decide_gangs(ctx: &Context, observed: &mut Observed, now: Timestamp) {
    if observed.is_terminating() || observed.exceeded_limit().is_some() {
        return;
    }
    let PcsCaches { incarnations, cliques, .. } = &ctx.caches;
    let belongs_to_set = |clique: &PodClique| ctx.caches.belongs_to(clique, &observed.set);
    observed.gang_decisions = gang_decisions(incarnations, cliques, belongs_to_set, &observed.gangs(), now);
}

/// Remembers the decisions about the `PodGroup`s. If a gang or a clique has changed since the snapshot, its change may have triggered
/// nothing, because the decisions that depend on it were unknown.
pub(super) fn record_gang_decisions(ctx: &Context, observed: &Observed) {
    let Observed { set, gang_decisions, .. } = observed;
    let PcsCaches { incarnations, gangs, cliques, .. } = &ctx.caches;
    incarnations.record(set, gang_decisions.choices());
    // A request ends when the gang names the revision, when the gang is deleted, and when the set has a later revision.
    incarnations.retain_restarts(set, |gang, restart| {
        let gang = observed.children.get::<PodGang>(gang);
        let is_open = |gang: &PodGang| gang.labels().get(labels::GENERATION_HASH) != Some(&restart.hash);
        let is_current = restart.hash == observed.hash() || restart.generation > set.metadata.generation;
        is_current && gang.is_some_and(|gang| is_open(gang))
    });
    if !gang_decisions.agree_with(gangs, cliques, set.metadata.namespace.as_deref().unwrap_or_default()) {
        incarnations.request_decision(set);
    }
}

/// What decides about the claims of the set, without the templates.
fn claims(caches: &PcsCaches, observed: &Observed) -> ClaimInputs {
    if !shares_claims(&observed.set.spec.template) {
        return ClaimInputs::default();
    }
    let cliques = || {
        let (namespace, set) = (observed.set.namespace().unwrap_or_default(), observed.set.name_any());
        let cliques = caches.cliques.of_namespace(&namespace).into_iter();
        cliques.filter(|clique| clique.labels().get(labels::PART_OF) == Some(&set)).collect()
    };
    let referenced = referenced_claims(&observed.owned_claims(), &observed.children, cliques);
    caches.resource_claims.inputs(&observed.name_conflicts, referenced)
}

/// The compute domains that the replicas wait for.
fn awaited_domains(caches: &PcsCaches, observed: &Observed) -> AwaitedDomains {
    if required_domains_of_replica(&observed.set, 0).is_empty() {
        return AwaitedDomains::default();
    }
    observed.replicas.iter().map(|replica| (replica.index, caches.awaited_domains(&observed.set, replica))).collect()
}

/// The topologies of the gangs. A gang has scheduled pods if one of its cliques reports some, or if an earlier LIST has shown some.
fn gang_topologies(caches: &PcsCaches, observed: &Observed) -> GangTopologies {
    let PcsCaches { topologies, cliques, .. } = caches;
    let Some(name) = topologies.name_for(&observed.set) else { return GangTopologies::default() };
    let namespace = observed.set.namespace().unwrap_or_default();
    let is_scheduled = |group: &GangPodGroup| {
        let clique = cliques.get(&namespace, &group.name);
        let status =
            clique.as_ref().filter(|clique| !is_terminating(&***clique)).and_then(|clique| clique.status.as_ref());
        status.is_some_and(|status| status.scheduled_replicas > 0)
    };
    let gangs = observed.children.of_kind::<PodGang>();
    let choices = caches.incarnations.choices(&observed.set);
    let is_bound = |gang: &PodGang| Incarnations::has_bound_pods(&choices, gang, cliques);
    let gangs = gangs.map(|gang| (gang, is_bound(gang) || gang.spec.podgroups.iter().any(is_scheduled)));
    GangTopologies::new((&observed.set, name), topologies.is_enabled(), |name| topologies.get(name), gangs)
}

/// The scaling groups that the set will adopt.
fn adoptable_groups(caches: &PcsCaches, observed: &Observed) -> ByName<PodCliqueScalingGroup> {
    let (set, name) = (&observed.set, observed.name());
    let configs = &set.spec.template.pod_clique_scaling_groups;
    let names = (0..set.spec.replicas).flat_map(|index| {
        configs
            .iter()
            .map(|config| PodCliqueScalingGroupName::of_replica(&name, index, &config.name))
            .collect::<Vec<_>>()
    });
    let namespace = set.namespace().unwrap_or_default();
    let base_labels = labels::base(&name);
    let candidates = names.filter(|name| observed.children.get::<PodCliqueScalingGroup>(name.as_str()).is_none());
    let found = candidates.filter_map(|name| caches.groups.get(&namespace, name.as_str()));
    by_name(found.filter(|group| NameConflict::with(&**group).is_adoptable(&base_labels)))
}

/// The cliques of the active scaling groups of the set.
fn members(caches: &PcsCaches, observed: &Observed) -> Vec<Arc<PodClique>> {
    let namespace = observed.set.namespace().unwrap_or_default();
    let groups = observed.groups().filter(|group| !is_terminating(*group));
    let uids = groups.filter_map(|group| group.metadata.uid.as_deref());
    uids.flat_map(|uid| caches.cliques.owned_by(&namespace, uid)).collect()
}
