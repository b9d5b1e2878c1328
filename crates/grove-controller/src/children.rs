//! The children of an owner. A [`ChildKind`] has everything about one kind of children in one place; the [`ChildKinds`] of an
//! owner are a table, from which the plan, the snapshot, the triggers and the permissions follow.

mod child_decoding;
mod child_kinds;
mod child_plan;
mod observed;
mod step_budget;
mod step_filter;
mod tracker;

use std::{borrow::Cow, fmt::Debug};

use grove_runtime::{caches::Delta, rbac::PolicyRule};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    child_decoding::{DecodedChild, decode_child},
    child_kinds::{AnyChildKind, ChildKinds},
    child_plan::ChildPlan,
    observed::{ByName, ObservedChildren},
    step_budget::StepBudget,
    step_filter::StepFilter,
    tracker::ChildTracker,
};
use crate::{
    plan::{EventNotes, Step, Waiting},
    predicates,
    status_patch::StatusOwnership,
};

/// A kind of owners.
pub trait OwnerKind: 'static {
    /// The owner.
    type Object: Resource<DynamicType = ()> + Send + Sync + 'static;
    /// What an owner expands to: the input of the desired state of all its children.
    type Expansion<'a>;
    /// Which services write the status of the owner.
    const STATUS_OWNERSHIP: StatusOwnership = StatusOwnership::Exclusive;
}

/// One kind of children of one kind of owners.
pub trait ChildKind: Sync + 'static {
    /// The owner of the children.
    type Owner: OwnerKind;
    /// A child, as the cache stores it.
    type Object: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static;

    /// The name of the stage that creates and patches these children.
    const STAGE: &'static str;
    /// The events about these children.
    const EVENTS: ChildEvents;
    /// The form of the notes of events about creates and patches.
    const EVENT_NOTES: EventNotes = EventNotes::ByVerb;

    /// The permissions on the kind.
    fn rules() -> Vec<PolicyRule>;

    /// The desired children. A child that is not among them is deleted.
    fn desired<'r, 'a: 'r>(
        expansion: &'r <Self::Owner as OwnerKind>::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> Self::Object>>;

    /// The step that corrects a live child; `None` if its compared fields do not differ.
    fn patch(live: &Self::Object, desired: Self::Object) -> Option<Step>;

    /// Whether a child that is not desired is deleted now. Otherwise it stays until a later reconcile.
    fn is_deletable(_live: &Self::Object, _expansion: &<Self::Owner as OwnerKind>::Expansion<'_>) -> bool {
        true
    }

    /// Whether a delta of a child needs a reconcile of its owner. Any other delta triggers a reconcile with low priority.
    fn needs_reconcile(delta: &Delta<Self::Object>) -> bool {
        predicates::needs_reconcile(delta)
    }
}

/// The reasons of the events about the children of one kind.
#[derive(Clone, Copy, Debug)]
pub struct ChildEvents {
    /// About creates and patches; `None` if success publishes no event.
    pub created_or_updated: Option<&'static str>,
    /// The warning about a failed create or patch.
    pub create_or_update_failed: &'static str,
    /// About deletes, and the warning about a failed delete; `None` if deletes publish no event.
    pub deleted: Option<(&'static str, &'static str)>,
}

/// Builds the reason for a create that has to wait.
type BlockedBy<'a> = Box<dyn FnOnce() -> Waiting + 'a>;

/// A child that should exist.
pub struct DesiredChild<'a, Build> {
    name: Cow<'a, str>,
    failure_domain: Option<i32>,
    blocked_by: Option<BlockedBy<'a>>,
    build: Build,
}

impl<'a, Build> DesiredChild<'a, Build> {
    /// A child of this name. `build` returns the object; it runs only if the object is needed.
    pub fn new(name: impl Into<Cow<'a, str>>, build: Build) -> Self {
        Self { name: name.into(), failure_domain: None, blocked_by: None, build }
    }

    /// A child that cannot be created blocks later creates of the same failure domain, and no others.
    #[must_use]
    pub fn in_failure_domain(self, index: i32) -> Self {
        Self { failure_domain: Some(index), ..self }
    }

    /// The child is not created now, for the reason that `waiting` returns. A child that exists is patched nevertheless.
    #[must_use]
    pub fn blocked_by(self, waiting: impl FnOnce() -> Waiting + 'a) -> Self {
        Self { blocked_by: Some(Box::new(waiting)), ..self }
    }
}
