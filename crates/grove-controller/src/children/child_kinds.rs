//! The table of the child kinds of an owner, and the plans over all of its rows: create, patch, scale-in, and the deletion of the
//! children of a terminating owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Debug, Formatter},
    sync::Arc,
    time::Duration,
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use grove_api_types::deletion::{awaits_dependents, is_terminating};
use grove_runtime::rbac::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use tokio::sync::watch;

use super::{
    ChildEvents, ChildKind, DesiredChild, ObservedChildren, OwnerKind, StepBudget, StepFilter,
    step_budget::{MAX_STEPS, StepLimit},
};
use crate::{
    create_state::CreateState,
    group_kind::{group_kind, group_kind_of},
    name_conflict::{self, NameConflict},
    plan::{Create, Plan, Stage, Step, Waiting},
    shared_informer_factory::SharedInformerFactory,
    triggers::{Trigger, enqueue_owners, enqueue_owners_of_unreadable},
};

/// The delay of the next plan that deletes children of a deleted owner. By then the watch events of the last plan have arrived.
const NEXT_PLAN_DELAY: Duration = Duration::from_secs(1);

/// The kinds of children of an owner, in the order of their creation.
pub struct ChildKinds<O: 'static>(&'static [&'static dyn AnyChildKind<O>]);

impl<O> Clone for ChildKinds<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for ChildKinds<O> {}

impl<O: OwnerKind> Debug for ChildKinds<O> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds()).finish()
    }
}

