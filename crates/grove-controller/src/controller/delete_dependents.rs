//! Deletes the dependents of deleted objects, after a live GET has confirmed the deletion ([`Executor::confirm_deleted`]).
//! Kubernetes' garbage collector would do so too, but later. The reconcile of an owner that is still terminating
//! deletes its children: see `children/child_kinds.rs`.
//!
//! A plan has a bounded number of steps. If it lacks some of the dependents, it has the time of the next plan.
//!
//! If the deletion orphans its dependents, the plan is empty, and they stay: see [`crate::orphan_deletions`].

use std::sync::Arc;

use futures::{StreamExt, channel::mpsc};
use grove_runtime::{api_error::error_chain, backoff::Backoff};
use kube::{Resource, ResourceExt};

use crate::{executor::Executor, manager::Manager, plan::Plan};

/// The dependents of this many deleted objects are deleted concurrently.
const CONCURRENCY: usize = 32;
/// After this many further attempts without progress the dependents are left to Kubernetes' garbage collector.
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
    };
    deleted.for_each_concurrent(CONCURRENCY, delete).await;
}

async fn delete_dependents_of<K>(manager: &Manager, executor: &Executor, on_deleted: &OnDeleted<K>, object: &K)
where
    K: Resource<DynamicType = ()>,
{
    let (mut backoff, mut attempts, mut last) = (Backoff::for_objects(), 0, Vec::<Option<String>>::new());
    while attempts < MAX_ATTEMPTS {
        let plan = on_deleted(object);
        let dependents = uids(&plan);
        // If the plan has the dependents of the last one, the cache is stale, or the last attempt deleted nothing.
        let has_progress = dependents != last;
        attempts = if has_progress { 0 } else { attempts + 1 };
        let delay = match try_delete_dependents(executor, &plan, object).await {
            Attempt::Done => return,
            Attempt::HasMore if has_progress => {
                backoff = Backoff::for_objects();
                plan.continue_after.unwrap_or_else(|| backoff.next_delay())
            }
            Attempt::HasMore | Attempt::Failed => backoff.next_delay(),
        };
        last = dependents;
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = manager.shutdown().cancelled() => return,
        }
    }
}

/// The result of one attempt to delete the dependents of an object.
enum Attempt {
    /// The dependents are deleted, or the object exists after all.
    Done,
    /// No delete failed, but the plan did not have all dependents, or some of them changed before the delete.
    HasMore,
    /// The object could not be confirmed as deleted, or a delete failed.
    Failed,
}

async fn try_delete_dependents<K>(executor: &Executor, plan: &Plan, object: &K) -> Attempt
where
    K: Resource<DynamicType = ()>,
{
    if plan.is_empty() {
        return Attempt::Done;
    }
    match executor.confirm_deleted(object).await {
        Ok(false) => Attempt::Done,
        Ok(true) => {
            let result = executor.execute(object, plan).await;
            // A dependent that changed is planned again from the newer cache, unless it was released: no reconcile will do it.
            let has_more = plan.continue_after.is_some() || result.steps.iter().any(|step| step.is_changed);
            match (result.succeeded(), has_more) {
                (false, _) => Attempt::Failed,
                (true, true) => Attempt::HasMore,
                (true, false) => Attempt::Done,
            }
        }
        Err(error) => {
            tracing::warn!(name = object.name_any(), "{}", error_chain(&error));
            Attempt::Failed
        }
    }
}

/// The uids of the dependents that the plan deletes.
fn uids(plan: &Plan) -> Vec<Option<String>> {
    plan.steps().map(|step| step.target().uid.clone()).collect()
}
