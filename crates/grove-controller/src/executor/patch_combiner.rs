//! JSON patches of one object are sent one at a time, and those that wait meanwhile are sent as one request.
//!
//! The reconciles of many owners may patch parts of one object, as all cliques of a gang do. Without an order, the API server lets
//! one of the concurrent patches succeed and applies all others again, so the costs grow with the square of their number.
//!
//! A combined patch contains the operations of all its patches, each with its tests. It has the same effect as these patches one after
//! the other. If one of them fails, the API server rejects the request as a whole, so it is divided until the failed ones are alone.

use std::{collections::BTreeMap, mem, sync::Arc};

use grove_runtime::api_error::ApiError;
use json_patch::Patch;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::execution_result::Effect;
use crate::plan::Target;

/// A request has at most this many patches. The API server allows 10,000 operations and 3 MB.
const MAX_PATCHES: usize = 500;
/// A request has at most this many operations of patches that waited.
const MAX_OPERATIONS: usize = 5000;
/// A request has at most this many bytes of patches that waited.
const MAX_BYTES: usize = 1024 * 1024;

/// Group, kind, namespace and name of an object.
type ObjectKey = (String, String, Option<String>, String);

/// The objects with a patch in flight, and the patches that wait for its response. A clone shares them. An entry is removed with the last
/// response.
#[derive(Clone, Default)]
pub(super) struct PatchCombiner {
    objects: Arc<Mutex<BTreeMap<ObjectKey, Vec<WaitingPatch>>>>,
}

struct WaitingPatch {
    patch: Patch,
    bytes: usize,
    turn: oneshot::Sender<Turn>,
}

/// What a patch that waited learns.
enum Turn {
    /// It sends the next request, together with these other patches.
    Send(InFlight, Vec<WaitingPatch>),
    /// It was sent, with this result.
    Sent(Result<Effect, ApiError>),
}

impl PatchCombiner {
    /// Sends the patch, or waits until it was sent together with other patches of the object.
    pub(super) async fn patch(
        &self,
        target: &Target,
        patch: &Patch,
        send: impl AsyncFn(Patch) -> Result<Effect, ApiError>,
    ) -> Result<Effect, ApiError> {
        let key = object_key(target);
        let (_in_flight, others) = match self.wait_for_turn(&key, patch) {
            None => (InFlight { combiner: self.clone(), key }, vec![]),
            Some(turn) => match turn.await {
                Ok(Turn::Send(in_flight, others)) => (in_flight, others),
                Ok(Turn::Sent(result)) => return result,
                Err(_) => return Err(cancelled()),
            },
        };
        let (others, turns): (Vec<_>, Vec<_>) = others.into_iter().map(|other| (other.patch, other.turn)).unzip();
        let patches: Vec<&Patch> = [patch].into_iter().chain(&others).collect();
        let mut results = send_divided(&patches, send).await.into_iter();
        let own = results.next().unwrap_or_else(|| Err(cancelled()));
        for (turn, result) in turns.into_iter().zip(results) {
            // The reconcile of this patch was dropped meanwhile.
            drop(turn.send(Turn::Sent(result)));
        }
        own
    }

    /// The number of objects with a patch in flight.
    pub(super) fn len(&self) -> usize {
        self.objects.lock().len()
    }

    /// `None` if no patch of the object is in flight.
    fn wait_for_turn(&self, key: &ObjectKey, patch: &Patch) -> Option<oneshot::Receiver<Turn>> {
        let mut objects = self.objects.lock();
        let Some(waiting) = objects.get_mut(key) else {
            objects.insert(key.clone(), vec![]);
            return None;
        };
        let (turn, receiver) = oneshot::channel();
        let bytes = serde_json::to_vec(patch).map_or(MAX_BYTES, |text| text.len());
        waiting.push(WaitingPatch { patch: patch.clone(), bytes, turn });
        Some(receiver)
    }

