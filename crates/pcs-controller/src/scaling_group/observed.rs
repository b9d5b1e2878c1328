//! The snapshot of a scaling group, its set and its cliques: plain data and pure queries.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::duration::GoDuration;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::expansion::{self, Clique, CurrentScale, GroupReplica, Revision, ScalingGroup, SetReplica};
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::resource_sharing::claim_source::sources_of_group;
use grove_api_types::rolling_update::{Availability, Bounds, max_unavailable};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet, RollingUpdate};
use grove_controller::children::{ObservedChildren, OwnerKind};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use grove_controller::resource_claims::TemplateReadErrors;
use kube::ResourceExt;

use crate::children::clique;
use crate::claims::{ClaimInputs, ClaimsOwner, OwnedClaims, OwnerName, TemplateKey};
use crate::compute_domains::AwaitedDomains;
use crate::update::{self, ReplicaState, Turns};

/// Scaling groups as owners of children.
#[derive(Debug)]
pub(crate) struct GroupOwner;

impl OwnerKind for GroupOwner {
    type Object = PodCliqueScalingGroup;
    type Expansion<'a> = GroupExpansion<'a>;
}

/// Pod specs, by the generation hash of their revision and the name of their template.
pub(crate) type PodSpecs = BTreeMap<String, BTreeMap<String, RawPodSpec>>;

/// The replicas of a scaling group with everything that its children are computed from.
#[derive(Debug)]
pub(crate) struct GroupExpansion<'a> {
    /// The group.
    pub(crate) group: &'a PodCliqueScalingGroup,
    /// Its set, with Grove's defaults applied.
    pub(crate) set: &'a PodCliqueSet,
    /// The replica of the set that the group belongs to.
    pub(crate) set_replica: &'a SetReplica,
    /// The expansion of the group.
    pub(crate) scaling_group: &'a ScalingGroup,
    /// What an update means for the replicas of the group.
    pub(crate) turns: &'a Turns,
    /// The names of the gangs that its cliques belong to, and that exist and are not terminating.
    pub(crate) active_gangs: &'a BTreeSet<String>,
    /// The gangs among them of which the set must decide the `PodGroup` first, or with unreadable annotations, and the reason for the user.
    pub(crate) undecided_gangs: &'a BTreeMap<String, Waiting>,
    /// The `PodGroup`s that its cliques name, by the names of the cliques.
    pub(crate) pod_group_names: &'a BTreeMap<String, String>,
    /// The pod affinities of its cliques, by the names of the cliques.
    pub(crate) pack_affinities: &'a BTreeMap<String, String>,
    /// The compute domains that the replica of the set waits for.
    pub(crate) awaited_domains: &'a AwaitedDomains,
    /// Why cliques that start after others are not created.
    pub(crate) identity_conflict: Option<&'a Waiting>,
    /// The claims at the level of the group.
    pub(crate) claims: OwnedClaims<'a>,
    /// The pod specs of its cliques. The replicas share them, because a pod spec may be large.
    pub(crate) pod_specs: OnceCell<PodSpecs>,
}

impl ClaimsOwner for GroupOwner {
    fn claims<'r, 'a: 'r>(expansion: &'r GroupExpansion<'a>) -> (&'r PodCliqueScalingGroup, &'r OwnedClaims<'a>) {
        (expansion.group, &expansion.claims)
    }
}

/// A group, its set, and the cliques that the group controls, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The group.
    pub(crate) group: PodCliqueScalingGroup,
    /// The set that controls the group, with Grove's defaults applied; `None` if it does not exist.
    pub(crate) set: Option<PodCliqueSet>,
    /// The revision of the current template of the set; `None` if the set does not exist.
    pub(crate) revision: Option<Arc<Revision>>,
    /// What an update means for the replicas of the group.
    pub(crate) turns: Turns,
    /// The current replica counts of the group and of the other groups in the same replica of the set.
    pub(crate) current_scale: CurrentScale,
    /// The replica of the set that the group belongs to; `None` if the set does not exist or no longer has it, or if it exceeds a limit.
    pub(crate) set_replica: Option<Arc<SetReplica>>,
    /// Whether its deletion keeps its cliques.
    pub(crate) orphans_children: bool,
    /// The cliques of all replicas of the group.
    pub(crate) children: ObservedChildren,
    /// The names of the gangs that its cliques belong to, and that exist and are not terminating.
    pub(crate) active_gangs: BTreeSet<String>,
    /// The gangs among them of which the set must decide the `PodGroup` first: a clique is missing, and no other one shows that the
    /// `PodGroup` that the gang names is the current one. Also those with annotations that cannot be read. With the reason for the user.
    pub(crate) undecided_gangs: BTreeMap<String, Waiting>,
    /// The `PodGroup`s of the workload API that its cliques name, by the names of the cliques.
    pub(crate) pod_group_names: BTreeMap<String, String>,
    /// The hashes of the revisions of scaled gangs with a `PodGroup`, by the indices of their replicas. The set begins the next incarnation of such
    /// a gang together with its revision, before the replica gets its turn.
    pub(crate) gang_revisions: BTreeMap<i32, String>,
    /// The pod affinities of its cliques, by the names of the cliques.
    pub(crate) pack_affinities: BTreeMap<String, String>,
    /// The compute domains that the replica of the set waits for.
    pub(crate) awaited_domains: AwaitedDomains,
    /// Why cliques that start after others are not created.
    pub(crate) identity_conflict: Option<Waiting>,
    /// What decides about its claims.
    pub(crate) claims: ClaimInputs,
    /// The templates of claims that could not be read.
    pub(crate) read_errors: TemplateReadErrors,
    /// The objects that have the name of a clique and that the group does not control.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The cliques whose creates were rejected, and that are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The cliques that were created and that the cache does not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// Whether its namespace is terminating. Then nothing is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

