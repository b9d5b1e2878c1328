//! Patches of shared objects: the reconciles of many owners patch parts of one object, as all cliques of a gang do.
//!
//! The patches of one shared object are sent one at a time. Otherwise the API server would let one of the concurrent patches succeed and
//! apply all others again, so the costs would grow with the square of their number. Patches that arrive meanwhile are queued, and a task
//! sends all of them as one request. After a request it waits in proportion to the time that the request took: the patches of a large object
//! are expensive, so it combines more of them. The reconcile of a queued patch does not wait: otherwise the cliques of one large gang would
//! occupy all workers. If its patch fails, the owner is triggered ([`Executor::failed_patches`]).
//!
//! A combined patch contains the operations of all its patches, each with its tests. It has the same effect as these patches one after
//! the other. If one of them fails, the API server rejects the request as a whole, so it is divided until the failed ones are alone.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use futures::{
    Stream,
    channel::mpsc::{UnboundedSender, unbounded},
};
use grove_runtime::{api_error::ApiError, backoff::Backoff};
use json_patch::{Patch, PatchOperation};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use super::{Executor, execution_result::Effect};
use crate::plan::{PatchBody, Target};

/// A request has at most this many operations of queued patches. The API server allows 10,000.
const MAX_OPERATIONS: usize = 5000;
/// A request has at most this many bytes of queued patches. The API server allows 3 MB.
const MAX_BYTES: usize = 1024 * 1024;

/// The pause after a request, as a multiple of its duration: the patches of one object take at most a fifth of the time.
const PAUSE_FACTOR: u32 = 4;
/// The longest pause after a request. During an outage, the duration contains all retries.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Group, kind, namespace and name of an object.
type ObjectKey = (String, String, Option<String>, String);

/// The shared objects with a patch in flight, and their queued patches. A clone shares them. An entry is removed with the response to the
/// last request.
#[derive(Clone, Default)]
pub(super) struct PatchQueues {
    objects: Arc<Mutex<BTreeMap<ObjectKey, Vec<QueuedPatch>>>>,
    failures: Arc<Mutex<Vec<UnboundedSender<Target>>>>,
}

/// A patch that waits for the response to the request before it.
struct QueuedPatch {
    /// The reconcile of this object planned the patch.
    owner: Target,
    patch: Patch,
    bytes: usize,
}

impl PatchQueues {
    /// The number of shared objects with a patch in flight.
    pub(super) fn len(&self) -> usize {
        self.objects.lock().len()
    }

    /// Whether no patch of the object is in flight, so that the caller sends this one. Otherwise the patch is queued. It replaces an earlier
    /// patch of the owner with the same operations on the same paths.
    fn begin_or_queue(&self, owner: &Target, target: &Target, patch: &Patch) -> bool {
        let mut objects = self.objects.lock();
        let key = object_key(target);
        let Some(queued) = objects.get_mut(&key) else {
            objects.insert(key, vec![]);
            return true;
        };
        let bytes = serde_json::to_vec(patch).map_or(MAX_BYTES, |text| text.len());
        let new = QueuedPatch { owner: owner.clone(), patch: patch.clone(), bytes };
        match queued.iter_mut().find(|queued| queued.owner == *owner && has_same_paths(&queued.patch, patch)) {
            Some(earlier) => *earlier = new,
            None => queued.push(new),
        }
        false
    }

    /// The patches of the next request; empty if no patch is queued. Then the object has no patch in flight any more.
    fn next_batch(&self, target: &Target) -> Vec<QueuedPatch> {
        let (mut objects, key) = (self.objects.lock(), object_key(target));
        let Some(queued) = objects.get_mut(&key) else { return vec![] };
        if queued.is_empty() {
            objects.remove(&key);
            return vec![];
        }
        let rest = queued.split_off(batch_size(queued));
        mem::replace(queued, rest)
    }

    fn report_failure(&self, owner: &Target) {
        self.failures.lock().retain(|failures| failures.unbounded_send(owner.clone()).is_ok());
    }
}

impl Executor {
    /// The owners of queued patches that failed, except those that another client superseded. Subscribe once per controller.
    pub fn failed_patches(&self) -> impl Stream<Item = Target> + Send + use<> {
        let (sender, failed) = unbounded();
        self.patch_queues.failures.lock().push(sender);
        failed
    }

    /// The number of shared objects with a patch in flight.
    pub(crate) fn patched_objects(&self) -> usize {
        self.patch_queues.len()
    }

