//! The children of an owner. A [`ChildKind`] has everything about one kind of children in one place; the [`ChildKinds`] of an
//! owner are a table, from which the plan, the snapshot, the triggers and the permissions follow.

mod child_decoding;
mod child_kinds;
mod step_budget;
mod step_filter;

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    collections::BTreeMap,
    fmt::Debug,
    sync::Arc,
};

use futures::stream::BoxStream;
use grove_runtime::{
    caches::{Cache, Delta},
    rbac::PolicyRule,
};
use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    child_decoding::{DecodedChild, decode_child, decode_fields_of_child, may_be_child},
    child_kinds::{AnyChildKind, ChildKinds, ChildPlan},
    step_budget::StepBudget,
    step_filter::StepFilter,
};
use crate::{
    create_backoff::{BackedOffCreates, CreateBackoff},
    create_state::CreateState,
    executor::{ExecutionResult, Executor},
    expectations::{ChildKey, PendingCreates},
    name_conflict::NameConflict,
    plan::{EventNotes, Plan, Step, Waiting},
    predicates,
    shared_informer_factory::SharedInformerFactory,
    state_metrics::StateMetrics,
    status_patch::StatusOwnership,
    triggers::{Trigger, enqueue_all_on_relist},
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
    /// About creates, and patches in the same stage; `None` if success publishes no event.
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
    is_kept: bool,
    build: Build,
}

impl<'a, Build> DesiredChild<'a, Build> {
    /// A child of this name. `build` returns the object; it runs only if the object is needed.
    pub fn new(name: impl Into<Cow<'a, str>>, build: Build) -> Self {
        Self { name: name.into(), failure_domain: None, blocked_by: None, is_kept: false, build }
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

    /// The child is neither created nor patched now, for the reason that `waiting` returns.
    #[must_use]
    pub fn kept_as_it_is(self, waiting: impl FnOnce() -> Waiting + 'a) -> Self {
        Self { is_kept: true, ..self.blocked_by(waiting) }
    }
}

/// What a reconciler needs to know about the children of all owners of one kind: the snapshot from the caches, and the creates that the
/// caches do not show.
#[derive(Debug)]
pub struct ChildTracker<O: OwnerKind> {
    kinds: ChildKinds<O>,
    informers: SharedInformerFactory,
    owners: Cache<O::Object>,
    creates: CreateState<O::Object>,
}

impl<O: OwnerKind> ChildTracker<O> {
    /// Starts the informers of the child kinds that no call has started yet. The owners are reconciled from the cache
    /// `owners`.
    pub fn new(kinds: ChildKinds<O>, informers: &SharedInformerFactory, owners: &Cache<O::Object>) -> Self {
        // The first request for a cache starts its informer.
        kinds.relists(informers).for_each(drop);
        let creates = CreateState::new(CreateBackoff::default());
        Self { kinds, informers: informers.clone(), owners: owners.clone(), creates }
    }

    /// The children that `owner` controls. The owner itself may be deleted.
    pub fn children(&self, owner: &O::Object) -> ObservedChildren {
        self.kinds.observe(&self.informers, owner)
    }

    /// The plan that deletes the children of a deleted owner.
    pub fn delete_dependents(&self, owner: &O::Object) -> Plan {
        self.kinds.delete_dependents(owner, &self.children(owner))
    }

    /// The objects that have the name of a desired child and that `owner` does not control, and the children of `owner` that could
    /// not be decoded.
    pub fn name_conflicts(&self, owner: &O::Object, expansion: &O::Expansion<'_>) -> Vec<NameConflict> {
        self.kinds.name_conflicts(&self.informers, owner, expansion)
    }

    /// The children with rejected creates, which wait or are retried.
    pub fn backed_off(&self, owner: &O::Object) -> BackedOffCreates {
        self.creates.backoff.active(owner)
    }

    /// The children that were created and that the caches do not have yet.
    pub fn pending_creates(&self, owner: &O::Object) -> PendingCreates {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let is_cached = |ChildKey { kind, name }: &ChildKey, uid: &str| {
            self.kinds.of_kind(kind).is_some_and(|row| row.is_cached(&self.informers, namespace, name, uid))
        };
        self.creates.expectations.pending(owner, is_cached, |kind| self.relists(kind))
    }

