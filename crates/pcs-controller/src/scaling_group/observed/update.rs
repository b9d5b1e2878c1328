//! What the snapshot of a scaling group says about its update. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api_types::duration::GoDuration;
use grove_api_types::expansion::{Clique, GroupReplica, Revision, SetReplica};
use grove_api_types::labels;
use grove_api_types::rolling_update::{Availability, Bounds, max_unavailable};
use grove_api_types::v1alpha1::{PodClique, RollingUpdate};
use kube::ResourceExt;

use super::Observed;
use crate::children::clique;
use crate::update::{ReplicaState, Turns, earlier_revisions};

impl Observed {
    /// The hash of the revision that the set has chosen for the group.
    pub(crate) fn target_hash(&self) -> Option<&str> {
        let chosen = self.group.annotations().get(labels::GENERATION_HASH).map(String::as_str);
        chosen.or_else(|| Some(self.revision.as_ref()?.hashes().generation_hash.as_str()))
    }

    /// The same snapshot with the replica of the set built from this revision.
    #[must_use]
    pub(crate) fn built_from(mut self, revision: &Arc<Revision>) -> Self {
        let replica = self.set_replica.take();
        self.set_replica = replica.map(|replica| Arc::new(SetReplica::clone(&replica).built_from(revision)));
        self
    }

    /// The same snapshot if the revision that the set has chosen does not exist: all cliques stay as they are.
    #[must_use]
    pub(crate) fn kept_as_it_is(mut self, target: &str) -> Self {
        let set = self.base_set();
        for replica in 0..self.group.spec.replicas {
            self.turns.add_unknown(replica, &set, target);
        }
        self
    }

    /// The state of each replica of the group in the update. A replica is outdated if the pods of a clique are built from another template, so
    /// that a change of other cliques replaces none. With `OnDelete`, a clique has had the new template before its pods.
    pub(crate) fn replica_states(&self) -> Vec<ReplicaState> {
        let Some(expansion) = self.expansion() else { return vec![] };
        let hashes = expansion.set_replica.revision.hashes();
        let state = |replica: &GroupReplica| {
            let active = || {
                replica
                    .cliques
                    .iter()
                    .filter_map(|desired| clique::active(&self.children, &desired.name).zip(Some(desired)))
            };
            let is_outdated = |(clique, desired): &(&PodClique, &Clique)| {
                let of_clique = clique.labels().get(labels::TEMPLATE_HASH);
                let generation = clique.annotations().get(labels::GENERATION_HASH);
                of_clique.is_some_and(|of_clique| of_clique != hashes.pod_template(&desired.template.name))
                    || (clique::has_other_pods(clique) && generation != Some(&hashes.generation_hash))
            };
            let earlier =
                active().find(is_outdated).and_then(|(clique, _)| clique.annotations().get(labels::GENERATION_HASH));
            let is_complete = active().count() == replica.cliques.len();
            let is_available = is_complete && active().all(|(clique, _)| clique::is_available(clique));
            let is_current =
                || replica.cliques.iter().all(|desired| clique::is_updated(&self.children, hashes, desired));
            let is_available = is_available && (earlier.is_some() || is_current());
            let availability = if is_available { Availability::Full } else { Availability::None };
            let earlier = earlier.filter(|hash| **hash != hashes.generation_hash).cloned();
            ReplicaState { index: replica.index, earlier, availability }
        };
        expansion.scaling_group.replicas.iter().map(state).collect()
    }

    /// The hashes of the earlier revisions that replicas keep now, by the indices of the replicas.
    /// No replica has its turn before the set and the group report that the update has begun.
    pub(crate) fn earlier_revisions(&self, states: &[ReplicaState], is_open: bool) -> BTreeMap<i32, String> {
        let Some(set) = &self.set else { return BTreeMap::new() };
        let progress = self.group.status.as_ref().and_then(|status| status.update_progress.as_ref());
        let begun = progress.map(|progress| progress.pod_clique_set_generation_hash.as_str());
        let is_chosen = self.group.annotations().contains_key(labels::GENERATION_HASH);
        let bounds = Bounds {
            max_unavailable: self.max_unavailable(),
            min_available: self.group.spec.min_available.unwrap_or(1),
        };
        // The turn of a replica begins with the next incarnation of its gang.
        let with_turn = |state: &ReplicaState| {
            if is_open && state.earlier.is_some() && self.has_restarted(state.index) == Some(true) {
                ReplicaState { earlier: None, availability: Availability::None, ..state.clone() }
            } else {
                state.clone()
            }
        };
        let states: Vec<_> = states.iter().map(with_turn).collect();
        let has_begun = is_open && is_chosen && begun == self.target_hash();
        earlier_revisions(set, &states, (bounds, 0), has_begun)
    }

