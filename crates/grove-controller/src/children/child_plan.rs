//! The steps for the children of one kind. Pure.

use std::collections::BTreeSet;

use grove_api_types::deletion::is_terminating;
use kube::Resource;
use serde::Serialize;

use super::{
    ChildEvents, ChildKind, DesiredChild, ObservedChildren, OwnerKind, StepBudget, StepFilter,
    step_budget::{MAX_STEPS, StepLimit},
};
use crate::{
    group_kind::group_kind_of,
    plan::{Stage, Step, Waiting},
};

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
pub(super) fn plan<C: ChildKind>(
    children: &ObservedChildren,
    expansion: &<C::Owner as OwnerKind>::Expansion<'_>,
    budget: &mut StepBudget,
    filter: &mut StepFilter<'_, <C::Owner as OwnerKind>::Object>,
) -> ChildPlan {
    let kind = group_kind_of::<C::Object>();
    let (mut waiting, mut names) = (BTreeSet::new(), BTreeSet::new());
    let (mut steps, mut missing): (Vec<(usize, Step)>, Vec<_>) = (vec![], vec![]);
    for (position, desired) in C::desired(expansion).enumerate() {
        let DesiredChild { name, failure_domain, blocked_by, build } = desired;
        match (children.get::<C::Object>(&name), blocked_by) {
            (None, Some(reason)) => {
                if !filter.omits_create_for_namespace() {
                    waiting.insert(reason());
                }
            }
            (None, None) => {
                if filter.allows_create(&kind, &name, failure_domain) {
                    missing.push(MissingChild { position, failure_domain, build });
                }
            }
            (Some(live), _) if budget.patches.is_exhausted() || is_terminating(&**live) => {}
            (Some(live), _) => {
                let is_patch = |step: &Step| matches!(step, Step::Patch(_));
                let patch = C::patch(live, build());
                if let Some(patch) = patch.filter(|step| !is_patch(step) || filter.allows_patch(&kind, &name)) {
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

/// Deletes of the children of the kind that are not terminating: one request per child, for as many as one plan has. The garbage
/// collector of Kubernetes would delete them too, but later.
pub(super) fn delete_all<C: ChildKind>(
    owner: &<C::Owner as OwnerKind>::Object,
    children: &ObservedChildren,
) -> Vec<Step> {
    active::<C>(children).take(MAX_STEPS).map(|child| Step::delete_dependent(owner, child)).collect()
}

/// The children of the kind that are not terminating.
fn active<C: ChildKind>(children: &ObservedChildren) -> impl Iterator<Item = &C::Object> {
    children.of_kind::<C::Object>().map(|child| &**child).filter(|child| !is_terminating(*child))
}

fn with_create_events<C: ChildKind>(stage: Stage) -> Stage {
    let ChildEvents { created_or_updated, create_or_update_failed, deleted: _ } = C::EVENTS;
    let stage = match created_or_updated {
        Some(created_or_updated) => stage.with_event(created_or_updated, create_or_update_failed, "Created or updated"),
        None => stage.with_failure_event(create_or_update_failed),
    };
    stage.with_event_notes(C::EVENT_NOTES)
}

/// The stage with the events about deletes of the kind.
pub(super) fn with_delete_events<C: ChildKind>(stage: Stage) -> Stage {
    let Some((deleted, delete_failed)) = C::EVENTS.deleted else { return stage };
    stage.with_event_for_kind::<C::Object>(deleted, delete_failed, "Deleted")
}