    /// The patches of the next request; `None` if no patch waits. Then the object has no patch in flight any more.
    fn next_batch(&self, key: &ObjectKey) -> Option<Vec<WaitingPatch>> {
        let mut objects = self.objects.lock();
        let waiting = objects.get_mut(key)?;
        if waiting.is_empty() {
            objects.remove(key);
            return None;
        }
        let rest = waiting.split_off(batch_size(waiting));
        Some(mem::replace(waiting, rest))
    }
}

/// A request for an object. Its end, also by the end of its reconcile, lets the first of the waiting patches send the next one.
struct InFlight {
    combiner: PatchCombiner,
    key: ObjectKey,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(mut batch) = self.combiner.next_batch(&self.key) else { return };
        let next = Self { combiner: self.combiner.clone(), key: self.key.clone() };
        let first = batch.remove(0);
        if let Err(Turn::Send(_next, others)) = first.turn.send(Turn::Send(next, batch)) {
            // The reconcile of the first patch was dropped. The end of `_next` gives the others their turn.
            if let Some(waiting) = self.combiner.objects.lock().get_mut(&self.key) {
                drop(waiting.splice(..0, others));
            }
        }
    }
}

/// The number of waiting patches that one request contains: at least one.
fn batch_size(waiting: &[WaitingPatch]) -> usize {
    let (mut operations, mut bytes) = (0_usize, 0_usize);
    let fits = |patch: &&WaitingPatch| {
        operations = operations.saturating_add(patch.patch.0.len());
        bytes = bytes.saturating_add(patch.bytes);
        operations <= MAX_OPERATIONS && bytes <= MAX_BYTES
    };
    waiting.iter().take(MAX_PATCHES).take_while(fits).count().max(1)
}

/// Sends the patches as one request. If the API server rejects it because of its content, sends both halves on their own. Returns the
/// result of each patch.
async fn send_divided(
    patches: &[&Patch],
    send: impl AsyncFn(Patch) -> Result<Effect, ApiError>,
) -> Vec<Result<Effect, ApiError>> {
    let (mut results, mut pending) = (Vec::with_capacity(patches.len()), vec![patches]);
    while let Some(batch) = pending.pop() {
        let result = send(Patch(batch.iter().flat_map(|patch| patch.0.iter().cloned()).collect())).await;
        let concerns_content = result.as_ref().is_err_and(|error| matches!(error.code, 400 | 403 | 413 | 422));
        if concerns_content && batch.len() > 1 {
            let (first, second) = batch.split_at(batch.len() / 2);
            pending.extend([second, first]);
        } else {
            results.extend(batch.iter().map(|_| result.clone()));
        }
    }
    results
}

fn object_key(target: &Target) -> ObjectKey {
    let Target { resource, namespace, name, uid: _ } = target;
    (resource.group.clone(), resource.kind.clone(), namespace.clone(), name.clone())
}

