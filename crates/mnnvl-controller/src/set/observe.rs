//! Takes the snapshot of a set and its domains from the caches. It sends no requests.

use std::sync::Arc;

use grove_api_types::admission;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::create_backoff::BackedOffCreates;
use kube::ResourceExt;

use super::Context;
use super::observed::Observed;
use crate::lost_owner;

/// The snapshot of `set`.
pub(super) fn observe(ctx: &Context, set: &PodCliqueSet) -> Observed {
    let caches = &ctx.caches;
    let namespace = set.namespace().unwrap_or_default();
    // Read before the children: a child that arrives in between is no longer pending, and is among them.
    let pending_creates = ctx.children.pending_creates(set);
    let is_namespace_terminating = caches.namespaces.contains(&namespace);
    let mut observed = Observed {
        set: admission::default::pod_clique_set(set),
        availability: caches.domains.availability(),
        children: ctx.children.children(set),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates,
        namespace_uid: caches.namespaces.uid(&namespace),
        is_namespace_terminating,
    };
    if !is_namespace_terminating {
        observed.backed_off = ctx.children.backed_off(set);
    }
    if !is_terminating(set) && !observed.is_too_large() {
        let mut conflicts = ctx.children.name_conflicts(set, &observed.expand());
        let lost: Vec<Arc<ComputeDomain>> = conflicts
            .iter()
            .filter_map(|conflict| caches.domains.get(&namespace, &conflict.target.name))
            .filter(|domain| lost_owner::belongs_to(domain, set))
            .collect();
        conflicts.retain(|conflict| lost.iter().all(|domain| domain.name_any() != conflict.target.name));
        observed.children.extend(lost);
        observed.name_conflicts = conflicts;
    }
    observed
}
