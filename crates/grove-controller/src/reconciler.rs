//! The skeleton of a reconciler. A service implements the steps of a [`Reconciler`], and [`run`] does the rest once: the run loop, the cleanup of
//! deleted objects, the status write, when to reconcile again, and the metrics.
//!
//! ```text
//! observe (caches) ─► dereference (live reads) ─► snapshot ─► plan ─► execute ─► status
//! ```
//!
//! The snapshot contains everything that a reconcile reads. It does not change after `dereference`, so `plan` and `status` are pure.

use std::{
    borrow::Cow,
    future::{Future, ready},
    sync::Arc,
};

use grove_api_types::configuration::OperatorConfiguration;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, core::object::HasStatus};
use serde::Serialize;

use crate::{
    children::{ChildKinds, ChildTracker, OwnerKind},
    controller::ControllerBuilder,
    create_backoff::BackedOffCreates,
    executor::{ExecutionResult, Executor},
    expectations::PendingCreates,
    manager::Manager,
    orphan_deletions::OrphanDeletions,
    plan::Plan,
    reconcile_error::ReconcileError,
    requeue::Requeue,
    resource_claims::TemplateReadErrors,
    shared_informer_factory::SharedInformerFactory,
    state_metrics::NamedCount,
    status_limiter::StatusChange,
    status_writer::{ExecutedPlan, StatusWriter},
};

/// The kind that a reconciler reconciles.
pub type Object<R> = <<R as Reconciler>::Owner as OwnerKind>::Object;
/// The status of that kind.
pub type Status<R> = <Object<R> as HasStatus>::Status;

/// The steps of one reconciler.
pub trait Reconciler: Sized + 'static {
    /// The reconciled kind and its children.
    type Owner: OwnerKind<Object: HasStatus<Status: Serialize + PartialEq + Default>>;
    /// The caches, and what the reconciler remembers between two reconciles.
    type Caches: Send + Sync + 'static;
    /// Everything that a reconcile reads.
    type Snapshot: Snapshot;

    /// The name of the controller in logs, metrics and events.
    const CONTROLLER: &'static str;

    /// How many objects are reconciled at once.
    fn concurrency(config: &OperatorConfiguration) -> u16;

    /// The cache of the reconciled objects, and the informers of their children.
    fn informers(caches: &Self::Caches) -> (&Cache<Object<Self>>, &SharedInformerFactory);

    /// The kinds of the children.
    fn child_kinds(_manager: &Manager, _caches: &Self::Caches) -> ChildKinds<Self::Owner> {
        ChildKinds::in_creation_order(&[])
    }

    /// The owners with a deletion that keeps their children.
    fn orphan_deletions(_caches: &Self::Caches) -> Option<&OrphanDeletions> {
        None
    }

    /// The maps with entries that end with their object at the latest ([`Reconciler::forget`]), besides those of the context.
    fn state_maps() -> &'static [NamedCount<Context<Self>>] {
        &[]
    }

    /// Adds what triggers a reconcile besides the object itself and its children.
    fn triggers(ctx: &Context<Self>, controller: ControllerBuilder<Object<Self>>) -> ControllerBuilder<Object<Self>>;

    /// Takes the snapshot from the caches. It sends no requests.
    fn observe(ctx: &Context<Self>, object: &Object<Self>, now: Timestamp) -> Self::Snapshot;

    /// Adds what only the API server knows: all live reads of the reconcile.
    fn dereference(
        _ctx: &Context<Self>,
        observed: Self::Snapshot,
        _now: Timestamp,
    ) -> impl Future<Output = Result<Self::Snapshot, ReconcileError>> {
        ready(Ok(observed))
    }

    /// The writes of the reconcile, except that of the status.
    fn plan(_snapshot: &Self::Snapshot, _now: Timestamp) -> Plan {
        Plan::new()
    }

    /// Plans, and executes the plan.
    fn execute(
        ctx: &Context<Self>,
        object: &Object<Self>,
        snapshot: Self::Snapshot,
        now: Timestamp,
    ) -> impl Future<Output = Executed<Self::Snapshot>> {
        async move {
            let plan = Self::plan(&snapshot, now);
            let result = ctx.children.execute(&ctx.executor, object, &plan, &snapshot.backed_off()).await;
            Executed { snapshot, plan, result }
        }
    }

    /// The status after the execution, and how it differs from that of the object.
    fn status(
        snapshot: &Self::Snapshot,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (Status<Self>, StatusChange);

    /// Drops what the reconciler remembers about a deleted object.
    fn forget(_ctx: &Context<Self>, _deleted: &Object<Self>) {}

    /// The plan that deletes the children of a deleted object, unless its deletion orphaned them.
    fn delete_dependents(ctx: &Context<Self>, deleted: &Object<Self>) -> Plan {
        ctx.children.delete_dependents(deleted)
    }
}

/// What the skeleton reads of a snapshot.
pub trait Snapshot {
    /// Whether the object gets no status, because it is terminating or about to be deleted with its owner.
    fn omits_status(&self) -> bool;