fn cancelled() -> ApiError {
    ApiError::new(0, "Cancelled", "the reconcile that sent this patch together with others was cancelled")
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::join_all};
    use grove_test_support::mock_api_server::config_map;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use tokio::sync::Notify;

    use super::*;

    fn target(name: &str) -> Target {
        Target::of(&serde_json::from_value::<ConfigMap>(config_map(name, 1, "owner")).unwrap())
    }

    /// A patch with a test and a change.
    fn patch(number: usize) -> Patch {
        let at = format!("/groups/{number}");
        let operations = json!([{ "op": "test", "path": "/metadata/uid", "value": "u" }, { "op": "replace", "path": at, "value": 1 }]);
        serde_json::from_value(operations).unwrap()
    }

    /// An API server that holds each response until it may answer, and records the number of patches per request.
    #[derive(Default)]
    struct Server {
        requests: Mutex<Vec<usize>>,
        may_answer: Notify,
    }

    impl Server {
        async fn send(&self, request: Patch, rejected: &str) -> Result<Effect, ApiError> {
            self.requests.lock().push(request.0.len() / 2);
            self.may_answer.notified().await;
            let is_rejected = json!(request).to_string().contains(rejected);
            if is_rejected { Err(ApiError::new(422, "Invalid", "no")) } else { Ok(Effect::Applied) }
        }

        /// Sends `count` patches of one object concurrently, of which those with `rejected` in their text are rejected. Returns the
        /// positions of the failed patches.
        async fn patch_concurrently(&self, count: usize, rejected: &str) -> Vec<usize> {
            let (combiner, object) = (PatchCombiner::default(), target("a"));
            let patches: Vec<_> = (0..count).map(patch).collect();
            let all = join_all(
                patches
                    .iter()
                    .map(|patch| combiner.patch(&object, patch, async |request| self.send(request, rejected).await)),
            );
            let answers = async {
                loop {
                    self.may_answer.notify_one();
                    tokio::task::yield_now().await;
                }
            };
            let results = tokio::select! {
                biased;
                results = all => results,
                () = answers => unreachable!("the server answers for ever"),
            };
            assert_eq!(combiner.len(), 0, "no patch is in flight");
            results.iter().enumerate().filter(|(_, result)| result.is_err()).map(|(number, _)| number).collect()
        }
    }

    #[tokio::test]
    async fn patches_that_wait_are_sent_as_one_request() {
        let server = Server::default();
        assert_eq!(server.patch_concurrently(1200, "nothing").await, Vec::<usize>::new());
        assert_eq!(*server.requests.lock(), [1, 500, 500, 199]);
    }

    #[tokio::test]
    async fn a_rejected_patch_fails_alone() {
        let server = Server::default();
        assert_eq!(server.patch_concurrently(10, "groups/3").await, [3]);
        assert_eq!(*server.requests.lock(), [1, 9, 4, 2, 2, 1, 1, 5], "the halves of a rejected request");
    }

    #[tokio::test]
    async fn patches_of_different_objects_do_not_wait_for_each_other() {
        let (combiner, server, patch) = (PatchCombiner::default(), Server::default(), patch(0));
        let objects = [target("a"), target("b")];
        let send = async |request| server.send(request, "nothing").await;
        let mut pending = Box::pin(join_all(objects.iter().map(|object| combiner.patch(object, &patch, send))));
        assert!(pending.as_mut().now_or_never().is_none());
        assert_eq!(*server.requests.lock(), [1, 1]);
    }

    #[tokio::test]
    async fn a_dropped_reconcile_passes_its_turn() {
        let (combiner, server, object) = (PatchCombiner::default(), Server::default(), target("a"));
        let patches = [patch(0), patch(1), patch(2)];
        let send = async |request| server.send(request, "nothing").await;
        let [mut first, mut second, mut third] =
            [&patches[0], &patches[1], &patches[2]].map(|patch| Box::pin(combiner.patch(&object, patch, send)));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(second);
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(*server.requests.lock(), [1, 1], "the third patch is in flight");
        server.may_answer.notify_one();
        assert_eq!(third.await, Ok(Effect::Applied));
        assert_eq!(combiner.len(), 0);
    }

    #[test]
    fn a_request_has_limits() {
        let waiting = |operations: usize, bytes: usize| {
            let patch = Patch(patch(0).0.into_iter().cycle().take(operations).collect());
            WaitingPatch { patch, bytes, turn: oneshot::channel().0 }
        };
        let size = |operations, bytes| batch_size(&(0..600).map(|_| waiting(operations, bytes)).collect::<Vec<_>>());
        assert_eq!([size(1, 1), size(100, 1), size(1, MAX_BYTES / 4)], [MAX_PATCHES, MAX_OPERATIONS / 100, 4]);
        assert_eq!(size(1, 2 * MAX_BYTES), 1, "a large patch is sent alone");
    }
}
