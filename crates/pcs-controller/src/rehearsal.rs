//! The decisions of the reconcilers as functions of objects, for rehearsals of whole updates without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use grove_api_types::admission::default;
use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision};
use grove_api_types::labels::{self, Component};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{
    PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueSet, PodCliqueSetStatus,
    PodCliqueSetTemplateSpec,
};
use grove_controller::children::ObservedChildren;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::reconciler::Reconciler;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::scaling_group::GroupReconciler;
use crate::set::SetReconciler;
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
        let set = default::pod_clique_set(&self.set);
        let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
        let mut observed = set::observed::Observed::new(set, revision, children).expanded();
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
        let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
        let mut children = ObservedChildren::default();
        let is_own = |clique: &&Arc<PodClique>| clique.labels().get(labels::SCALING_GROUP).is_some_and(|of| of == name);
        children.extend(self.cliques.values().filter(is_own).cloned());
        let observed = scaling_group::observed::Observed {
            current_scale: CurrentScale::of(self.groups.values().map(AsRef::as_ref), []),
            active_gangs: self.gangs.keys().cloned().collect(),
            ..scaling_group::observed::Observed::new(group, Some((set, revision)), children)
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