impl<O: OwnerKind> ChildKinds<O> {
    /// The table with these rows. The children of one row are created before the children of the next row. Each row needs a
    /// kind of its own, because a row deletes all children of its kind that it does not desire.
    pub const fn in_creation_order(kinds: &'static [&'static dyn AnyChildKind<O>]) -> Self {
        Self(kinds)
    }

    /// The table with the rows that `is_selected` selects. Call it once per process: the table is never freed.
    #[must_use]
    pub fn select(self, is_selected: impl Fn(&str) -> bool) -> Self {
        let selected = self.0.iter().copied().filter(|row| is_selected(&row.kind()));
        Self(Vec::leak(selected.collect()))
    }

    /// The kinds in the order of the rows.
    pub fn kinds(self) -> impl Iterator<Item = String> {
        self.0.iter().map(|kind| kind.kind())
    }

    /// The permissions on all kinds.
    pub fn rules(self) -> Vec<PolicyRule> {
        self.0.iter().flat_map(|kind| kind.rules()).collect()
    }

    /// The steps from the observed to the desired children: one stage per kind, then one stage that deletes the children
    /// that are not desired. A child that cannot be created blocks later creates of its failure domain.
    pub fn plan(
        self,
        children: &ObservedChildren,
        expansion: &O::Expansion<'_>,
        mut filter: StepFilter<'_, O::Object>,
    ) -> Plan {
        let (mut plan, mut undesired, mut budget) = (Plan::new(), vec![], StepBudget::default());
        for kind in self.0 {
            let ChildPlan { stage, undesired: deletes, waiting } =
                kind.plan(children, expansion, &mut budget, &mut filter);
            filter.end_stage();
            plan = plan.stage(stage).waiting(waiting);
            undesired.push(deletes);
        }
        let plan = plan.stage(self.delete_stage("scale-in", undesired.into_iter().rev().flatten()));
        let has_steps = !plan.is_empty();
        let plan = if has_steps { plan.with_failure_domains(self.failure_domains(expansion)) } else { plan };
        filter.finish(plan)
    }

    /// The plan for a terminating owner: it removes `finalizer` from the owner, and deletes its children that are not terminating, unless
    /// its deletion orphans them, or the garbage collector must delete one of them first. In a foreground deletion, the deletes are in
    /// the foreground, too (`Step::delete_dependent` in `plan/deletes.rs`), so the owner stays until the last pod is deleted.
    pub fn plan_for_terminating_owner(
        self,
        owner: &O::Object,
        finalizer: Option<&str>,
        children: &ObservedChildren,
        orphans_children: bool,
    ) -> Plan {
        let finalizer = finalizer.and_then(|finalizer| Step::remove_finalizer(owner, finalizer));
        let plan = Plan::new().stage(Stage::new("finalizers", finalizer));
        let keeps_children = orphans_children || self.awaits_garbage_collector(owner, children);
        let plan = if keeps_children { plan } else { plan.stage(self.delete_all(owner, children)) };
        plan.with_independent_stages()
    }

    /// Whether the garbage collector may not have observed that the deletion of the owner awaits its children: it has deleted none of
    /// them. It could observe the foreground deletion of a child first. If the owner has an owner too, the garbage collector then
    /// suspects a cycle, and the deletion of the upper owner no longer awaits this one.
    fn awaits_garbage_collector(self, owner: &O::Object, children: &ObservedChildren) -> bool {
        let has_begun = || self.0.iter().any(|kind| kind.has_foreground_deletion(children));
        awaits_dependents(owner) && !owner.owner_references().is_empty() && !has_begun()
    }

    /// The stage that deletes the children that are not terminating, as many as one plan has. If the owner is terminating, their watch
    /// events trigger the next plan.
    fn delete_all(self, owner: &O::Object, children: &ObservedChildren) -> Stage {
        self.delete_stage("children", self.0.iter().rev().flat_map(|kind| kind.delete_all(owner, children)))
    }

    /// The plan that deletes the children of a deleted owner. If it has as many steps as one plan has, there may be more children, and
    /// the plan has the time of the next one: no watch event triggers a reconcile of a deleted owner.
    pub fn delete_dependents(self, owner: &O::Object, children: &ObservedChildren) -> Plan {
        let stage = self.delete_all(owner, children);
        let is_full = stage.steps.len() == MAX_STEPS;
        Plan::new().stage(stage).continue_after(is_full.then_some(NEXT_PLAN_DELAY))
    }

    fn delete_stage(self, name: &'static str, steps: impl Iterator<Item = Step>) -> Stage {
        self.0.iter().fold(Stage::new(name, steps.take(MAX_STEPS)), |stage, kind| kind.with_delete_events(stage))
    }

    /// The failure domains by name. Children of different kinds that share a name are in the same domain.
    fn failure_domains(self, expansion: &O::Expansion<'_>) -> BTreeMap<String, i32> {
        self.0.iter().flat_map(|kind| kind.failure_domains(expansion)).collect()
    }

    /// The children that `owner` controls, from the caches.
    pub(super) fn observe(self, informers: &SharedInformerFactory, owner: &O::Object) -> ObservedChildren {
        let mut children = ObservedChildren::default();
        self.0.iter().for_each(|kind| kind.observe(informers, owner, &mut children));
        children
    }

    pub(super) fn name_conflicts(
        self,
        informers: &SharedInformerFactory,
        owner: &O::Object,
        expansion: &O::Expansion<'_>,
    ) -> Vec<NameConflict> {
        self.0.iter().flat_map(|kind| kind.name_conflicts(informers, owner, expansion)).collect()
    }

    pub(super) fn triggers(
        self,
        informers: &SharedInformerFactory,
        creates: &CreateState<O::Object>,
    ) -> impl Iterator<Item = BoxStream<'static, Trigger<O::Object>>> {
        self.0.iter().map(|kind| kind.triggers(informers, creates))
    }

    pub(super) fn relists(self, informers: &SharedInformerFactory) -> impl Iterator<Item = watch::Receiver<u64>> {
        self.0.iter().map(|kind| kind.relists(informers))
    }

    /// The row of a kind.
    pub(super) fn of_kind(self, kind: &str) -> Option<&'static dyn AnyChildKind<O>> {
        self.0.iter().find(|row| row.kind() == kind).copied()
    }

    /// Adds the object of a create to a snapshot, for simulations. `stored` sets what the API server sets. Returns false if
    /// the table has no such kind, or the object is not of its kind.
    pub fn apply_create(
        self,
        create: &Create,
        children: &mut ObservedChildren,
        stored: impl Fn(&mut ObjectMeta),
    ) -> bool {
        self.of_kind(&group_kind(&create.target.resource))
            .is_some_and(|row| row.apply_create(create, children, &stored))
    }
}

