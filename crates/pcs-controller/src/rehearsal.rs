//! The decisions of the reconcilers as functions of objects, for rehearsals of whole updates without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use grove_api_types::admission::default;
use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision};
use grove_api_types::labels::{self, Component};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{
    PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueSet, PodCliqueSetStatus,
    PodCliqueSetTemplateSpec,
};
use grove_controller::children::{ByName, ObservedChildren};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::Plan;
use grove_controller::reconciler::Reconciler;
use grove_controller::resource_claims::TemplateReadErrors;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::claims::ClaimInputs;
use crate::compute_domains::AwaitedDomains;
use crate::native_gangs::PodGroups;
use crate::scaling_group::GroupReconciler;
use crate::set::SetReconciler;
use crate::startup::Identity;
use crate::topology::GangTopologies;
use crate::update::{History, Turns};
use crate::{scaling_group, set};

/// A set and its objects, as the reconcilers read them.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The set.
    pub set: PodCliqueSet,
    /// Its gangs, by name.
    pub gangs: BTreeMap<String, Arc<PodGang>>,
    /// Its scaling groups, by name.
    pub groups: BTreeMap<String, Arc<PodCliqueScalingGroup>>,
    /// Its cliques and those of its scaling groups, by name.
    pub cliques: BTreeMap<String, Arc<PodClique>>,
    /// The templates in its `ControllerRevision`s, by hash.
    pub templates: BTreeMap<String, PodCliqueSetTemplateSpec>,
}

/// What a reconcile decides.
#[derive(Clone, Debug)]
pub struct Decision<S> {
    /// The writes.
    pub plan: Plan,
    /// The status after they have succeeded.
    pub status: S,
}

impl Objects {
    /// The hash of a template of the set.
    pub fn hash(template: &PodCliqueSetTemplateSpec) -> String {
        Revision::new(template.clone(), OmittedMinima::default()).hashes().generation_hash.clone()
    }

    /// The decision about the set.
    pub fn reconcile_set(&self, now: Timestamp) -> Decision<PodCliqueSetStatus> {
        let mut children = ObservedChildren::default();
        children.extend(self.gangs.values().cloned());
        children.extend(self.groups.values().cloned());
        children.extend(self.cliques.values().filter(|clique| !is_member(clique)).cloned());
        let mut observed = set_with(&self.set, children).expanded();
        let earlier = observed.earlier_revisions();
        let revisions = self.revisions(&observed.revision, earlier.values().map(String::as_str));
        observed.assign_revisions(&earlier, &revisions);
        let plan = SetReconciler::plan(&observed, now);
        let (status, _) = SetReconciler::status(&observed, &plan, &ExecutionResult::default(), now);
        Decision { plan, status }
    }

    /// The decision about a scaling group of the set; `None` if it does not exist.
    pub fn reconcile_group(&self, name: &str, now: Timestamp) -> Option<Decision<PodCliqueScalingGroupStatus>> {
        let group = self.groups.get(name)?;
        let set = default::pod_clique_set(&self.set);
        let revision = Arc::new(Revision::new(set.spec.template.clone(), OmittedMinima::default()));
        let mut children = ObservedChildren::default();
        let is_own = |clique: &&Arc<PodClique>| clique.labels().get(labels::SCALING_GROUP).is_some_and(|of| of == name);
        children.extend(self.cliques.values().filter(is_own).cloned());
        let observed = scaling_group::observed::Observed {
            group: PodCliqueScalingGroup::clone(group),
            set: Some(set),
            revision: Some(revision),
            turns: Turns::default(),
            current_scale: CurrentScale::of(self.groups.values().map(AsRef::as_ref), []),
            set_replica: None,
            orphans_children: false,
            children,
            active_gangs: self.gangs.keys().cloned().collect(),
            undecided_gangs: BTreeMap::new(),
            pod_groups: BTreeMap::new(),
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
        };
        let read = async |observed: &scaling_group::observed::Observed, hashes: BTreeSet<&str>| {
            let current = observed.revision.as_ref();
            Ok(current.map(|current| self.revisions(current, hashes.into_iter())).unwrap_or_default())
        };
        let assigned = scaling_group::assign_revisions(observed.expanded(), read, |_, _, _| {}).now_or_never()?;
        let observed = assigned.ok()?;
        let plan = GroupReconciler::plan(&observed, now);
        let (status, _) = GroupReconciler::status(&observed, &plan, &ExecutionResult::default(), now);
        Some(Decision { plan, status })
    }

    /// The revisions with these hashes, as of `update::read_revisions`.
    fn revisions<'a>(
        &self,
        current: &Revision,
        hashes: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Arc<Revision>> {
        let revision = |hash: &str| Some((hash.to_owned(), Arc::new(current.with_pods_of(self.templates.get(hash)?))));
        hashes.filter_map(revision).collect()
    }
}

/// Whether the clique belongs to a scaling group.
fn is_member(clique: &PodClique) -> bool {
    clique.labels().get(labels::COMPONENT).is_some_and(|component| component == Component::GroupPodClique.value())
}

/// The snapshot of a set with these children and without the objects of other features.
fn set_with(set: &PodCliqueSet, children: ObservedChildren) -> set::observed::Observed {
    let set = default::pod_clique_set(set);
    let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
    set::observed::Observed {
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
        pod_groups: PodGroups::default(),
        is_topology_enabled: false,
        topologies: GangTopologies::default(),
        pack_affinities: BTreeMap::new(),
        awaited_domains: AwaitedDomains::default(),
        claims: ClaimInputs::default(),
        identity: Identity::default(),
        read_errors: TemplateReadErrors::default(),
    }
}
