//! Takes the snapshot of a clique, its pods, its claims and its gang from the caches. It sends no requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::admission::default;
use grove_api_types::mnnvl::domain_template;
use grove_api_types::ownership::is_adoptable;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::{Availability, Cache, UnreadableObject};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::Context;
use super::observed::Observed;
use crate::observed::ObservedClique;
use crate::pod::labelled_clique;
use crate::{claims, gangs, startup};

/// The snapshot of `clique`.
pub(super) fn observe(ctx: &Context, clique: &PodClique, now: Timestamp) -> Observed {
    let caches = &ctx.caches;
    let (state, terminating) = clique_and_pods(ctx, with_defaults(clique), now);
    let ObservedClique { clique, pods, tombstones, is_namespace_terminating, .. } = &state;
    let gang = gangs::observe(&caches.cliques, &caches.gangs, &caches.memory.gating_gangs, clique);
    let backed_off = if *is_namespace_terminating {
        BackedOffCreates::default()
    } else {
        caches.memory.creates.backoff.active(clique)
    };
    let existing = pods.iter().map(AsRef::as_ref);
    let deleted = tombstones.iter().chain(&terminating).map(AsRef::as_ref);
    let claims = claims::observe(&ctx.children, &caches.claims, &caches.memory.retired_claims, &state);
    let replaced = (clique, claims.are_shared(clique.spec.replicas));
    let delayed_replacements = caches.memory.replacements.observe(replaced, existing, deleted, now);
    let missing_domain_template = missing_domain_template(ctx, &state);
    let startup = startup::observe(&caches.cliques, &caches.init_container, clique);
    Observed {
        state,
        gang,
        backed_off,
        delayed_replacements,
        default_scheduler: ctx.config().schedulers.default_profile,
        claims,
        missing_domain_template,
        startup,
    }
}

/// The clique and its pods, and the deleted pods that are still terminating.
fn clique_and_pods(ctx: &Context, clique: PodClique, now: Timestamp) -> (ObservedClique, Vec<Arc<SlimPod>>) {
    let caches = &ctx.caches;
    // The number is read before the pods. So the pods contain the result of every counted relist.
    let relists = *caches.pods.relists().borrow();
    let (uid, namespace) = (clique.uid().unwrap_or_default(), clique.namespace().unwrap_or_default());
    let pods = caches.pods.owned_by(&namespace, &uid);
    let mut orphans = caches.pods.orphans(&namespace);
    let name = clique.metadata.name.as_deref();
    orphans.retain(|pod| is_adoptable(&pod.metadata) && labelled_clique(&pod.metadata) == name);
    let unreadable_pods = unreadable_pods(&caches.pods, &clique);
    // Read after the pods: a pod that was deleted in between has a tombstone.
    let (tombstones, terminating) = caches.tombstones.of_clique(&uid, &pods);
    let known_pods = || pods.iter().chain(&orphans).chain(&tombstones).map(AsRef::as_ref);
    let readable_uids = known_pods().filter_map(|pod: &SlimPod| pod.metadata.uid.as_deref());
    let unreadable_uids = unreadable_pods.iter().filter_map(|pod| pod.metadata.uid.as_deref());
    let known_uids: BTreeSet<_> = readable_uids.chain(unreadable_uids).collect();
    let pending_creates =
        caches.memory.creates.expectations.pending(&clique, |_, uid| known_uids.contains(uid), |_| relists);
    let own_writes = caches.memory.write_history.of_clique(&uid, known_pods(), &pending_creates);
    let observed = ObservedClique {
        orphans_pods: caches.orphan_deletions.contains(&clique),
        is_namespace_terminating: caches.terminating_namespaces.contains(&namespace),
        clique,
        pods,
        orphans,
        unreadable_pods,
        tombstones,
        relists,
        pending_creates,
        own_writes,
        now,
    };
    (observed, terminating)
}

/// See [`Observed::missing_domain_template`].
fn missing_domain_template(ctx: &Context, observed: &ObservedClique) -> Option<String> {
    let templates = &ctx.caches.claims.templates;
    observed.waiting_pods().next().filter(|_| templates.availability() == Availability::Served)?;
    let namespace = observed.clique.namespace().unwrap_or_default();
    domain_template(&observed.clique.spec.pod_spec).filter(|name| !templates.contains(&namespace, name))
}

/// The pods that the clique controls, or that have no controller and its labels, that could not be decoded and have no earlier state. A
/// terminating pod without controller is never adopted, so its index is free.
pub(super) fn unreadable_pods(pods: &Cache<SlimPod>, clique: &PodClique) -> Vec<Arc<UnreadableObject>> {
    let metadata = &clique.metadata;
    let (namespace, uid) = (metadata.namespace.as_deref().unwrap_or_default(), metadata.uid.as_deref());
    let mut orphans = pods.unreadable_orphans(namespace);
    orphans.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    orphans.retain(|pod| labelled_clique(&pod.metadata) == metadata.name.as_deref());
    let mut unreadable = pods.unreadable_owned_by(namespace, uid.unwrap_or_default());
    unreadable.append(&mut orphans);
    let has_state = |name: Option<&str>| name.is_some_and(|name| pods.get(namespace, name).is_some());
    unreadable.retain(|pod| !has_state(pod.metadata.name.as_deref()));
    unreadable
}

/// The clique with Grove's defaults applied, except for `replicas`: zero replicas of a stored clique mean no pods.
fn with_defaults(clique: &PodClique) -> PodClique {
    let mut clique = clique.clone();
    let replicas = clique.spec.replicas;
    default::pod_clique_spec(&mut clique.spec);
    clique.spec.replicas = replicas;
    clique
}