/// A [`ChildKind`] as a row of [`ChildKinds`]. Implement `ChildKind`.
pub trait AnyChildKind<O: OwnerKind>: Sync {
    /// The group and the kind of the children.
    fn kind(&self) -> String;
    /// The permissions on the kind.
    fn rules(&self) -> Vec<PolicyRule>;
    /// The steps for the children of this kind, as far as the filter allows and the budget of the plan suffices.
    fn plan(
        &self,
        children: &ObservedChildren,
        expansion: &O::Expansion<'_>,
        budget: &mut StepBudget,
        filter: &mut StepFilter<'_, O::Object>,
    ) -> ChildPlan;
    /// The deletes of the children of this kind that are not terminating, as many as one plan has. Their owner is terminating or deleted. The
    /// garbage collector of Kubernetes would delete them too, but later.
    fn delete_all(&self, owner: &O::Object, children: &ObservedChildren) -> Vec<Step>;
    /// Whether the deletion of a child of this kind awaits the dependents of the child.
    fn has_foreground_deletion(&self, children: &ObservedChildren) -> bool;
    /// The stage with the events about deletes of this kind.
    fn with_delete_events(&self, stage: Stage) -> Stage;
    /// The failure domain of each desired child, by name.
    fn failure_domains(&self, expansion: &O::Expansion<'_>) -> Vec<(String, i32)>;
    /// Reads the children of the owner from the cache.
    fn observe(&self, informers: &SharedInformerFactory, owner: &O::Object, children: &mut ObservedChildren);
    /// The objects with the name of a desired child that the owner does not control, and the unreadable ones among its children.
    fn name_conflicts(
        &self,
        informers: &SharedInformerFactory,
        owner: &O::Object,
        expansion: &O::Expansion<'_>,
    ) -> Vec<NameConflict>;
    /// The owners to enqueue because of deltas of this kind.
    fn triggers(
        &self,
        informers: &SharedInformerFactory,
        creates: &CreateState<O::Object>,
    ) -> BoxStream<'static, Trigger<O::Object>>;
    /// The number of complete lists of this kind.
    fn relists(&self, informers: &SharedInformerFactory) -> watch::Receiver<u64>;
    /// Whether the cache has the child with this UID, be it readable or not.
    fn is_cached(&self, informers: &SharedInformerFactory, namespace: &str, name: &str, uid: &str) -> bool;
    /// See [`ChildKinds::apply_create`].
    fn apply_create(&self, create: &Create, children: &mut ObservedChildren, stored: &dyn Fn(&mut ObjectMeta)) -> bool;
}

impl<C: ChildKind> AnyChildKind<C::Owner> for C {
    fn kind(&self) -> String {
        group_kind_of::<C::Object>()
    }

    fn rules(&self) -> Vec<PolicyRule> {
        C::rules()
    }

    fn plan(
        &self,
        children: &ObservedChildren,
        expansion: &<C::Owner as OwnerKind>::Expansion<'_>,
        budget: &mut StepBudget,
        filter: &mut StepFilter<'_, <C::Owner as OwnerKind>::Object>,
    ) -> ChildPlan {
        plan::<C>(children, expansion, budget, filter)
    }

    fn delete_all(&self, owner: &<C::Owner as OwnerKind>::Object, children: &ObservedChildren) -> Vec<Step> {
        active::<C>(children).take(MAX_STEPS).map(|child| Step::delete_dependent(owner, child)).collect()
    }

    fn has_foreground_deletion(&self, children: &ObservedChildren) -> bool {
        children.of_kind::<C::Object>().any(|child| is_terminating(&**child) && awaits_dependents(&**child))
    }

    fn with_delete_events(&self, stage: Stage) -> Stage {
        let Some((deleted, delete_failed)) = C::EVENTS.deleted else { return stage };
        stage.with_event_for_kind::<C::Object>(deleted, delete_failed, "Deleted")
    }