impl Observed {
    /// The snapshot of a group with these cliques, before anything else is read. `set` is its set, with Grove's defaults applied, and the revision of
    /// the current template; `None` if the set does not exist.
    pub(crate) fn new(
        group: &PodCliqueScalingGroup,
        set: Option<(PodCliqueSet, Revision)>,
        children: ObservedChildren,
    ) -> Self {
        let (set, revision) = set.unzip();
        Self {
            group: group.clone(),
            set,
            revision: revision.map(Arc::new),
            turns: Turns::default(),
            current_scale: CurrentScale::default(),
            set_replica: None,
            orphans_children: false,
            children,
            active_gangs: BTreeSet::new(),
            undecided_gangs: BTreeMap::new(),
            pod_group_names: BTreeMap::new(),
            gang_revisions: BTreeMap::new(),
            pack_affinities: BTreeMap::new(),
            awaited_domains: AwaitedDomains::default(),
            identity_conflict: None,
            claims: ClaimInputs::default(),
            read_errors: TemplateReadErrors::default(),
            name_conflicts: Vec::new(),
            backed_off: BackedOffCreates::default(),
            pending_creates: PendingCreates::default(),
            is_namespace_terminating: false,
        }
    }

    /// Whether the group has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.group)
    }

    /// The name of the group.
    pub(crate) fn name(&self) -> PodCliqueScalingGroupName {
        PodCliqueScalingGroupName::new(self.group.name_any())
    }

    /// The name conflicts, ready to be resolved. A clique without an owner that carries all `base_labels` is adopted.
    pub(crate) fn conflicts<'a>(
        &'a self,
        base_labels: &'a BTreeMap<String, String>,
    ) -> NameConflicts<'a, PodCliqueScalingGroup> {
        NameConflicts { owner: &self.group, conflicts: &self.name_conflicts, labels: base_labels }
    }

    /// The labels that every clique has.
    pub(crate) fn base_labels(&self) -> BTreeMap<String, String> {
        labels::base(&self.base_set())
    }

    /// The name of the set that the labels of the group name.
    fn base_set(&self) -> PodCliqueSetName {
        PodCliqueSetName::new(self.group.labels().get(labels::PART_OF).cloned().unwrap_or_default())
    }

    /// The limit that the size of its replica of the set exceeds. Such a replica is not expanded at all, because the expansion would
    /// exhaust the memory.
    pub(crate) fn exceeded_limit(&self) -> Option<SizeLimit> {
        let (set, index) = self.set.as_ref().zip(set_replica(&self.group))?;
        SizeLimit::exceeded_by_replica(set, index, &self.current_scale)
    }

    /// Whether a clique that starts after others does not exist.
    pub(crate) fn lacks_waiting_clique(&self) -> bool {
        let cliques = self.expansion().map(|expansion| &expansion.scaling_group.replicas);
        let mut cliques = cliques.into_iter().flatten().flat_map(|replica| &replica.cliques);
        let is_missing = |clique: &Clique| self.children.get::<PodClique>(clique.name.as_str()).is_none();
        !self.is_terminating() && cliques.any(|clique| !clique.starts_after.is_empty() && is_missing(clique))
    }

    /// The external templates of its missing claims, each with whether an object of its name can exist.
    pub(crate) fn templates_to_read(&self) -> BTreeMap<TemplateKey, bool> {
        let expansion = self.expansion().filter(|expansion| !self.is_terminating() && !is_terminating(expansion.set));
        expansion.map(|expansion| expansion.claims.templates_to_read(&self.children)).unwrap_or_default()
    }

    /// The same snapshot with the replica of the set.
    #[must_use]
    pub(crate) fn expanded(mut self) -> Self {
        let index = set_replica(&self.group).filter(|_| self.exceeded_limit().is_none());
        let replica = self.set.as_ref().zip(self.revision.as_ref()).zip(index).and_then(|((set, revision), index)| {
            let name = PodCliqueSetName::new(set.name_any());
            let has_replica = (0..set.spec.replicas).contains(&index);
            has_replica.then(|| expansion::replica(&name, index, revision, &self.current_scale))
        });
        self.set_replica = replica.map(Arc::new);
        self
    }

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
        update::earlier_revisions(set, &states, (bounds, 0), has_begun)
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

    /// What the cliques of the group are computed from; `None` if its set does not exist, or the set no longer has that replica or group.
    pub(crate) fn expansion(&self) -> Option<GroupExpansion<'_>> {
        let (set, set_replica, name) = (self.set.as_ref()?, self.set_replica.as_deref()?, self.name());
        let scaling_group = set_replica.groups.iter().find(|group| group.name == name)?;
        let claims = OwnedClaims {
            set: PodCliqueSetName::new(set.name_any()),
            owner: OwnerName::Group(name),
            namespace: self.group.namespace().unwrap_or_default(),
            replicas: scaling_group.replica_count,
            sources: sources_of_group(&set.spec.template, &scaling_group.config),
            inputs: &self.claims,
        };
        Some(GroupExpansion {
            group: &self.group,
            set,
            set_replica,
            scaling_group,
            turns: &self.turns,
            active_gangs: &self.active_gangs,
            undecided_gangs: &self.undecided_gangs,
            pod_group_names: &self.pod_group_names,
            pack_affinities: &self.pack_affinities,
            awaited_domains: &self.awaited_domains,
            identity_conflict: self.identity_conflict.as_ref(),
            claims,
            pod_specs: OnceCell::new(),
        })
    }
}

/// The index of the set's replica that `group` belongs to, from its label.
pub(crate) fn set_replica(group: &PodCliqueScalingGroup) -> Option<i32> {
    group.labels().get(labels::SET_REPLICA)?.parse().ok()
}