    /// Sends the patch, or queues it behind the patch of the object that is in flight.
    pub(super) async fn patch_shared(
        &self,
        owner: &Target,
        target: &Target,
        patch: &Patch,
    ) -> Result<Effect, ApiError> {
        if !self.patch_queues.begin_or_queue(owner, target, patch) {
            return Ok(Effect::Queued);
        }
        // Its end, also by the end of the reconcile, sends the queued patches.
        let _in_flight = InFlight { executor: self, target };
        self.send_patch(target, &PatchBody::Json(patch.clone())).await
    }

    /// Sends this batch of queued patches of an object, and further ones until no patch is queued.
    async fn send_queued(self, target: Target, mut batch: Vec<QueuedPatch>) {
        while !batch.is_empty() {
            let started = Instant::now();
            for (owner, result) in self.send_batch(&target, &batch).await {
                let Err(error) = result else { continue };
                // After a conflict (409), the owner plans the patch again.
                let is_obsolete = error.code == 404 || error.is_failed_test;
                if !is_obsolete && error.reason != ApiError::NOT_LEADING {
                    tracing::warn!(%target, namespace = target.namespace, %owner, "queued patch failed: {error}");
                    self.patch_queues.report_failure(owner);
                }
            }
            sleep(started.elapsed().saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE)).await;
            batch = self.patch_queues.next_batch(&target);
        }
    }

    /// Sends the patches as one request. If the API server rejects it because of its content, sends both halves on their own. Returns the
    /// owner and the result of each patch.
    async fn send_batch<'a>(
        &self,
        target: &Target,
        batch: &'a [QueuedPatch],
    ) -> Vec<(&'a Target, Result<Effect, ApiError>)> {
        let (mut results, mut pending) = (Vec::with_capacity(batch.len()), vec![batch]);
        while let Some(part) = pending.pop() {
            let operations = part.iter().flat_map(|queued| queued.patch.0.iter().cloned()).collect();
            let result = self.send_until_answered(target, &PatchBody::Json(Patch(operations))).await;
            let concerns_content = result.as_ref().is_err_and(|error| matches!(error.code, 400 | 403 | 413 | 422));
            if concerns_content && part.len() > 1 {
                let (first, second) = part.split_at(part.len() / 2);
                pending.extend([second, first]);
            } else {
                results.extend(part.iter().map(|queued| (&queued.owner, result.clone())));
            }
        }
        results
    }

    /// Sends the patch again with backoff while the API server answers no request.
    async fn send_until_answered(&self, target: &Target, patch: &PatchBody) -> Result<Effect, ApiError> {
        let mut backoff = Backoff::for_objects();
        loop {
            match self.send_patch(target, patch).await {
                Err(error) if error.is_outage() && error.reason != ApiError::NOT_LEADING => {
                    sleep(backoff.next_delay()).await;
                }
                answered => return answered,
            }
        }
    }
}

/// A patch of a shared object that a reconcile sends.
struct InFlight<'a> {
    executor: &'a Executor,
    target: &'a Target,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let Self { executor, target } = *self;
        let batch = executor.patch_queues.next_batch(target);
        if batch.is_empty() {
            return;
        }
        // While the process ends, there is no runtime, and the next leader plans these patches again.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(executor.clone().send_queued(target.clone(), batch)));
        }
    }
}

fn object_key(target: &Target) -> ObjectKey {
    let Target { resource, namespace, name, uid: _ } = target;
    (resource.group.clone(), resource.kind.clone(), namespace.clone(), name.clone())
}

fn has_same_paths(first: &Patch, second: &Patch) -> bool {
    let is_same = |first: &PatchOperation, second: &PatchOperation| {
        mem::discriminant(first) == mem::discriminant(second) && first.path() == second.path()
    };
    first.0.len() == second.0.len() && first.0.iter().zip(&second.0).all(|(first, second)| is_same(first, second))
}

/// The number of queued patches that one request contains: at least one.
fn batch_size(queued: &[QueuedPatch]) -> usize {
    let (mut operations, mut bytes) = (0_usize, 0_usize);
    let fits = |queued: &&QueuedPatch| {
        operations = operations.saturating_add(queued.patch.0.len());
        bytes = bytes.saturating_add(queued.bytes);
        operations <= MAX_OPERATIONS && bytes <= MAX_BYTES
    };
    queued.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests;
