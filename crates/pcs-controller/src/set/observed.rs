//! The snapshot of a set and its children: plain data and pure queries. `update` has those about its updates.

mod update;

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::expansion::{self, Clique, CurrentScale, RecordedScale, Revision, ScalingGroup, SetReplica};
use grove_api_types::labels::{self, SCALE, TOPOLOGY_NAME};
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::ownership::controller_of;
use grove_api_types::resource_sharing::claim_source::sources_of_set;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::children::{ByName, ObservedChildren, OwnerKind};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::{Target, Waiting};
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::status_patch::StatusOwnership;
use kube::{Resource, ResourceExt};

use crate::children::clique;
use crate::claims::{ClaimInputs, ClaimsOwner, OwnedClaims, OwnerName, TemplateKey};
use crate::compute_domains::AwaitedDomains;
use crate::native_gangs::{GangDecisions, GangsOfSet};
use crate::startup::{Identity, IdentityOwner, identity_conflict};
use crate::topology::{GangTopologies, pack_affinities};
use crate::update::{History, RevisionOwner, Turns};

/// Sets as owners of children.
#[derive(Debug)]
pub(crate) struct SetOwner;

impl OwnerKind for SetOwner {
    type Object = PodCliqueSet;
    type Expansion<'a> = SetExpansion<'a>;
    const STATUS_OWNERSHIP: StatusOwnership = StatusOwnership::SharedConditions;
}

/// The replicas of a set with everything that its children are computed from.
#[derive(Debug)]
pub(crate) struct SetExpansion<'a> {
    /// The set, with Grove's defaults applied.
    pub(crate) set: &'a PodCliqueSet,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// The current revision.
    pub(crate) revision: &'a Revision,
    /// Its earlier revisions.
    pub(crate) history: &'a History,
    /// What an update means for the replicas.
    pub(crate) turns: &'a Turns,
    /// The replicas, in order of their indices.
    pub(crate) replicas: &'a [SetReplica],
    /// The scale that its base gangs record.
    pub(crate) recorded_scale: &'a RecordedScale,
    /// Which `PodGroup` of the workload API each of its gangs has.
    pub(crate) gang_decisions: &'a GangDecisions,
    /// The topologies of its gangs.
    pub(crate) topologies: &'a GangTopologies,
    /// The pod affinities of its cliques, by the names of the cliques.
    pub(crate) pack_affinities: &'a BTreeMap<String, String>,
    /// The compute domains that its replicas wait for.
    pub(crate) awaited_domains: &'a AwaitedDomains,
    /// The claims at the level of the set.
    pub(crate) claims: OwnedClaims<'a>,
    /// The identity of its waiting pods.
    pub(crate) identity: &'a Identity,
    /// Why cliques that start after others are not created.
    pub(crate) identity_conflict: Option<Waiting>,
}

impl ClaimsOwner for SetOwner {
    fn claims<'r, 'a: 'r>(expansion: &'r SetExpansion<'a>) -> (&'r PodCliqueSet, &'r OwnedClaims<'a>) {
        (expansion.set, &expansion.claims)
    }
}

impl IdentityOwner for SetOwner {
    fn identity<'r, 'a: 'r>(expansion: &'r SetExpansion<'a>) -> (&'r PodCliqueSet, &'r Identity) {
        (expansion.set, expansion.identity)
    }
}

impl RevisionOwner for SetOwner {
    fn revisions<'r, 'a: 'r>(expansion: &'r SetExpansion<'a>) -> (&'r PodCliqueSet, &'r Revision, &'r History) {
        (expansion.set, expansion.revision, expansion.history)
    }
}