    fn failure_domains(&self, expansion: &<C::Owner as OwnerKind>::Expansion<'_>) -> Vec<(String, i32)> {
        let domain = |(name, index): (_, Option<i32>)| Some((String::from(name), index?));
        C::desired(expansion).filter_map(|desired| domain((desired.name, desired.failure_domain))).collect()
    }

    fn observe(
        &self,
        informers: &SharedInformerFactory,
        owner: &<C::Owner as OwnerKind>::Object,
        children: &mut ObservedChildren,
    ) {
        let (namespace, uid) = (owner.namespace().unwrap_or_default(), owner.uid().unwrap_or_default());
        children.extend(informers.cache::<C::Object>().owned_by(&namespace, &uid));
    }

    fn name_conflicts(
        &self,
        informers: &SharedInformerFactory,
        owner: &<C::Owner as OwnerKind>::Object,
        expansion: &<C::Owner as OwnerKind>::Expansion<'_>,
    ) -> Vec<NameConflict> {
        let (names, cache) = (C::desired(expansion).map(|desired| desired.name), informers.cache::<C::Object>());
        let mut conflicts = name_conflict::find(&cache, owner, names);
        let (namespace, uid) = (owner.namespace().unwrap_or_default(), owner.uid().unwrap_or_default());
        for child in cache.unreadable_owned_by(&namespace, &uid) {
            let conflict = NameConflict::with_unreadable::<C::Object>(&child);
            if conflicts.iter().all(|other| other.target != conflict.target) {
                conflicts.push(conflict);
            }
        }
        conflicts
    }

    fn triggers(
        &self,
        informers: &SharedInformerFactory,
        creates: &CreateState<<C::Owner as OwnerKind>::Object>,
    ) -> BoxStream<'static, Trigger<<C::Owner as OwnerKind>::Object>> {
        let cache = informers.cache::<C::Object>();
        let unreadable = enqueue_owners_of_unreadable(&cache, creates);
        stream::select(enqueue_owners(cache.subscribe(), C::needs_reconcile, creates), unreadable).boxed()
    }

    fn relists(&self, informers: &SharedInformerFactory) -> watch::Receiver<u64> {
        informers.cache::<C::Object>().relists()
    }

    fn is_cached(&self, informers: &SharedInformerFactory, namespace: &str, name: &str, uid: &str) -> bool {
        informers.cache::<C::Object>().contains_uid(namespace, name, Some(uid))
    }

    fn apply_create(&self, create: &Create, children: &mut ObservedChildren, stored: &dyn Fn(&mut ObjectMeta)) -> bool {
        let Ok(mut object) = serde_json::from_str::<C::Object>(&create.object.text()) else { return false };
        stored(object.meta_mut());
        children.extend([Arc::new(object)]);
        true
    }
}

/// The steps for the children of one kind.
#[derive(Debug)]
pub struct ChildPlan {
    /// Creates and patches.
    pub stage: Stage,
    /// Deletes of children that are not desired, for as many as one plan has.
    pub undesired: Vec<Step>,
    /// The reasons of creates that have to wait, each once.
    pub waiting: BTreeSet<Waiting>,
}

/// A child to create, and its position among the desired children.
struct MissingChild<Build> {
    position: usize,
    failure_domain: Option<i32>,
    build: Build,
}

