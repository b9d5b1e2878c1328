//! What the snapshot of a set says about its update. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{Clique, Revision, ScalingGroup, SetReplica};
use grove_api_types::labels;
use grove_api_types::rolling_update::{Availability, Bounds, max_unavailable};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use kube::ResourceExt;

use super::{Observed, group_is_available};
use crate::children::clique;
use crate::update::{History, ReplicaState, Turns, earlier_revisions, exceeds_limit, is_open};

impl Observed {
    /// The state of each replica in the update.
    fn replica_states(&self) -> Vec<ReplicaState> {
        let state = |replica: &SetReplica| {
            let earlier = self.earlier_revision(replica).map(str::to_owned);
            let is_complete = self.is_available(replica) && (earlier.is_some() || self.is_updated(replica));
            let availability = match self.has_ready_pods(replica) {
                _ if is_complete => Availability::Full,
                true => Availability::Partial,
                false => Availability::None,
            };
            ReplicaState { index: replica.index, earlier, availability }
        };
        let mut states: Vec<_> = self.replicas.iter().map(state).collect();
        // A new replica below the partition is built from the revision that the others keep.
        let partition = self.partition();
        let kept = states.iter().filter(|state| state.index < partition).find_map(|state| state.earlier.clone());
        for (state, replica) in states.iter_mut().zip(&*self.replicas) {
            if state.index < partition && self.named_revisions(replica).is_empty() {
                state.earlier.clone_from(&kept);
            }
        }
        states
    }

    /// The hashes of the earlier revisions that replicas keep now, by the indices of the replicas.
    pub(crate) fn earlier_revisions(&self) -> BTreeMap<i32, String> {
        let controls = self.set.spec.rolling_update();
        let max_unavailable = max_unavailable(controls.max_unavailable.as_ref(), self.set.spec.replicas);
        let bounds = Bounds { max_unavailable, min_available: 0 };
        let has_begun = is_open(&self.set, self.hash());
        earlier_revisions(&self.set, &self.replica_states(), (bounds, self.partition()), has_begun)
    }

    /// The index of the first replica that updates replace.
    pub(crate) fn partition(&self) -> i32 {
        self.set.spec.rolling_update().partition.unwrap_or(0)
    }

    /// The hash of the earlier revision that the objects of the replica name, unless one of them names the current one: then the replica has had
    /// its turn.
    fn earlier_revision(&self, replica: &SetReplica) -> Option<&str> {
        let named = self.named_revisions(replica);
        let has_had_turn = named.iter().any(|hash| *hash == self.hash());
        named.first().copied().filter(|_| !has_had_turn)
    }

    /// The hashes of the revisions that the objects of the replica name.
    fn named_revisions(&self, replica: &SetReplica) -> Vec<&str> {
        let gang = self.children.get::<PodGang>(replica.base_gang.as_str()).filter(|gang| !is_terminating(&***gang));
        let gang = gang.and_then(|gang| gang.labels().get(labels::GENERATION_HASH));
        let cliques = replica.cliques.iter().filter_map(|desired| clique::active(&self.children, &desired.name));
        let cliques = cliques.filter_map(|clique| clique.annotations().get(labels::GENERATION_HASH));
        let groups = replica.groups.iter().filter_map(|desired| self.active_group(&desired.name));
        let groups = groups.filter_map(|group| group.annotations().get(labels::GENERATION_HASH));
        gang.into_iter().chain(cliques).chain(groups).map(String::as_str).collect()
    }

    /// Whether a pod of a standalone clique is ready, or a replica of a scaling group available.
    fn has_ready_pods(&self, replica: &SetReplica) -> bool {
        let clique = |desired: &Clique| {
            let status = clique::active(&self.children, &desired.name).and_then(|clique| clique.status.as_ref());
            status.is_some_and(|status| status.ready_replicas > 0)
        };
        let group = |desired: &ScalingGroup| {
            let status = self.active_group(&desired.name).and_then(|group| group.status.as_ref());
            status.is_some_and(|status| status.available_replicas > 0)
        };
        replica.cliques.iter().any(clique) || replica.groups.iter().any(group)
    }