/// A set and the children that it controls, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The set, with Grove's defaults applied.
    pub(crate) set: PodCliqueSet,
    /// The fields that the user set and that no service supports.
    pub(crate) unsupported_fields: Vec<String>,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// Whether its deletion keeps its children.
    pub(crate) orphans_children: bool,
    /// The children that it controls.
    pub(crate) children: ObservedChildren,
    /// The scaling groups that have lost their owner reference and carry the labels of the set. The set adopts them; until
    /// then their scale and status count like those of its own groups.
    pub(crate) adoptable_groups: ByName<PodCliqueScalingGroup>,
    /// The cliques of its scaling groups, if the template omits minima, because they retain theirs, or if revisions may have to be removed, because
    /// they name some.
    pub(crate) members: Vec<Arc<PodClique>>,
    /// The revision of the current template.
    pub(crate) revision: Arc<Revision>,
    /// The earlier revisions.
    pub(crate) history: History,
    /// What an update means for the replicas.
    pub(crate) turns: Turns,
    /// The current replica counts of the existing cliques and scaling groups, which their scale subresources may have changed, and the
    /// recorded ones of deleted cliques and groups.
    pub(crate) current_scale: CurrentScale,
    /// The replicas, in order of their indices. A set that is terminating or exceeds a limit has none.
    pub(crate) replicas: Arc<[SetReplica]>,
    /// The objects that have the name of a child and that the set does not control, and its children that could not be decoded.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The children whose creates were rejected, and that are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The children that were created and that the caches do not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// Whether its namespace is terminating. Then nothing is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
    /// Which `PodGroup` of the workload API each of its gangs has.
    pub(crate) gang_decisions: GangDecisions,
    /// Whether the configuration enables topology-aware scheduling.
    pub(crate) is_topology_enabled: bool,
    /// The topologies of its gangs.
    pub(crate) topologies: GangTopologies,
    /// The pod affinities of its cliques, by the names of the cliques.
    pub(crate) pack_affinities: BTreeMap<String, String>,
    /// The compute domains that its replicas wait for.
    pub(crate) awaited_domains: AwaitedDomains,
    /// What decides about its claims.
    pub(crate) claims: ClaimInputs,
    /// The identity of its waiting pods.
    pub(crate) identity: Identity,
    /// The templates of claims that could not be read.
    pub(crate) read_errors: TemplateReadErrors,
}

impl Observed {
    /// The snapshot of a set with these children, before anything else is read. `set` has Grove's defaults applied, and `revision` is that of its
    /// template.
    pub(crate) fn new(set: PodCliqueSet, revision: Revision, children: ObservedChildren) -> Self {
        Self {
            set,
            unsupported_fields: Vec::new(),
            default_scheduler: Scheduler::default(),
            orphans_children: false,
            children,
            adoptable_groups: ByName::new(),
            members: Vec::new(),
            revision: Arc::new(revision),
            history: History::default(),
            turns: Turns::default(),
            current_scale: CurrentScale::default(),
            replicas: Vec::new().into(),
            name_conflicts: Vec::new(),
            backed_off: BackedOffCreates::default(),
            pending_creates: PendingCreates::default(),
            is_namespace_terminating: false,
            gang_decisions: GangDecisions::default(),
            is_topology_enabled: false,
            topologies: GangTopologies::default(),
            pack_affinities: BTreeMap::new(),
            awaited_domains: AwaitedDomains::default(),
            claims: ClaimInputs::default(),
            identity: Identity::default(),
            read_errors: TemplateReadErrors::default(),
        }
    }

    /// The limit that the size of the set exceeds. Such a set is not expanded at all, because the expansion would exhaust the memory.
    pub(crate) fn exceeded_limit(&self) -> Option<SizeLimit> {
        let groups = self.groups().map(|group| group.spec.replicas);
        let cliques = self.cliques().map(|clique| clique.spec.replicas);
        let (recorded_clique, recorded_group) = self.recorded_scale().largest();
        let clique = cliques.max().unwrap_or(0).max(recorded_clique);
        let group = groups.max().unwrap_or(0).max(recorded_group);
        if !SizeLimit::may_be_exceeded(&self.set, clique, group) {
            return None;
        }
        SizeLimit::exceeded(&self.set, &self.scale_of_children())
    }

