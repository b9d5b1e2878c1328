//! Writes the status of a reconciled object: only a difference, and not more often than the throttle admits.

use std::time::Duration;

use kube::Resource;
use serde::Serialize;

use crate::{
    executor::Executor,
    reconcile_error::ReconcileError,
    status_policy::StatusPolicy,
    status_throttle::{StatusChange, StatusThrottle},
};

/// Writes the statuses of the objects of one controller.
pub struct StatusWriter {
    executor: Executor,
    throttle: StatusThrottle,
}

impl StatusWriter {
    /// A writer without delayed statuses.
    pub fn new(executor: Executor, policy: StatusPolicy) -> Self {
        let throttle = StatusThrottle::new(policy, executor.api_latency());
        Self { executor, throttle }
    }

    /// Writes the status if it differs from `old`. If the throttle delays the write, returns for how long.
    ///
    /// # Errors
    /// If the server rejects the status, or does not respond.
    pub async fn write<K, S>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
        change: StatusChange,
    ) -> Result<Option<Duration>, ReconcileError>
    where
        K: Resource<DynamicType = ()>,
        S: Serialize,
    {
        if let Err(delay) = self.throttle.admit(object, change) {
            return Ok(Some(delay));
        }
        self.executor.patch_status(object, old, new).await.map_err(ReconcileError::WriteStatus)?;
        Ok(None)
    }

    /// Drops the delayed status of a deleted object.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.throttle.forget(object);
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::metrics::Metrics;
    use grove_test_support::mock_api_server::{self, MockResponse, config_map};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::events::EventBroadcaster;

    const POLICY: StatusPolicy = StatusPolicy::DEFAULT;

    fn object() -> ConfigMap {
        serde_json::from_value(config_map("a", 1, "owner")).unwrap()
    }

    /// A writer to an API server that answers with `code`.
    fn writer(code: u16) -> (StatusWriter, mock_api_server::RequestLog) {
        let (client, log) = mock_api_server::client(move |request| match code {
            200 => MockResponse::ok(request.body.clone()),
            code => MockResponse::error(code, "InternalError"),
        });
        let executor = Executor::new(client, EventBroadcaster::discarding(), Metrics::new().unwrap());
        (StatusWriter::new(executor, POLICY), log)
    }

    fn status(ready: i32) -> Value {
        json!({ "ready": ready })
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_written_when_the_throttle_admits_it() {
        let (writer, log) = writer(200);
        let write =
            async |ready| writer.write(&object(), Some(&status(0)), &status(ready), StatusChange::Progress).await;
        assert_eq!(write(1).await.unwrap(), Some(POLICY.progress_interval));
        assert!(log.requests().is_empty());
        tokio::time::advance(POLICY.progress_interval).await;
        assert_eq!(write(2).await.unwrap(), None);
        assert_eq!(log.requests().len(), 1);
        assert_eq!(log.requests()[0].body["status"], status(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_significant_change_is_written_at_once_and_an_equal_status_never() {
        let (writer, log) = writer(200);
        for (new, requests) in [(status(1), 1), (status(0), 1)] {
            let delay = writer.write(&object(), Some(&status(0)), &new, StatusChange::Significant).await.unwrap();
            assert_eq!((delay, log.requests().len()), (None, requests));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_fails_the_reconcile() {
        let (writer, _log) = writer(500);
        let result = writer.write(&object(), None, &status(1), StatusChange::Significant).await;
        assert!(matches!(result, Err(ReconcileError::WriteStatus(_))), "{result:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_of_a_deleted_object_is_dropped() {
        let (writer, _log) = writer(200);
        let write = async || writer.write(&object(), None, &status(1), StatusChange::Progress).await;
        let delay = write().await.unwrap();
        tokio::time::advance(POLICY.progress_interval / 2).await;
        writer.forget(&object());
        assert_eq!(write().await.unwrap(), delay, "a new interval begins");
    }
}
