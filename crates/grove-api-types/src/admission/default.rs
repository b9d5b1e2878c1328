//! The defaults of a `PodCliqueSet` and of a `PodClique`, for example of `minAvailable`. An existing child keeps its minimum if the
//! default changes: `expansion/revision.rs`.

use std::collections::BTreeMap;

use crate::duration::GoDuration;
use crate::syntax::is_blank;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSpec};

/// The default of `terminationGracePeriodSeconds`, which is that of Kubernetes.
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;
/// The default of `terminationDelay`.
pub(crate) const TERMINATION_DELAY: &str = "4h0m0s";

/// The set with all defaults. The function is idempotent.
pub fn pod_clique_set(set: &PodCliqueSet) -> PodCliqueSet {
    let mut set = set.clone();
    let template = &mut set.spec.template;
    template.headless_service_config.get_or_insert_default();
    template.termination_delay.get_or_insert_with(|| GoDuration::new(TERMINATION_DELAY));
    for clique in &mut template.cliques {
        pod_clique_spec(&mut clique.spec);
    }
    template.pod_clique_scaling_groups.iter_mut().for_each(scaling_group);
    set
}

/// The updated set with all defaults. A clique without `minAvailable` keeps that of the old set: the field is immutable, and
/// a client that replaces the whole object (PUT) may omit it.
pub fn pod_clique_set_on_update(new: &PodCliqueSet, old: &PodCliqueSet) -> PodCliqueSet {
    let mut set = new.clone();
    let before = pod_clique_set(old);
    let stored = OldItems::new(&before.spec.template.cliques, |clique| &clique.name);
    for (at, clique) in set.spec.template.cliques.iter_mut().enumerate() {
        let stored = stored.get(at, &clique.name);
        clique.spec.min_available = clique.spec.min_available.or(stored.and_then(|stored| stored.spec.min_available));
    }
    pod_clique_set(&set)
}

/// Finds the old version of each item of a list.
#[derive(Debug)]
pub(super) struct OldItems<'a, T> {
    items: &'a [T],
    name: fn(&T) -> &String,
    /// The first item of each name.
    by_name: BTreeMap<&'a str, &'a T>,
}

impl<'a, T> OldItems<'a, T> {
    pub(super) fn new(items: &'a [T], name: fn(&T) -> &String) -> Self {
        let mut by_name = BTreeMap::new();
        for item in items {
            by_name.entry(name(item).as_str()).or_insert(item);
        }
        Self { items, name, by_name }
    }

    /// The old item of this name: the one at the same index if it has the name, otherwise the first one that has it.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<&'a T> {
        let in_place = self.items.get(at).filter(|item| (self.name)(item) == name);
        in_place.or_else(|| self.by_name.get(name).copied())
    }
}

fn scaling_group(group: &mut PodCliqueScalingGroupConfig) {
    let replicas = *group.replicas.get_or_insert(1);
    group.min_available.get_or_insert(1);
    if let Some(scale) = &mut group.scale_config {
        scale.min_replicas.get_or_insert(replicas);
    }
}

/// Sets the defaults of a clique: one replica, `minAvailable` equal to `replicas`, and the restart policy and the grace period
/// of its pods.
pub fn pod_clique_spec(spec: &mut PodCliqueSpec) {
    if spec.replicas == 0 {
        spec.replicas = 1;
    }
    spec.min_available.get_or_insert(spec.replicas);
    if let Some(scale) = &mut spec.auto_scaling_config {
        scale.min_replicas.get_or_insert(spec.replicas);
    }
    if is_blank(spec.pod_spec.get("restartPolicy").as_ref()) {
        spec.pod_spec.insert("restartPolicy", "Always");
    }
    if spec.pod_spec.get("terminationGracePeriodSeconds").is_none_or(|seconds| seconds.is_null()) {
        spec.pod_spec.insert("terminationGracePeriodSeconds", TERMINATION_GRACE_PERIOD_SECONDS);
    }
}