    /// Whether a clique or a scaling group of the set could not be decoded, and has no earlier state: then its number of replicas
    /// is unknown.
    pub(crate) fn has_unknown_scale(&self) -> bool {
        let is_unknown = |NameConflict { target, metadata, unreadable }: &NameConflict| {
            let has_scale = self.is_missing::<PodClique>(target) || self.is_missing::<PodCliqueScalingGroup>(target);
            let owner_uid = controller_of(metadata).map(|owner| owner.uid.as_str());
            unreadable.is_some() && has_scale && owner_uid == self.set.metadata.uid.as_deref()
        };
        self.name_conflicts.iter().any(is_unknown)
    }

    /// Why the replicas of a missing clique or scaling group are unknown: a newer pcs-controller has recorded them.
    pub(crate) fn unreadable_scale(&self) -> Option<Waiting> {
        let gangs = self.children.of_kind::<PodGang>();
        let is_unreadable = |gang: &Arc<PodGang>| {
            let error = RecordedScale::later_version(gang.annotations().get(SCALE)?)?;
            Some((gang.name_any(), error))
        };
        let unreadable: BTreeMap<_, _> = gangs.filter_map(is_unreadable).collect();
        if unreadable.is_empty() {
            return None;
        }
        let mut incomplete = self.replicas.iter().filter(|replica| !self.current_scale.has_all_of(replica));
        let (gang, error) = incomplete.find_map(|replica| unreadable.get_key_value(replica.base_gang.as_str()))?;
        let message = format!(
            "the set stays as it is, because PodGang {gang} records the replicas of a deleted PodClique or PodCliqueScalingGroup: {}",
            error.message("pcs-controller")
        );
        Some(Waiting::new(available::UNREADABLE_ANNOTATION, message))
    }