    /// The children that were created and that the caches do not have yet.
    fn pending_creates(&self) -> Cow<'_, PendingCreates> {
        Cow::Owned(PendingCreates::default())
    }

    /// The children whose creates were rejected.
    fn backed_off(&self) -> Cow<'_, BackedOffCreates> {
        Cow::Owned(BackedOffCreates::default())
    }

    /// The failed live reads that delay only a part of the plan. The reconcile fails after its status was written, so that it is retried.
    fn read_errors(&self) -> TemplateReadErrors {
        TemplateReadErrors::default()
    }
}

/// A snapshot, the plan that follows from it, and the results of its steps.
#[derive(Debug)]
pub struct Executed<S> {
    /// The snapshot.
    pub snapshot: S,
    /// The plan.
    pub plan: Plan,
    /// The results of its steps.
    pub result: ExecutionResult,
}

/// The dependencies of a reconciler. `plan` and `status` do not see them.
pub struct Context<R: Reconciler> {
    /// The caches, and what the reconciler remembers.
    pub caches: R::Caches,
    /// The children of the reconciled objects.
    pub children: ChildTracker<R::Owner>,
    /// Publishes its events under the name of the controller.
    pub executor: Executor,
    /// Writes the statuses.
    pub status_writer: StatusWriter,
    manager: Manager,
}

impl<R: Reconciler> Context<R> {
    /// Starts the informers of the child kinds, and adds the maps of the reconciler to the metrics.
    pub fn new(manager: &Manager, caches: R::Caches) -> Arc<Self> {
        Self::with_status_writer(manager, caches, |writer| writer)
    }

    /// The same with another status writer.
    pub fn with_status_writer(
        manager: &Manager,
        caches: R::Caches,
        change: impl FnOnce(StatusWriter) -> StatusWriter,
    ) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(R::CONTROLLER);
        let status_writer = StatusWriter::new(executor.clone()).with_ownership(R::Owner::STATUS_OWNERSHIP);
        let (owners, informers) = R::informers(&caches);
        let context = Arc::new(Self {
            children: ChildTracker::new(R::child_kinds(manager, &caches), informers, owners),
            status_writer: change(status_writer),
            executor,
            manager: manager.clone(),
            caches,
        });
        let metrics = manager.state_metrics();
        context.children.add_state_metrics(metrics, R::CONTROLLER);
        if let Some(deletions) = R::orphan_deletions(&context.caches) {
            deletions.add_state_metrics(metrics, R::CONTROLLER);
        }
        metrics.add_all(R::CONTROLLER, &context, &[("statuses", |context| context.status_writer.statuses())]);
        metrics.add_all(R::CONTROLLER, &context, R::state_maps());
        context
    }

    /// The client for live reads.
    pub fn client(&self) -> Client {
        self.manager.client()
    }

    /// The configuration.
    pub fn config(&self) -> &OperatorConfiguration {
        self.manager.config()
    }
}

/// Reconciles objects until the service is stopped.
pub async fn run<R: Reconciler>(ctx: Arc<Context<R>>) {
    let (manager, cleanup) = (ctx.manager.clone(), Arc::clone(&ctx));
    let (objects, _) = R::informers(&ctx.caches);
    let controller = ControllerBuilder::new(R::CONTROLLER, objects.clone(), objects.subscribe());
    R::triggers(&ctx, controller)
        .owns(&ctx.children)
        .concurrency(R::concurrency(manager.config()))
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(&manager, ctx, reconcile)
        .await;
}

/// One reconcile.
///
/// # Errors
/// If a read, a write of the plan or the status write fails.
pub async fn reconcile<R: Reconciler>(object: Arc<Object<R>>, ctx: Arc<Context<R>>) -> Result<Requeue, ReconcileError> {
    let now = ctx.manager.clock().now();
    let observed = R::observe(&ctx, &object, now);
    let snapshot = R::dereference(&ctx, observed, now).await?;
    let Executed { snapshot, plan, result } = R::execute(&ctx, &object, snapshot, now).await;
    let status = |result: &ExecutionResult| R::status(&snapshot, &plan, result, now);
    let (pending_creates, omits_status) = (snapshot.pending_creates(), snapshot.omits_status());
    let executed = ExecutedPlan { plan: &plan, result, pending_creates: Some(&pending_creates), omits_status };
    let requeue = ctx.status_writer.write_after(&*object, executed, status).await?;
    snapshot.read_errors().into_error(requeue).map_or(Ok(requeue), Err)
}

/// Drops the in-memory state of a deleted object, and plans the deletion of its children, unless its deletion orphaned them.
pub fn cleanup_plan<R: Reconciler>(ctx: &Context<R>, deleted: &Object<R>) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    R::forget(ctx, deleted);
    let orphans_children = R::orphan_deletions(&ctx.caches).is_some_and(|deletions| deletions.contains(deleted));
    if orphans_children { Plan::new() } else { R::delete_dependents(ctx, deleted) }
}
