//! Deletes the dependents of deleted objects, after a live GET has confirmed the deletion ([`Executor::confirm_deleted`]).
//! Kubernetes' garbage collector would do so too, but later. The children of an owner that is still terminating are deleted by
//! its reconcile: see `<kind>/plan.rs`.
//!
//! If the deletion orphans its dependents, the plan is empty, and they stay: see [`crate::orphan_deletions`].

use std::sync::Arc;

use futures::{StreamExt, channel::mpsc};
use grove_runtime::{api_error::error_chain, backoff::Backoff};
use kube::{Resource, ResourceExt};

use crate::{executor::Executor, manager::Manager, plan::Plan};

/// The dependents of this many deleted objects are deleted concurrently.
const CONCURRENCY: usize = 32;
/// After this many attempts the dependents are left to Kubernetes' garbage collector.
const MAX_ATTEMPTS: u32 = 5;

/// Returns the plan that deletes the dependents of a deleted object, and drops the reconciler's in-memory state of the object.
pub(super) type OnDeleted<K> = Arc<dyn Fn(&K) -> Plan + Send + Sync>;

/// Deletes the dependents of each object of `deleted`.
pub(super) async fn delete_dependents<K>(
    manager: &Manager,
    controller: &'static str,
    on_deleted: Option<OnDeleted<K>>,
    deleted: mpsc::UnboundedReceiver<Arc<K>>,
) where
    K: Resource<DynamicType = ()>,
{
    let Some(on_deleted) = on_deleted else { return };
    let executor = manager.executor().with_reporting_controller(controller);
    let delete = async |object: Arc<K>| {
        if manager.leadership().is_held() {
            delete_dependents_of(manager, &executor, &on_deleted, &*object).await;
        } else {
            // The leader deletes the dependents. Here the call only drops what the reconciler stores.
            drop(on_deleted(&object));
        }
        executor.forget(&*object);
    };
    deleted.for_each_concurrent(CONCURRENCY, delete).await;
}

async fn delete_dependents_of<K>(manager: &Manager, executor: &Executor, on_deleted: &OnDeleted<K>, object: &K)
where
    K: Resource<DynamicType = ()>,
{
    let mut backoff = Backoff::for_objects();
    for _ in 0..MAX_ATTEMPTS {
        if try_delete_dependents(executor, on_deleted, object).await {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = manager.shutdown().cancelled() => return,
        }
    }
}

/// Whether nothing is left to do: the dependents are deleted, or the object exists after all.
async fn try_delete_dependents<K>(executor: &Executor, on_deleted: &OnDeleted<K>, object: &K) -> bool
where
    K: Resource<DynamicType = ()>,
{
    let plan = on_deleted(object);
    if plan.is_empty() {
        return true;
    }
    match executor.confirm_deleted(object).await {
        Ok(false) => true,
        // A dependent that changed is planned again from the newer cache, unless it was released: no reconcile will do it.
        Ok(true) => {
            let result = executor.execute(object, &plan).await;
            result.succeeded() && result.steps.iter().all(|step| !step.is_changed)
        }
        Err(error) => {
            tracing::warn!(name = object.name_any(), "{}", error_chain(&error));
            false
        }
    }
}
