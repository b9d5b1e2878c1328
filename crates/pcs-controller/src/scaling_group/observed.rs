//! The snapshot of a scaling group, its set and its cliques: plain data and pure queries. `update` has those about its updates.

mod update;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::expansion::{self, Clique, CurrentScale, Revision, ScalingGroup, SetReplica};
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::resource_sharing::claim_source::sources_of_group;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::children::{ObservedChildren, OwnerKind};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use grove_controller::resource_claims::TemplateReadErrors;
use kube::ResourceExt;

use crate::claims::{ClaimInputs, ClaimsOwner, OwnedClaims, OwnerName, TemplateKey};
use crate::compute_domains::AwaitedDomains;
use crate::update::Turns;

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