    /// Executes the plan, which was computed from `backed_off`.
    pub async fn execute(
        &self,
        executor: &Executor,
        owner: &O::Object,
        plan: &Plan,
        backed_off: &BackedOffCreates,
    ) -> ExecutionResult {
        self.creates.expect_creations(owner, plan, |kind| self.relists(kind));
        let result = executor.execute(owner, plan).await;
        self.creates.record(owner, backed_off, &result);
        result
    }

    /// Adds the maps about children to the metric of a controller.
    pub fn add_state_metrics(&self, metrics: &StateMetrics, controller: &'static str) {
        let CreateState { backoff, expectations } = self.creates.clone();
        metrics.add(controller, "rejected_creates", move || backoff.len());
        metrics.add(controller, "expectations", move || expectations.len());
    }

    /// Drops the in-memory state of a deleted owner.
    pub fn forget(&self, owner: &O::Object) {
        self.creates.forget(owner);
    }

    fn relists(&self, kind: &str) -> u64 {
        self.kinds.of_kind(kind).map_or(0, |row| *row.relists(&self.informers).borrow())
    }

    /// The owners to enqueue for deltas and relists of children.
    pub(crate) fn triggers(&self) -> Vec<BoxStream<'static, Trigger<O::Object>>> {
        let deltas = self.kinds.triggers(&self.informers, &self.creates);
        let relists = self.kinds.relists(&self.informers).collect();
        deltas.chain([enqueue_all_on_relist(&self.owners, relists)]).collect()
    }
}

/// Objects of one kind, by name.
pub type ByName<K> = BTreeMap<String, Arc<K>>;

/// A [`ByName`] of any kind.
trait AnyByName: Any + Debug + Send + Sync {
    fn clone_box(&self) -> Box<dyn AnyByName>;
}

impl<K: Debug + Send + Sync + 'static> AnyByName for ByName<K> {
    fn clone_box(&self) -> Box<dyn AnyByName> {
        Box::new(self.clone())
    }
}

/// The observed children of one owner. The children of one kind are sorted by name.
#[derive(Debug, Default)]
pub struct ObservedChildren {
    by_kind: BTreeMap<TypeId, Box<dyn AnyByName>>,
}

impl Clone for ObservedChildren {
    fn clone(&self) -> Self {
        Self { by_kind: self.by_kind.iter().map(|(kind, objects)| (*kind, (**objects).clone_box())).collect() }
    }
}

impl ObservedChildren {
    /// The child of this name.
    pub fn get<K: 'static>(&self, name: &str) -> Option<&Arc<K>> {
        self.by_name()?.get(name)
    }

    /// The children of one kind.
    pub fn of_kind<K: 'static>(&self) -> impl Iterator<Item = &Arc<K>> {
        self.by_name().into_iter().flat_map(BTreeMap::values)
    }

    /// Adds children. A child with the name of another one of its kind replaces it.
    pub fn extend<K>(&mut self, objects: impl IntoIterator<Item = Arc<K>>)
    where
        K: Resource + Debug + Send + Sync + 'static,
    {
        self.by_name_mut().extend(objects.into_iter().map(|object| (object.name_any(), object)));
    }

    /// The children of one kind, by name. A simulation changes them.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "the entry of a type is a map of that type")]
    pub fn by_name_mut<K: Debug + Send + Sync + 'static>(&mut self) -> &mut ByName<K> {
        let objects = self.by_kind.entry(TypeId::of::<K>()).or_insert_with(|| Box::new(ByName::<K>::new()));
        let objects: &mut dyn Any = &mut **objects;
        objects.downcast_mut().expect("children of this type")
    }

    fn by_name<K: 'static>(&self) -> Option<&ByName<K>> {
        let objects: &dyn Any = &**self.by_kind.get(&TypeId::of::<K>())?;
        objects.downcast_ref()
    }
}