    /// Whether the scaled gang of the replica has its `PodGroup` for the chosen revision; `None` without a `PodGroup` of its own.
    fn has_restarted(&self, replica: i32) -> Option<bool> {
        let revision = self.gang_revisions.get(&replica)?;
        Some(Some(revision.as_str()) == self.target_hash())
    }

    /// The replicas whose turn it is, and that wait for the next `PodGroup` of their scaled gang, each with the gang and the hash of its earlier
    /// revision. `states` are those of all replicas, and `earlier` has those that keep an earlier revision.
    pub(crate) fn awaiting_restart(
        &self,
        states: &[ReplicaState],
        earlier: &BTreeMap<i32, String>,
    ) -> Vec<(i32, String, String)> {
        let replicas = self.expansion().into_iter().flat_map(|expansion| &expansion.scaling_group.replicas);
        let awaiting = |(state, replica): (&ReplicaState, &GroupReplica)| {
            let is_next = !earlier.contains_key(&state.index) && self.has_restarted(state.index) == Some(false);
            Some((state.index, replica.gang.to_string(), state.earlier.clone().filter(|_| is_next)?))
        };
        states.iter().zip(replicas).filter_map(awaiting).collect()
    }

    /// How many replicas may be unavailable because of the update.
    fn max_unavailable(&self) -> i32 {
        let bounds = self.rolling_update();
        max_unavailable(bounds.and_then(|bounds| bounds.max_unavailable.as_ref()), self.group.spec.replicas)
    }

    /// The time without progress after which the update exceeds its deadline.
    pub(crate) fn progress_deadline(&self) -> Option<&GoDuration> {
        self.rolling_update()?.progress_deadline.as_ref()
    }

    fn rolling_update(&self) -> Option<&RollingUpdate> {
        let name = self.name();
        let group = self.set_replica.as_deref()?.groups.iter().find(|group| group.name == name)?;
        group.config.rolling_update.as_ref()
    }

    /// Whether the cliques of the replica have their turn for the chosen revision already, or have lost it.
    fn has_turn(&self, replica: &GroupReplica) -> bool {
        replica.cliques.iter().any(|desired| {
            let Some(clique) = clique::active(&self.children, &desired.name) else { return false };
            let turn = clique.annotations().get(labels::UPDATE_TURN).map(String::as_str);
            let generation = clique.annotations().get(labels::GENERATION_HASH).map(String::as_str);
            let has_lost_turn = generation == self.target_hash() && clique::has_other_pods(clique);
            has_lost_turn || turn.is_some_and(|turn| Some(turn) == self.target_hash())
        })
    }

    /// Decides which replicas of the group keep an earlier revision: `earlier` has their hashes, and `revisions` those revisions that exist.
    pub(crate) fn assign_revisions(
        &mut self,
        (states, earlier): (&[ReplicaState], &BTreeMap<i32, String>),
        is_open: bool,
        revisions: &BTreeMap<String, Arc<Revision>>,
    ) {
        let replicas = self.expansion().into_iter().flat_map(|expansion| &expansion.scaling_group.replicas);
        let is_given = |(state, replica): &(&ReplicaState, &GroupReplica)| {
            is_open && !earlier.contains_key(&state.index) && (state.earlier.is_some() || self.has_turn(replica))
        };
        let given = states.iter().zip(replicas).filter(is_given).map(|(state, _)| state.index);
        self.turns = Turns {
            is_open,
            given: given.collect(),
            waiting: earlier.keys().copied().collect(),
            unknown: BTreeMap::new(),
        };
        let (name, set) = (self.name(), self.base_set());
        let Some(set_replica) = self.set_replica.as_ref().filter(|_| !earlier.is_empty()) else { return };
        let mut set_replica = SetReplica::clone(set_replica);
        let group = set_replica.groups.iter_mut().find(|group| group.name == name);
        let replicas = group.into_iter().flat_map(|group| &mut group.replicas);
        self.turns.build(&set, (earlier, revisions), replicas);
        self.set_replica = Some(Arc::new(set_replica));
    }
}
