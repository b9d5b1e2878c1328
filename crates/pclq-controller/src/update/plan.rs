//! Which outdated pods are replaced now. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::labels::{self, Component};
use grove_api_types::rolling_update::{
    Availability, Bounds, Unit, UpdateBounds, deadline, max_unavailable, next_units,
};
use grove_api_types::v1alpha1::{PodClique, PodCliqueUpdateProgress};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::observed::ObservedClique;
use crate::pod::labelled_clique;

/// The template that the pods of a clique should have, by its hashes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    clique: &'a PodClique,
    /// That of the whole set.
    pub(super) generation: &'a str,
    /// That of the pods of the clique.
    pub(super) pods: &'a str,
}

impl<'a> Target<'a> {
    /// The hashes that pcs-controller has written; `None` if a user removed one.
    pub(super) fn of(clique: &'a PodClique) -> Option<Self> {
        let generation = clique.annotations().get(labels::GENERATION_HASH)?;
        let pods = clique.labels().get(labels::TEMPLATE_HASH)?;
        Some(Self { clique, generation, pods })
    }

    /// The progress in the status, if it is that of the update to this template.
    fn progress(self) -> Option<&'a PodCliqueUpdateProgress> {
        let progress = self.clique.status.as_ref()?.update_progress.as_ref();
        progress.filter(|progress| self.is_of(progress))
    }

    /// Whether the progress is that of the update to this template.
    pub(super) fn is_of(self, progress: &PodCliqueUpdateProgress) -> bool {
        self.pods == progress.pod_template_hash && self.generation == progress.pod_clique_set_generation_hash
    }

    /// Whether the update replaces the pod: it was created from another template, or before the turn of its replica of a scaling group. Such a replica
    /// is replaced as a whole, also if only the template of another clique has changed.
    pub(super) fn is_outdated(self, pod: &SlimPod) -> bool {
        if is_member(self.clique) && self.has_turn() {
            return pod.annotations().get(labels::UPDATE_TURN).is_none_or(|turn| turn != self.generation);
        }
        pod.labels().get(labels::TEMPLATE_HASH).is_none_or(|of_pod| of_pod != self.pods)
    }

    /// The live pods that the update does not replace.
    pub(super) fn new_pods(self, observed: &ObservedClique) -> impl Iterator<Item = &SlimPod> {
        observed.live().filter(move |pod| !self.is_outdated(pod))
    }

    /// Whether it is the turn of the clique: its outdated pods are replaced.
    pub(super) fn has_turn(self) -> bool {
        self.clique.annotations().get(labels::UPDATE_TURN).is_some_and(|turn| turn == self.generation)
    }
}

/// Whether the status has just shown the begin of an update. Then the first pods are replaced.
pub(crate) fn has_begun(delta: &Delta<PodClique>) -> bool {
    let is_updating = |clique: &Option<Arc<PodClique>>| clique.as_deref().is_some_and(PodClique::is_updating);
    is_updating(&delta.new) && !is_updating(&delta.old)
}

/// Whether the pod has just become ready or not ready in an update. Then it may be the turn of the next pod.
pub(crate) fn may_be_next_turn(cliques: &Cache<PodClique>, delta: &Delta<SlimPod>) -> bool {
    let Delta { old: Some(old), new: Some(new) } = delta else { return false };
    let clique = || cliques.get(new.metadata.namespace.as_deref()?, labelled_clique(&new.metadata)?);
    old.is_ready() != new.is_ready() && clique().is_some_and(|clique| clique.is_updating())
}

/// The number of live pods that the update replaces.
pub(crate) fn count_outdated(observed: &ObservedClique) -> usize {
    let Some(target) = Target::of(&observed.clique) else { return 0 };
    observed.live().filter(|pod| target.is_outdated(pod)).count()
}

