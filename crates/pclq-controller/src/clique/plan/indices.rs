//! Decides which pods stay, which are deleted, and which indices get a new pod, so that live indices are dense from 0. The
//! indices are those of the pods of one clique. A scale-in of a set or a scaling group deletes the children of the replicas that
//! `grove-api-types/src/expansion.rs` no longer expands (`children/child_kinds.rs` of grove-controller).

use std::collections::BTreeMap;

use grove_controller::slim_pod::SlimPod;

use crate::clique::observed::Observed;
use crate::{pod, startup, update};

/// The decision about every live pod and every desired index.
pub(super) struct Indices<'a> {
    /// Live pods that stay, sorted by index.
    pub(super) retained: Vec<&'a SlimPod>,
    /// Live pods to delete: those with the highest indices, duplicates of an index, those without an index, and those of an earlier
    /// incarnation of the gang.
    pub(super) to_delete: Vec<&'a SlimPod>,
    /// Pods to delete unless they change before: pending pods of an earlier `PodGroup` or with other topology constraints, and pods that wait
    /// for other numbers of ready pods, and outdated pods whose turn it is.
    pub(super) to_replace: Vec<&'a SlimPod>,
    /// Indices without a live pod, lowest first. The index of a pod to replace is free only after its deletion, because the pod may be
    /// bound or started before.
    pub(super) free: Vec<i32>,
}

impl<'a> Indices<'a> {
    pub(super) fn of(observed: &'a Observed) -> Self {
        let (clique, gang) = (&observed.clique, &observed.gang);
        let mut to_delete = Vec::new();
        let awaits_status = update::awaits_status(clique);
        let is_earlier = |pod: &SlimPod| !awaits_status && gang.is_of_earlier_incarnation(clique, pod);
        let mut by_index: BTreeMap<i32, &SlimPod> = BTreeMap::new();
        for pod in oldest_first(observed) {
            match pod::index(pod) {
                Some(index) if !by_index.contains_key(&index) && !is_earlier(pod) => {
                    by_index.insert(index, pod);
                }
                Some(_) | None => to_delete.push(pod),
            }
        }
        // Exactly the indices below the replica count, also if pods were lost during a scale-in: ranks must have no holes.
        let replicas = observed.clique.spec.replicas.max(0);
        let beyond = by_index.split_off(&replicas);
        to_delete.extend(beyond.into_values().rev());
        let free = (0..replicas).filter(|index| !by_index.contains_key(index)).collect();
        // While no successor could be created, all pods stay.
        let can_replace =
            || observed.unreadable_annotations().next().is_none() && startup::waiting(&observed.startup).is_none();
        let waits_for_others = observed.startup.outdated_pods();
        let is_outdated = |pod: &SlimPod| gang.is_outdated_and_pending(clique, pod) || waits_for_others(pod);
        let to_update = update::pods_to_replace(observed, &by_index);
        let (to_replace, retained): (BTreeMap<_, _>, BTreeMap<_, _>) = by_index
            .into_iter()
            .partition(|(index, pod)| (is_outdated(pod) || to_update.contains(index)) && can_replace());
        let (to_replace, retained) = (to_replace.into_values().collect(), retained.into_values().collect());
        Self { retained, to_delete, to_replace, free }
    }
}

fn oldest_first(observed: &Observed) -> Vec<&SlimPod> {
    let mut pods: Vec<_> = observed.live().collect();
    pods.sort_by_key(|pod| {
        let metadata = &pod.metadata;
        (metadata.creation_timestamp.clone(), metadata.uid.clone())
    });
    pods
}
