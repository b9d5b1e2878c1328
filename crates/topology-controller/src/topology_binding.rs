//! The `ClusterTopologyBinding` reconciler; start here.
//!
//! [`triggers()`] lists what enqueues a binding. [`reconcile()`] takes a snapshot of the binding and of the topology objects of schedulers
//! (`observe`), computes the next writes from it (`plan`), lets the executor apply them, and writes the status. If a `ClusterTopology` has the
//! name of the binding, sets use only the `ClusterTopology`. The binding of the managed default topology has the same levels.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_controller::status_writer::ExecutedPlan;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::Cache;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use self::context::Context;
use crate::default_topology::has_other_levels;
use crate::informers::BINDINGS_BY_REFERENCE;
use crate::scheduler_topologies::configured_backends;

pub(crate) mod context;
mod observe;
mod observed;
mod plan;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use crate::scheduler_topologies::CHILD_KINDS_OF_BINDINGS as CHILD_KINDS;

/// The name of the controller in logs, metrics and events.
pub(crate) const CONTROLLER: &str = "clustertopologybinding-controller";
/// Topologies are few.
const CONCURRENCY: u16 = 2;

/// Reconciles bindings until the service is stopped.
pub(crate) async fn run(manager: &Manager, ctx: Arc<Context>) {
    let cleanup = Arc::clone(&ctx);
    triggers(&ctx)
        .concurrency(CONCURRENCY)
        .on_deleted(move |deleted| cleanup_plan(&cleanup, deleted))
        .run(manager, ctx, reconcile)
        .await;
}

/// What triggers a reconcile of a binding, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
/// - a change of the binding itself;
/// - a `ClusterTopology` of the same name: it was created or deleted, or its levels changed;
/// - a change or a deletion of its topology object of a scheduler, or of the object that has the name of it;
/// - a change of a topology object that the binding names, for a status update.
fn triggers(ctx: &Context) -> ControllerBuilder<ClusterTopologyBinding> {
    let caches = &ctx.caches;
    let changed =
        configured_backends(&ctx.schedulers, ctx.configuration.enabled).map(|b| b.changed_names(&caches.informers));
    let bindings = caches.bindings.clone();
    let of_references = stream::select_all(changed).flat_map(move |name| {
        let bindings = bindings.by_index(&BINDINGS_BY_REFERENCE, &name);
        stream::iter(bindings).map(|binding| ObjectRef::from_obj(&*binding))
    });
    ControllerBuilder::new(CONTROLLER, caches.bindings.clone(), caches.bindings.subscribe())
        .watches(bindings_of_topology(&caches.topologies, &caches.bindings))
        .watches(of_references.map(Trigger::StatusOnly))
        .owns(&ctx.children)
}

/// The binding with the name of a `ClusterTopology` that was created or deleted, or has other levels.
fn bindings_of_topology(
    topologies: &Cache<ClusterTopology>,
    bindings: &Cache<ClusterTopologyBinding>,
) -> impl Stream<Item = Trigger<ClusterTopologyBinding>> + Send + 'static + use<> {
    let bindings = bindings.clone();
    topologies.subscribe().filter_map(move |delta| {
        let topology = delta.object().filter(|_| has_other_levels(&delta));
        let binding = topology.and_then(|topology| bindings.get("", &topology.name_any()));
        std::future::ready(binding.map(|binding| Trigger::Reconcile(ObjectRef::from_obj(&*binding))))
    })
}

async fn reconcile(binding: Arc<ClusterTopologyBinding>, ctx: Arc<Context>) -> Result<Requeue, ReconcileError> {
    let now = ctx.clock.now();
    let observed = observe::observe(&ctx, &binding);
    let plan = plan::plan(&observed, now);
    let result = ctx.children.execute(&ctx.executor, &binding, &plan, &observed.backed_off).await;
    let status = |result: &ExecutionResult| {
        let status = status::status(&observed, &plan, result, now);
        let change = status::status_change(&observed, &status);
        (status, change)
    };
    let pending_creates = Some(&observed.pending_creates);
    let executed = ExecutedPlan { plan: &plan, result, pending_creates, is_terminating: observed.is_terminating() };
    ctx.status_writer.write_after(&*binding, executed, status).await
}

/// Drops the in-memory state of a deleted binding, and plans the deletion of its topology objects, unless its deletion orphaned them.
fn cleanup_plan(ctx: &Context, deleted: &ClusterTopologyBinding) -> Plan {
    ctx.children.forget(deleted);
    ctx.status_writer.forget(deleted);
    if ctx.caches.binding_orphan_deletions.contains(deleted) {
        return Plan::new();
    }
    CHILD_KINDS.delete_dependents(deleted, &ctx.children.children(deleted))
}