/// The indices of the pods that are replaced now. `by_index` are the live pods.
///
/// The pods of a replica of a scaling group are replaced together, because it is a unit of its own. Those of other cliques are replaced one
/// after the other, the oldest first.
///
/// Nothing is replaced before the status shows that the update has begun. Otherwise a change back to the former template could look like an
/// update that has ended, while a pod is being replaced.
pub(crate) fn pods_to_replace(observed: &ObservedClique, by_index: &BTreeMap<i32, &SlimPod>) -> BTreeSet<i32> {
    let clique = &observed.clique;
    let is_begun = |target: &Target<'_>| {
        target.has_turn() && target.progress().is_some_and(PodCliqueUpdateProgress::is_in_progress)
    };
    let Some(target) = Target::of(clique).filter(is_begun) else { return BTreeSet::new() };
    let Some(bounds) = UpdateBounds::of(clique).ok().filter(|bounds| !bounds.paused) else { return BTreeSet::new() };
    if is_member(clique) {
        return by_index.iter().filter(|(_, pod)| target.is_outdated(pod)).map(|(index, _)| *index).collect();
    }
    let replicas = clique.spec.replicas.max(0);
    let unit = |index: i32| {
        let pod = by_index.get(&index);
        let is_outdated = pod.is_some_and(|pod| target.is_outdated(pod));
        // A new pod must have been ready for some time. An outdated pod serves as soon as it is ready.
        let serves = |pod: &&SlimPod| {
            if is_outdated { pod.is_ready() } else { is_available(pod, &bounds, observed.now) }
        };
        let availability = if pod.is_some_and(serves) { Availability::Full } else { Availability::None };
        Unit { index, is_outdated, availability }
    };
    let mut units: Vec<_> = (0..replicas).map(unit).collect();
    units.sort_by_key(|unit| by_index.get(&unit.index).and_then(|pod| pod.metadata.creation_timestamp.clone()));
    let min_available = clique.spec.min_available.unwrap_or(replicas);
    let max_unavailable = max_unavailable(bounds.of_clique.max_unavailable.as_ref(), replicas);
    next_units(&units, Bounds { max_unavailable, min_available }).into_iter().collect()
}

/// Whether the pod has been ready for `minReadySeconds`.
fn is_available(pod: &SlimPod, bounds: &UpdateBounds, now: Timestamp) -> bool {
    available_since(pod, bounds).is_some_and(|since| since <= now)
}

/// When the pod became, or becomes, available for the update; `None` if it is not ready.
fn available_since(pod: &SlimPod, bounds: &UpdateBounds) -> Option<Timestamp> {
    let ready_since = pod.ready_since()?;
    let min_ready = SignedDuration::from_secs(bounds.min_ready_seconds.into());
    Some(ready_since.checked_add(min_ready).unwrap_or(Timestamp::MAX))
}

/// The number of live pods that are available for the update.
pub(crate) fn count_available(observed: &ObservedClique) -> usize {
    let bounds = UpdateBounds::of(&observed.clique).unwrap_or_default();
    observed.live().filter(|pod| is_available(pod, &bounds, observed.now)).count()
}

/// When the update last made progress: a new pod was created, or became ready and has not been restarted since.
pub(crate) fn last_progress(observed: &ObservedClique) -> Option<Timestamp> {
    let target = Target::of(&observed.clique)?;
    let is_restarted =
        |pod: &SlimPod| pod.status.container_statuses.iter().any(|container| container.restart_count > 0);
    let of_pod = |pod: &SlimPod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|created| created.0);
        created.max(pod.ready_since().filter(|_| !is_restarted(pod)))
    };
    target.new_pods(observed).filter_map(of_pod).max()
}

/// The time until a pod becomes available for the update in progress, or until its deadline. No watch event shows either.
pub(crate) fn delay(observed: &ObservedClique) -> Option<Duration> {
    let status = observed.clique.status.as_ref()?;
    let progress = status.update_progress.as_ref().filter(|progress| progress.is_in_progress())?;
    let bounds = UpdateBounds::of(&observed.clique).ok()?;
    let deadline = exceeded_at(progress, &bounds).filter(|_| !bounds.paused);
    let target = Target::of(&observed.clique)?;
    let available = target.new_pods(observed).filter_map(|pod| available_since(pod, &bounds));
    let next = available.chain(deadline).filter(|time| *time > observed.now).min()?;
    Duration::try_from(next.duration_since(observed.now)).ok()
}

/// When the update exceeds its deadline.
pub(super) fn exceeded_at(progress: &PodCliqueUpdateProgress, bounds: &UpdateBounds) -> Option<Timestamp> {
    let last = progress.last_progressed_at.as_ref().or(progress.update_started_at.as_ref())?;
    deadline(last.0, bounds.of_clique.progress_deadline.as_ref())
}

/// Whether it is the turn of the clique, and the status does not show it yet. Until then, no pod is replaced.
pub(crate) fn awaits_status(clique: &PodClique) -> bool {
    Target::of(clique).is_some_and(|target| target.has_turn() && target.progress().is_none())
}

/// Whether the clique belongs to a scaling group.
pub(super) fn is_member(clique: &PodClique) -> bool {
    clique.labels().get(labels::COMPONENT).is_some_and(|component| component == Component::GroupPodClique.value())
}