    /// Whether all cliques and groups of the replica report that their pods were created from the current template.
    pub(crate) fn is_updated(&self, replica: &SetReplica) -> bool {
        let hashes = self.revision.hashes();
        replica.cliques.iter().all(|clique| clique::is_updated(&self.children, hashes, clique))
            && replica.groups.iter().all(|group| self.is_group_updated(group))
    }

    /// Whether the group reports that its pods were created from the current template.
    pub(crate) fn is_group_updated(&self, group: &ScalingGroup) -> bool {
        self.active_group(&group.name).is_some_and(|group| group_is_current(group, self.hash()))
    }

    /// Whether the group is active and does not report that its update to the current template has ended.
    pub(crate) fn group_may_be_outdated(&self, group: &ScalingGroup) -> bool {
        self.active_group(&group.name).is_some_and(|group| !group_has_ended(group, self.hash()))
    }

    /// Whether the group is available, and its pods were created from the current template.
    pub(crate) fn is_group_complete(&self, group: &ScalingGroup) -> bool {
        self.is_group_updated(group) && self.active_group(&group.name).is_some_and(group_is_available)
    }

    /// Decides which replicas keep an earlier revision: `earlier` has their hashes, and `revisions` those revisions that exist.
    pub(crate) fn assign_revisions(
        &mut self,
        earlier: &BTreeMap<i32, String>,
        revisions: &BTreeMap<String, Arc<Revision>>,
    ) {
        let has_begun = is_open(&self.set, self.hash());
        let indices = self.replicas.iter().map(|replica| replica.index);
        self.turns = Turns {
            is_open: has_begun,
            given: indices.filter(|index| has_begun && !earlier.contains_key(index)).collect(),
            waiting: earlier.keys().copied().collect(),
            unknown: BTreeMap::new(),
        };
        let limit = self.set.spec.revision_history_limit;
        self.history = History::new(self.hash(), &self.children, &self.used_revisions(), limit);
        if earlier.is_empty() {
            return;
        }
        let mut replicas = self.replicas.to_vec();
        self.turns.build(&self.name(), (earlier, revisions), &mut replicas);
        self.replicas = replicas.into();
    }

    /// Whether revisions may have to be removed.
    pub(crate) fn exceeds_history_limit(&self) -> bool {
        exceeds_limit(&self.children, self.set.spec.revision_history_limit)
    }

    /// The hashes of the revisions that objects of the set name.
    fn used_revisions(&self) -> BTreeSet<&str> {
        let gangs = self.children.of_kind::<PodGang>().filter_map(|gang| gang.labels().get(labels::GENERATION_HASH));
        let cliques = self.cliques().chain(self.members.iter().map(AsRef::as_ref));
        let cliques = cliques.filter_map(|clique| clique.annotations().get(labels::GENERATION_HASH));
        let groups = self.groups().filter_map(|group| group.annotations().get(labels::GENERATION_HASH));
        gangs.chain(cliques).chain(groups).map(String::as_str).collect()
    }
}

/// Whether the group reports that its update to the template with this hash has ended and all pods are new.
fn group_is_current(group: &PodCliqueScalingGroup, hash: &str) -> bool {
    group_has_ended(group, hash) && reported_hash(group) == Some(hash)
}

/// Whether the group reports that its update to the template with this hash has ended, also with old pods if the user replaces them.
fn group_has_ended(group: &PodCliqueScalingGroup, hash: &str) -> bool {
    let progress = group.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let has_ended = match progress {
        Some(progress) => progress.pod_clique_set_generation_hash == hash && progress.update_ended_at.is_some(),
        None => reported_hash(group) == Some(hash),
    };
    has_ended && group.annotations().get(labels::GENERATION_HASH).is_none_or(|target| target == hash)
}

fn reported_hash(group: &PodCliqueScalingGroup) -> Option<&str> {
    group.status.as_ref()?.current_pod_clique_set_generation_hash.as_deref()
}
