//! The steps for the children of one kind. Pure.

use std::collections::BTreeSet;

use grove_api_types::deletion::is_terminating;
use kube::Resource;

use super::{
    ChildEvents, ChildKind, DesiredChild, ObservedChildren, OwnerKind, StepBudget, StepFilter, step_budget::MAX_STEPS,
};
use crate::plan::{Stage, Step, Waiting};

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

/// The steps from the observed to the desired children, as far as the filter allows and the budget of the plan suffices. A
/// terminating child still has its name, so its successor is created after its deletion.
pub(super) fn plan<C: ChildKind>(
    children: &ObservedChildren,
    expansion: &<C::Owner as OwnerKind>::Expansion<'_>,
    budget: &mut StepBudget,
    filter: &mut StepFilter<'_, <C::Owner as OwnerKind>::Object>,
) -> ChildPlan {
    let kind = C::Object::kind(&());
    let (mut steps, mut waiting, mut names): (Vec<Step>, _, _) = (vec![], BTreeSet::new(), BTreeSet::new());
    for DesiredChild { name, failure_domain, blocked_by, build } in C::desired(expansion) {
        match (children.get::<C::Object>(&name), blocked_by) {
            (None, Some(reason)) => {
                if !filter.omits_create_for_namespace() {
                    waiting.insert(reason());
                }
            }
            (None, None) => {
                if filter.allows_create(&kind, &name, failure_domain) && !budget.is_exhausted() {
                    let create = filter.adopt_or_create(Step::create(&build()));
                    budget.spend(&create);
                    steps.push(create);
                }
            }
            (Some(live), _) if budget.is_exhausted() || is_terminating(&**live) => {}
            (Some(live), _) => {
                let is_patch = |step: &Step| matches!(step, Step::Patch(_));
                let patch = C::patch(live, build());
                if let Some(patch) = patch.filter(|step| !is_patch(step) || filter.allows_patch(&kind, &name)) {
                    budget.spend(&patch);
                    steps.push(patch);
                }
            }
        }
        names.insert(name);
    }
    let stage = with_create_events::<C>(Stage::new(C::STAGE, steps));
    let is_desired = |child: &C::Object| child.meta().name.as_deref().is_some_and(|name| names.contains(name));
    let undesired =
        active::<C>(children).filter(|child| !is_desired(child)).take(MAX_STEPS).map(Step::delete).collect();
    ChildPlan { stage, undesired, waiting }
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
    match created_or_updated {
        Some(created_or_updated) => stage.with_event(created_or_updated, create_or_update_failed, "Created or updated"),
        None => stage.with_failure_event(create_or_update_failed),
    }
}

/// The stage with the events about deletes of the kind.
pub(super) fn with_delete_events<C: ChildKind>(stage: Stage) -> Stage {
    let Some((deleted, delete_failed)) = C::EVENTS.deleted else { return stage };
    stage.with_event_for_kind::<C::Object>(deleted, delete_failed, "Deleted")
}