/// The steps from the observed to the desired children, as far as the filter allows and the budget of the plan suffices. A
/// terminating child still has its name, so its successor is created after its deletion.
fn plan<C: ChildKind>(
    children: &ObservedChildren,
    expansion: &<C::Owner as OwnerKind>::Expansion<'_>,
    budget: &mut StepBudget,
    filter: &mut StepFilter<'_, <C::Owner as OwnerKind>::Object>,
) -> ChildPlan {
    let kind = group_kind_of::<C::Object>();
    let (mut waiting, mut names) = (BTreeSet::new(), BTreeSet::new());
    let (mut steps, mut missing): (Vec<(usize, Step)>, Vec<_>) = (vec![], vec![]);
    for (position, desired) in C::desired(expansion).enumerate() {
        let DesiredChild { name, failure_domain, blocked_by, is_kept, build } = desired;
        match (children.get::<C::Object>(&name), blocked_by) {
            (None, Some(reason)) => {
                if !filter.omit_for_namespace() {
                    waiting.insert(reason());
                }
            }
            (None, None) => {
                if filter.admit_create(&kind, &name, failure_domain) {
                    missing.push(MissingChild { position, failure_domain, build });
                }
            }
            (Some(live), _) if is_kept || budget.patches.is_exhausted() || is_terminating(&**live) => {}
            (Some(live), _) => {
                let is_patch = |step: &Step| matches!(step, Step::Patch(_));
                let patch = C::patch(live, build());
                if let Some(patch) = patch.filter(|step| !is_patch(step) || filter.admit_patch(&kind, &name)) {
                    budget.patches.spend(&patch);
                    steps.push((position, patch));
                }
            }
        }
        names.insert(name);
    }
    steps.extend(creates(&kind, missing, &mut budget.creates, filter));
    let stage = with_create_events::<C>(stage::<C, _>(steps, filter));
    let is_desired = |child: &C::Object| child.meta().name.as_deref().is_some_and(|name| names.contains(name));
    let undesired = active::<C>(children).filter(|child| !is_desired(child) && C::is_deletable(child, expansion));
    let undesired = undesired.take(MAX_STEPS).map(Step::delete).collect();
    ChildPlan { stage, undesired, waiting }
}

/// The creates of missing children, each with its position, as far as the budget and the limit of the kind suffice. The other ones
/// block later creates of their failure domains.
fn creates<Owner, Child>(
    kind: &str,
    missing: Vec<MissingChild<impl FnOnce() -> Child>>,
    budget: &mut StepLimit,
    filter: &mut StepFilter<'_, Owner>,
) -> Vec<(usize, Step)>
where
    Owner: Resource<DynamicType = ()>,
    Child: Resource<DynamicType = ()> + Serialize,
{
    let (mut limit, mut steps) = (filter.create_limit(kind), vec![]);
    for MissingChild { position, failure_domain, build } in missing {
        if budget.is_exhausted() || limit.is_exhausted() {
            filter.omit_create(failure_domain);
            continue;
        }
        let create = filter.adopt_or_create(Step::create(&build()));
        budget.spend(&create);
        limit.spend(&create);
        steps.push((position, create));
    }
    steps
}

/// The stage with these steps in the order of their positions. With slow start, creates come first, because a rejected create ends
/// them, and the other steps follow at full speed.
fn stage<C: ChildKind, Owner>(mut steps: Vec<(usize, Step)>, filter: &StepFilter<'_, Owner>) -> Stage
where
    Owner: Resource<DynamicType = ()>,
{
    let is_create = |step: &Step| matches!(step, Step::Create(_));
    let has_creates = steps.iter().any(|(_, step)| is_create(step));
    let slow_start = filter.slow_start(&group_kind_of::<C::Object>()).filter(|_| has_creates);
    steps.sort_by_key(|(position, step)| (slow_start.is_some() && !is_create(step), *position));
    Stage::new(C::STAGE, steps.into_iter().map(|(_, step)| step)).with_slow_start(slow_start)
}

/// The children of the kind that are not terminating.
fn active<C: ChildKind>(children: &ObservedChildren) -> impl Iterator<Item = &C::Object> {
    children.of_kind::<C::Object>().map(|child| &**child).filter(|child| !is_terminating(*child))
}

/// Patches alone publish no success: an update patches each child at its turn, and the statuses have the progress.
fn with_create_events<C: ChildKind>(stage: Stage) -> Stage {
    let ChildEvents { created_or_updated, create_or_update_failed, deleted: _ } = C::EVENTS;
    let has_other_steps = stage.steps.iter().any(|step| !matches!(step, Step::Patch(_)));
    let stage = match created_or_updated.filter(|_| has_other_steps) {
        Some(created_or_updated) => stage.with_event(created_or_updated, create_or_update_failed, "Created or updated"),
        None => stage.with_failure_event(create_or_update_failed),
    };
    stage.with_event_notes(C::EVENT_NOTES)
}
