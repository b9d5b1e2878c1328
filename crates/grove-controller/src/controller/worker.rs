//! One reconcile: its span, its metrics, how its result requeues the object, and the delay of its retry.

use std::{error::Error, sync::Arc, time::Duration};

use grove_runtime::{
    api_error::{ApiError, error_chain},
    metrics::{Metrics, ReconcileResult},
};
use kube::{Resource, ResourceExt};
use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty};

use super::{rate_limiter::FailureRateLimiter, work_queue::Key};
use crate::{reconcile_error::ReconcileError, requeue::Requeue};

/// The state that the reconciles of one controller share.
pub(super) struct Worker {
    pub(super) controller: &'static str,
    pub(super) metrics: Metrics,
    pub(super) rate_limiter: Arc<FailureRateLimiter>,
}

/// The outcome of a reconcile: how long it took, and when to enqueue the object again.
pub(super) struct ReconcileOutcome {
    pub(super) key: Key,
    pub(super) took: Duration,
    pub(super) requeue: Requeue,
}

impl Worker {
    /// Runs `reconcile` for the object.
    pub(super) async fn reconcile_one<K, E>(
        &self,
        key: Key,
        object: Arc<K>,
        reconcile: impl Future<Output = Result<Requeue, E>>,
    ) -> ReconcileOutcome
    where
        K: Resource<DynamicType = ()>,
        E: Error + 'static,
    {
        let span = self.span(&*object);
        let attempt = async {
            let mut timer = self.metrics.start_reconcile(self.controller);
            let began = Instant::now();
            let result = reconcile.await;
            let took = began.elapsed();
            timer.set_result(match &result {
                Ok(Requeue::After(_)) => ReconcileResult::RequeueAfter,
                Ok(Requeue::AwaitChange | Requeue::StatusAfter(_)) => ReconcileResult::Success,
                Err(_) => ReconcileResult::Error,
            });
            let requeue = match result {
                Ok(requeue) => {
                    self.rate_limiter.forget(&*object);
                    requeue
                }
                Err(error) => self.requeue_failed(&*object, &error),
            };
            ReconcileOutcome { key, took, requeue }
        };
        attempt.instrument(span).await
    }

    fn span<K: Resource>(&self, object: &K) -> Span {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        tracing::info_span!("reconcile", controller = self.controller, namespace, name, otel.status_code = Empty)
    }

    /// When to enqueue the object after a failure: for its retry, or at an earlier time of the reconcile.
    fn requeue_failed<K: Resource>(&self, object: &K, error: &(dyn Error + 'static)) -> Requeue {
        Span::current().record("otel.status_code", "ERROR");
        let retry_after = retry_after(error);
        let delay = self.rate_limiter.when(object).max(retry_after);
        let (controller, namespace, name) = (self.controller, object.namespace(), object.name_any());
        tracing::warn!(controller, namespace, name, ?delay, "reconciliation failed: {}", error_chain(error));
        let deadline = error.downcast_ref::<ReconcileError>().and_then(|error| error.requeue().delay());
        Requeue::After(deadline.map_or(delay, |deadline| deadline.min(delay)).max(retry_after))
    }
}

/// The server's `Retry-After`, if the error or one of its sources is the answer to a request.
fn retry_after(error: &(dyn Error + 'static)) -> Duration {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(delay) = error.downcast_ref::<ApiError>().and_then(|error| error.retry_after) {
            return delay;
        }
        next = error.source();
    }
    Duration::ZERO
}
