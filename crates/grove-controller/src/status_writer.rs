//! The last step of a reconcile: the status of the reconciled object. It is written only if it differs, not more often than the
//! limiter admits, and not from stale caches. A conflict is no error: its watch event triggers the next reconcile
//! ([`Executor::patch_status`]). Why a status is late: see [`status_limiter`](crate::status_limiter).

use std::time::Duration;

use kube::{Resource, core::object::HasStatus};
use serde::Serialize;

use crate::{
    executor::{self, ExecutionResult, Executor},
    expectations::PendingCreates,
    plan::Plan,
    reconcile_error::ReconcileError,
    requeue::Requeue,
    status_limiter::{StatusChange, StatusLimiter},
    status_patch::StatusOwnership,
};

/// A plan after its execution, with everything that decides whether a status may be written.
#[derive(Debug)]
pub struct ExecutedPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The results of its steps.
    pub result: ExecutionResult,
    /// The creates with watch events that were pending before the execution; `None` for a kind without children.
    pub pending_creates: Option<&'a PendingCreates>,
    /// Whether the object gets no status, because it is terminating or is about to be deleted with its owner.
    pub omits_status: bool,
}

/// Writes the statuses of the objects of one controller.
pub struct StatusWriter {
    executor: Executor,
    limiter: StatusLimiter,
    ownership: StatusOwnership,
}

impl StatusWriter {
    /// A writer that has not written any status.
    pub fn new(executor: Executor) -> Self {
        let limiter = StatusLimiter::new(executor.write_latency());
        Self { executor, limiter, ownership: StatusOwnership::default() }
    }

    /// The same writer with another interval of minor changes than [`MIN_INTERVAL`](crate::status_limiter::MIN_INTERVAL).
    #[must_use]
    pub fn with_min_interval(self, min_interval: Duration) -> Self {
        Self { limiter: self.limiter.with_min_interval(min_interval), ..self }
    }

    /// The same writer for a kind whose statuses have this ownership. Default: [`StatusOwnership::Exclusive`].
    #[must_use]
    pub fn with_ownership(self, ownership: StatusOwnership) -> Self {
        Self { ownership, ..self }
    }

    /// Writes the status after a plan was executed, and returns when to reconcile the object again. `status` computes the new
    /// status and how it differs from that of the object.
    ///
    /// A terminating object gets no status. While watch events of created or deleted children are pending, the caches are
    /// stale and the status is withheld for a bounded time. Usually these events trigger the next reconcile before.
    ///
    /// # Errors
    /// The error of the status write, unless it is a conflict or the object no longer exists; otherwise the first failed write
    /// of the plan. Either one has the time of the next reconcile, too.
    pub async fn write_after<K>(
        &self,
        object: &K,
        executed: ExecutedPlan<'_>,
        status: impl FnOnce(&ExecutionResult) -> (K::Status, StatusChange),
    ) -> Result<Requeue, ReconcileError>
    where
        K: Resource<DynamicType = ()> + HasStatus,
        K::Status: Serialize + PartialEq + Default,
    {
        let ExecutedPlan { plan, result, pending_creates, omits_status } = executed;
        let has_pending_creates = pending_creates.is_some_and(|pending| !pending.is_empty());
        let is_stale = result.has_pending_watch_events() || has_pending_creates;
        let stale_delay = self.limiter.withhold(object, is_stale && !omits_status);
        let (requeue, written) = if omits_status {
            self.forget(object);
            (Requeue::AwaitChange, Ok(()))
        } else if let Some(delay) = stale_delay {
            (Requeue::StatusAfter(delay), Ok(()))
        } else {
            let (status, change) = status(&result);
            match self.write(object, object.status(), &status, change).await {
                Ok(delay) => (delay.map_or(Requeue::AwaitChange, Requeue::StatusAfter), Ok(())),
                Err(error) => (Requeue::AwaitChange, Err(error)),
            }
        };
        let continue_after = plan.continue_after.filter(|_| result.succeeded());
        let requeue = requeue.or_at(plan.requeue_after).or_at(continue_after);
        written.map_err(|source| ReconcileError::WriteStatus { source, requeue })?;
        result.into_result().map_err(|source| ReconcileError::Execute { source, requeue })?;
        Ok(requeue)
    }

    /// Writes the status if it differs from `old`. An empty status is like none: a service that only writes conditions of a shared status
    /// may have none to write. If the limiter delays the write, returns how long.
    async fn write<K, S>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
        change: StatusChange,
    ) -> Result<Option<Duration>, executor::Error>
    where
        K: Resource<DynamicType = ()>,
        S: Serialize + PartialEq + Default,
    {
        if old.map_or_else(|| *new == S::default(), |old| old == new) {
            self.limiter.end_wait(object);
            return Ok(None);
        }
        if let Err(delay) = self.limiter.admit(object, change) {
            return Ok(Some(delay));
        }
        let value = |status| serde_json::to_value(status).map_err(executor::Error::Serialize);
        if self.executor.patch_status(object, &value(old)?, &value(Some(new))?, self.ownership).await? {
            self.limiter.record_write(object);
        }
        Ok(None)
    }

    /// The number of objects about which the limiter has an entry.
    pub fn statuses(&self) -> usize {
        self.limiter.len()
    }

    /// Drops everything about an object that was deleted.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.limiter.forget(object);
    }
}