    /// Whether the target is of kind `K` and no child.
    fn is_missing<K: Resource<DynamicType = ()> + 'static>(&self, target: &Target) -> bool {
        target.resource.kind == K::kind(&()) && self.children.get::<K>(&target.name).is_none()
    }

    /// Why cliques that start after others are not created.
    fn identity_conflict(&self) -> Option<Waiting> {
        identity_conflict(&self.conflicts(&labels::base(&self.name())))
    }

    /// Whether the set has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.set)
    }

    /// The name of the set.
    pub(crate) fn name(&self) -> PodCliqueSetName {
        PodCliqueSetName::new(self.set.name_any())
    }

    /// The name conflicts, ready to be resolved. A child without an owner that carries all `base_labels` is adopted.
    pub(crate) fn conflicts<'a>(
        &'a self,
        base_labels: &'a BTreeMap<String, String>,
    ) -> NameConflicts<'a, PodCliqueSet> {
        NameConflicts { owner: &self.set, conflicts: &self.name_conflicts, labels: base_labels }
    }

    /// The scaling group of this name, if it exists and is not terminating.
    pub(crate) fn active_group(&self, name: &PodCliqueScalingGroupName) -> Option<&PodCliqueScalingGroup> {
        let group = self.children.get(name.as_str()).or_else(|| self.adoptable_groups.get(name.as_str()))?;
        (!is_terminating(&**group)).then_some(group)
    }

    /// The same snapshot with the replicas of the set.
    #[must_use]
    pub(crate) fn expanded(mut self) -> Self {
        let is_expandable = !self.is_terminating() && self.exceeded_limit().is_none();
        let replicas = if is_expandable { self.set.spec.replicas } else { 0 };
        self.current_scale = self.scale_of_children();
        self.replicas = expansion::expand(&self.name(), replicas, &self.revision, &self.current_scale).into();
        self
    }

    fn scale_of_children(&self) -> CurrentScale {
        let scale = CurrentScale::of(self.groups(), self.cliques()).with_recorded(self.recorded_scale());
        if !self.revision.omits_minima() {
            return scale;
        }
        scale.with_minima_of(self.cliques().chain(self.members.iter().map(AsRef::as_ref)))
    }

    /// The scale that the base gangs record.
    fn recorded_scale(&self) -> RecordedScale {
        let gangs = self.children.of_kind::<PodGang>();
        RecordedScale::decode_all(gangs.filter_map(|gang| gang.annotations().get(SCALE)))
    }

    /// What the children of the set are computed from.
    pub(crate) fn expansion(&self) -> SetExpansion<'_> {
        SetExpansion {
            set: &self.set,
            default_scheduler: self.default_scheduler,
            revision: &self.revision,
            history: &self.history,
            turns: &self.turns,
            replicas: &self.replicas,
            recorded_scale: self.current_scale.recorded(),
            gang_decisions: &self.gang_decisions,
            topologies: &self.topologies,
            pack_affinities: &self.pack_affinities,
            awaited_domains: &self.awaited_domains,
            claims: self.owned_claims(),
            identity: &self.identity,
            identity_conflict: self.identity_conflict(),
        }
    }

    /// The hash of the current template.
    pub(crate) fn hash(&self) -> &str {
        &self.revision.hashes().generation_hash
    }

    /// Whether every clique and scaling group of the replica exists and reaches its `minAvailable`.
    pub(crate) fn is_available(&self, replica: &SetReplica) -> bool {
        let clique = |clique: &Clique| clique::active(&self.children, &clique.name).is_some_and(clique::is_available);
        let group = |group: &ScalingGroup| self.active_group(&group.name).is_some_and(group_is_available);
        replica.cliques.iter().all(clique) && replica.groups.iter().all(group)
    }

    /// What the `PodGroup`s of its gangs are decided from.
    pub(crate) fn gangs(&self) -> GangsOfSet<'_> {
        let Self { set, default_scheduler, children, replicas, topologies, turns, .. } = self;
        GangsOfSet { set, default_scheduler: *default_scheduler, children, replicas, topologies, turns }
    }

    /// The claims at the level of the set.
    pub(crate) fn owned_claims(&self) -> OwnedClaims<'_> {
        OwnedClaims {
            set: self.name(),
            owner: OwnerName::Set(self.name()),
            namespace: self.set.namespace().unwrap_or_default(),
            replicas: self.set.spec.replicas,
            sources: sources_of_set(&self.set.spec.template),
            inputs: &self.claims,
        }
    }

    /// The external templates of its missing claims, each with whether an object of its name can exist.
    pub(crate) fn templates_to_read(&self) -> BTreeMap<TemplateKey, bool> {
        if self.is_terminating() || self.exceeded_limit().is_some() {
            return BTreeMap::new();
        }
        self.owned_claims().templates_to_read(&self.children)
    }

    /// The topology that the cache lacks, if a gang would now be created without constraints or lose them.
    pub(crate) fn topology_to_confirm(&self) -> Option<String> {
        let name = self.topologies.not_found()?;
        let is_affected = |gang: &str| match self.children.get::<PodGang>(gang) {
            Some(live) => live.annotations().contains_key(TOPOLOGY_NAME) && !self.topologies.is_retained(gang),
            None => true,
        };
        let mut gangs = self.replicas.iter().flat_map(SetReplica::gangs);
        gangs.any(|gang| is_affected(gang.name.as_str())).then(|| name.to_owned())
    }

    /// The pod affinities of the cliques, from the gangs that exist.
    pub(crate) fn pack_affinities_of_cliques(&self) -> BTreeMap<String, String> {
        let gangs = self.children.of_kind::<PodGang>().filter(|gang| !is_terminating(&***gang));
        pack_affinities(gangs.map(AsRef::as_ref), self.cliques())
    }

    /// A live LIST has shown bound pods that the caches may lack: their gangs retain their topologies.
    pub(crate) fn retain_topologies_of_bound_gangs(&mut self) {
        for gang in self.gang_decisions.bound_gangs().filter_map(|gang| self.children.get::<PodGang>(gang)) {
            self.topologies.retain(gang);
        }
    }

    /// Its own scaling groups, and those that it will adopt.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &PodCliqueScalingGroup> {
        self.children.of_kind().chain(self.adoptable_groups.values()).map(AsRef::as_ref)
    }

    /// Its own cliques.
    fn cliques(&self) -> impl Iterator<Item = &PodClique> {
        self.children.of_kind().map(AsRef::as_ref)
    }
}

/// Whether the group reaches its `minAvailable`.
fn group_is_available(group: &PodCliqueScalingGroup) -> bool {
    group.status.as_ref().map_or(0, |status| status.available_replicas) >= group.spec.required_replicas()
}