/// A count as a field of the API; a count beyond the range of the field is its maximum.
pub fn as_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use grove_runtime::{api_error::ApiError, metrics::Metrics};
    use grove_test_support::mock_api_server::{self, MockResponse, config_map};
    use k8s_openapi::{
        NamespaceResourceScope, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        events::EventBroadcaster, executor::StepResult, expectations::ChildKey, plan::Target,
        status_limiter::MIN_INTERVAL,
    };

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
        (StatusWriter::new(executor), log)
    }

    fn status(ready: i32) -> Value {
        json!({ "ready": ready })
    }

    #[test]
    fn a_count_beyond_the_range_is_the_maximum() {
        assert_eq!([0, 7, usize::MAX].map(as_count), [0, 7, i32::MAX]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_minor_change_is_written_when_the_limiter_admits_it() {
        let (writer, log) = writer(200);
        let write = async |ready| writer.write(&object(), Some(&status(0)), &status(ready), StatusChange::Minor).await;
        assert_eq!(write(1).await.unwrap(), None);
        assert_eq!(write(2).await.unwrap(), Some(MIN_INTERVAL));
        assert_eq!(log.requests().len(), 1);
        tokio::time::advance(MIN_INTERVAL).await;
        assert_eq!(write(3).await.unwrap(), None);
        assert_eq!(log.requests()[1].body["status"], status(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_significant_change_is_written_at_once_and_an_equal_status_never() {
        let (writer, log) = writer(200);
        for (new, requests) in [(1, 1), (2, 2), (0, 2)] {
            let delay =
                writer.write(&object(), Some(&status(0)), &status(new), StatusChange::Significant).await.unwrap();
            assert_eq!((delay, log.requests().len()), (None, requests));
        }
    }

    #[derive(Default, PartialEq, Serialize)]
    struct CountStatus {
        #[serde(skip_serializing_if = "Option::is_none")]
        ready: Option<i32>,
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_status_is_not_written_to_an_object_without_status() {
        let (writer, log) = writer(200);
        let write = async |old: Option<CountStatus>, ready| {
            let new = CountStatus { ready };
            writer.write(&object(), old.as_ref(), &new, StatusChange::Significant).await.unwrap();
            log.requests().len()
        };
        assert_eq!(write(None, None).await, 0);
        assert_eq!(write(None, Some(0)).await, 1, "a count of zero is no empty status");
        assert_eq!(write(Some(CountStatus { ready: Some(0) }), None).await, 2, "the status becomes empty");
    }

    fn created(code: Option<u16>) -> ExecutionResult {
        let result = code.map_or(Ok(()), |code| Err(ApiError::new(code, "Forbidden", "no")));
        let target = Target { uid: Some("uid-a".into()), ..Target::of(&object()) };
        ExecutionResult { steps: vec![StepResult::new("s", "create", target, result)] }
    }

    /// An object with a status.
    struct Example {
        metadata: ObjectMeta,
        status: Option<Value>,
    }

    impl k8s_openapi::Resource for Example {
        const API_VERSION: &'static str = "example.io/v1";
        const GROUP: &'static str = "example.io";
        const KIND: &'static str = "Example";
        const VERSION: &'static str = "v1";
        const URL_PATH_SEGMENT: &'static str = "examples";
        type Scope = NamespaceResourceScope;
    }

    impl k8s_openapi::Metadata for Example {
        type Ty = ObjectMeta;
        fn metadata(&self) -> &ObjectMeta {
            &self.metadata
        }
        fn metadata_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    impl HasStatus for Example {
        type Status = Value;
        fn status(&self) -> Option<&Value> {
            self.status.as_ref()
        }
        fn status_mut(&mut self) -> &mut Option<Value> {
            &mut self.status
        }
    }

    /// A reconcile that computes another status: the result of its plan, whether creates were pending before, and whether the object
    /// is terminating. Returns when to reconcile again, and the number of requests.
    async fn reconcile(
        (writer, log): &(StatusWriter, mock_api_server::RequestLog),
        result: ExecutionResult,
        pending: bool,
        omits_status: bool,
    ) -> (Option<Requeue>, usize) {
        let example = Example { metadata: object().metadata, status: None };
        let child = ChildKey { kind: "ConfigMap".to_owned(), name: "a".to_owned() };
        let pending = PendingCreates { children: pending.then_some(child).into_iter().collect() };
        let (plan, pending_creates) = (Plan::new(), Some(&pending));
        let executed = ExecutedPlan { plan: &plan, result, pending_creates, omits_status };
        let status = |_: &ExecutionResult| (status(1), StatusChange::Significant);
        let (before, requeue) = (log.requests().len(), writer.write_after(&example, executed, status).await);
        (requeue.ok(), log.requests().len() - before)
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_waits_for_watch_events_and_a_terminating_object_gets_none() {
        let writer = writer(200);
        let none = ExecutionResult::default;
        assert_eq!(reconcile(&writer, none(), false, false).await, (Some(Requeue::AwaitChange), 1));
        assert_eq!(reconcile(&writer, none(), false, true).await, (Some(Requeue::AwaitChange), 0));
        assert_eq!(reconcile(&writer, created(None), true, true).await, (Some(Requeue::AwaitChange), 0));
        assert_eq!(reconcile(&writer, none(), true, true).await, (Some(Requeue::AwaitChange), 0));
        let bound = Requeue::StatusAfter(Duration::from_secs(10));
        assert_eq!(reconcile(&writer, created(None), false, false).await, (Some(bound), 0));
        assert_eq!(
            reconcile(&writer, created(Some(403)), false, false).await,
            (None, 1),
            "the status reports the failure"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_is_withheld_for_a_bounded_time_after_its_first_reconcile() {
        let (writer, none) = (writer(200), ExecutionResult::default);
        let half = Duration::from_secs(5);
        let bound = Requeue::StatusAfter(half * 2);
        assert_eq!(reconcile(&writer, created(None), false, false).await, (Some(bound), 0));
        tokio::time::advance(half).await;
        for result in [none(), created(None)] {
            assert_eq!(reconcile(&writer, result, true, false).await, (Some(Requeue::StatusAfter(half)), 0));
        }
        tokio::time::advance(half).await;
        assert_eq!(reconcile(&writer, created(None), true, false).await, (Some(Requeue::AwaitChange), 1));
        assert_eq!(reconcile(&writer, none(), true, false).await, (Some(bound), 0), "the bound begins again");
        tokio::time::advance(half).await;
        writer.0.forget(&object());
        assert_eq!(reconcile(&writer, none(), true, false).await, (Some(bound), 0), "the object is new");
    }

    /// A rejected create also has a status write of its own, which succeeds or fails.
    #[tokio::test(start_paused = true)]
    async fn a_failed_reconcile_keeps_its_deadlines() {
        let (deadline, example) = (Duration::from_secs(7), Example { metadata: object().metadata, status: None });
        let plan = Plan::new().requeue_after(deadline);
        for code in [200, 500] {
            let (writer, _log) = writer(code);
            let result = created(Some(403));
            let executed = ExecutedPlan { plan: &plan, result, pending_creates: None, omits_status: false };
            let status = |_: &ExecutionResult| (status(1), StatusChange::Significant);
            let error = writer.write_after(&example, executed, status).await.unwrap_err();
            assert_eq!(error.requeue(), Requeue::After(deadline), "{error}");
            assert_eq!(matches!(error, ReconcileError::WriteStatus { .. }), code == 500);
        }
        let (writer, _log) = writer(200);
        writer.limiter.record_write(&example);
        let (plan, result) = (Plan::new(), created(Some(403)));
        let executed = ExecutedPlan { plan: &plan, result, pending_creates: None, omits_status: false };
        let minor = |_: &ExecutionResult| (status(1), StatusChange::Minor);
        let error = writer.write_after(&example, executed, minor).await.unwrap_err();
        assert_eq!(error.requeue(), Requeue::StatusAfter(MIN_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_is_continued_after_a_success_and_not_after_a_failure() {
        let (plan, delay) = (Plan::new().continue_after(Some(Duration::from_secs(1))), Duration::from_secs(1));
        let example = Example { metadata: object().metadata, status: None };
        for (code, expected) in [(None, Requeue::After(delay)), (Some(500), Requeue::AwaitChange)] {
            let (writer, _log) = writer(200);
            let result = created(code);
            let executed = ExecutedPlan { plan: &plan, result, pending_creates: None, omits_status: false };
            let status = |_: &ExecutionResult| (status(1), StatusChange::Significant);
            let requeue = writer.write_after(&example, executed, status).await;
            assert_eq!(requeue.unwrap_or_else(|error| error.requeue()), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_fails_the_reconcile() {
        let (writer, _log) = writer(500);
        let result = writer.write(&object(), None, &status(1), StatusChange::Significant).await;
        assert!(matches!(result, Err(executor::Error::Write { .. })), "{result:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_no_error_because_its_watch_event_triggers_the_next_reconcile() {
        let (writer, log) = writer(409);
        let delay = writer.write(&object(), None, &status(1), StatusChange::Significant).await.unwrap();
        assert_eq!((delay, log.requests().len()), (None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_or_conflicting_write_starts_no_new_interval() {
        for code in [409, 500] {
            let (writer, log) = writer(code);
            for requests in 1..4 {
                let written = writer.write(&object(), None, &status(1), StatusChange::Minor).await;
                assert_eq!((written.is_ok(), log.requests().len()), (code == 409, requests));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_interval_of_a_deleted_object_is_dropped() {
        let (writer, _log) = writer(200);
        let write = async || writer.write(&object(), None, &status(1), StatusChange::Minor).await.unwrap();
        assert_eq!((write().await, write().await), (None, Some(MIN_INTERVAL)));
        writer.forget(&object());
        assert_eq!((write().await, writer.statuses()), (None, 1));
    }
}
