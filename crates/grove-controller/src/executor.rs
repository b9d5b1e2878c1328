//! Executes plans, and patches statuses: all writes of the reconcilers. Besides it, only events, leader election and
//! certificates write to the API server. The executor writes only while the process leads: the end of the leadership cancels the writes
//! in flight (function `write`). Events that were queued before are still published.
//!
//! The executor retries nothing. If a step fails, the rest of its stage is still executed, except for creates after a rejection that
//! concerns them, too ([`SlowStart`](crate::plan::SlowStart)). Later stages are not executed, at least in the failure domains of steps
//! that failed or were not sent, unless the stages of the plan are independent. The first response that reports a terminating namespace
//! ends every plan, and no further step of its stage is sent. The rate limiter of the controller then enqueues the object again;
//! [`create_backoff`](crate::create_backoff) decides when a rejected create is sent again.

mod changes;
mod execution_result;
mod requests;
mod stage_events;
mod step_queue;

use std::{borrow::Cow, collections::BTreeSet, future::Future, sync::Arc};

use futures::{StreamExt, stream::FuturesUnordered};
use grove_api_types::ownership::controller_of;
use grove_runtime::{
    api_error::ApiError,
    client::{self, REQUEST_TIMEOUT},
    leadership::Leadership,
    metrics::{Metrics, name_with_group},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource, runtime::events::Event};
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};
use tracing::{Instrument, Span, field::Empty};

pub use self::execution_result::{Error, ExecutionResult, StepResult};
use self::{
    changes::is_superseded,
    execution_result::Effect,
    stage_events::{normal_event, stage_events, warning_event},
    step_queue::StepQueue,
};
use crate::{
    events::EventBroadcaster,
    plan::{Create, Manifest, Plan, Stage, Step, Target},
    status_limiter::WriteLatency,
    status_patch::{StatusOwnership, status_patch},
};

/// Writes that are in flight at the same time.
pub const MAX_IN_FLIGHT_WRITES: usize = MAX_IN_FLIGHT_PERMITS as usize;
const MAX_IN_FLIGHT_PERMITS: u32 = 32;

/// A step that was sent, and its result.
type ExecutedStep<'a> = (&'a Step, Result<Effect, ApiError>);

/// The steps of a stage after its execution.
struct ExecutedStage<'a> {
    /// The steps that were sent, in the order of the stage.
    sent: Vec<ExecutedStep<'a>>,
    /// The steps that were not sent, because the API server would reject them like an earlier one.
    unsent: Vec<&'a Step>,
}

/// Executes plans. Cheap to clone; all clones share the limit of writes in flight.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    events: EventBroadcaster,
    metrics: Metrics,
    permits: Arc<Semaphore>,
    leadership: Leadership,
    write_latency: WriteLatency,
}

impl Executor {
    /// An executor that writes through `client`, at most [`MAX_IN_FLIGHT_WRITES`] requests at a time.
    pub fn new(client: Client, events: EventBroadcaster, metrics: Metrics) -> Self {
        let (permits, leadership) = (Arc::new(Semaphore::new(MAX_IN_FLIGHT_WRITES)), Leadership::always());
        Self { client, events, metrics, permits, leadership, write_latency: WriteLatency::default() }
    }

    /// The same executor, which writes only while the process leads. The end of the leadership cancels writes in flight.
    #[must_use]
    pub fn gated_by_leadership(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// The average duration of the writes, for limiters of statuses.
    pub fn write_latency(&self) -> WriteLatency {
        self.write_latency.clone()
    }

    /// Returns when no write is in flight.
    pub async fn wait_idle(&self) {
        // The semaphore is never closed, so acquiring cannot fail.
        drop(self.permits.acquire_many(MAX_IN_FLIGHT_PERMITS).await);
    }

    /// The same executor, whose events carry `controller` as their reporting controller.
    #[must_use]
    pub fn with_reporting_controller(&self, controller: &'static str) -> Self {
        Self { events: self.events.named(controller), ..self.clone() }
    }

    /// Executes the plan stage by stage, and publishes the events of the stages about `subject`. A failed step ends the plan. If
    /// the plan has failure domains and the server rejects only this object or kind, it blocks only later creates of its domain.
    /// So does a create that was not sent after the rejection of another one. If the stages are independent, a rejection ends
    /// nothing, unless it reports a terminating namespace. After the watch event of that namespace, a plan has no creates.
    pub async fn execute<K: Resource<DynamicType = ()>>(&self, subject: &K, plan: &Plan) -> ExecutionResult {
        let (mut execution, mut blocked_domains) = (ExecutionResult::default(), BTreeSet::new());
        let of_object = plan.warnings.iter().map(warning_event).chain(plan.normal_events.iter().map(normal_event));
        self.publish(subject, of_object);
        for stage in &plan.stages {
            let stage = without_blocked_steps(plan, stage, &blocked_domains);
            if stage.steps.is_empty() {
                continue;
            }
            let ExecutedStage { sent, unsent } = self.execute_steps(&stage).await;
            self.publish(subject, stage_events(&stage, &sent));
            let failed = sent.iter().filter(|(_, result)| result.is_err()).map(|(step, _)| *step);
            blocked_domains.extend(failed.chain(unsent).filter_map(|step| plan.failure_domain_of(step)));
            execution.steps.extend(sent.into_iter().map(|(step, result)| step_result(&stage, step, result)));
            let is_one_domain = plan.failure_domains.is_empty() && !plan.has_independent_stages;
            let ends_plan = is_one_domain && !execution.succeeded();
            let ends_stages = |error: &ApiError| {
                let ends_independent_stages = error.is_outage() || error.is_namespace_terminating;
                ends_independent_stages || (!plan.has_independent_stages && !error.is_object_specific())
            };
            if ends_plan || execution.failures().any(ends_stages) {
                break;
            }
        }
        execution
    }

    /// Patches the difference between the `old` status and the `new` one, and returns whether the object has the new one then.
    ///
    /// The patch tests what the caller observed ([`status_patch`](crate::status_patch)). If that has changed or the object was deleted,
    /// the server rejects the patch, and the watch event of that change triggers the next reconcile. A status therefore never
    /// reaches a later object of the same name.
    ///
    /// # Errors
    /// If the server rejects the patch for another reason, or does not respond.
    pub async fn patch_status<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        old: &Value,
        new: &Value,
        ownership: StatusOwnership,
    ) -> Result<bool, Error> {
        let Some(patch) = status_patch(object, old, new, ownership) else { return Ok(true) };
        let target = Target::of(object);
        let written = self.write("patch", &target, async {
            requests::patch_status(&self.client, &target, &patch).await.map(|()| Effect::Applied)
        });
        match written.await {
            Ok(_) => Ok(true),
            Err(error) if is_superseded(&error, &patch) => Ok(false),
            Err(error) => Err(Error::Write { target: Box::new(target), error }),
        }
    }

    /// Whether a live GET confirms that this object, by UID, does not exist. A controller calls this before it deletes or
    /// releases the dependents of an owner that is not in the cache.
    ///
    /// # Errors
    /// If the server does not answer the GET.
    pub async fn confirm_deleted<K: Resource<DynamicType = ()>>(&self, object: &K) -> Result<bool, Error> {
        let target = Target::of(object);
        let live = self.live_meta(&target).await;
        let live = live.map_err(|error| Error::Write { target: Box::new(target.clone()), error })?;
        Ok(live.is_none_or(|live| live.uid != target.uid))
    }

    /// The steps and their results. A future is created only when its write may start, because each future is large.
    async fn execute_steps<'a>(&self, stage: &'a Stage) -> ExecutedStage<'a> {
        let (mut queue, mut in_flight) = (StepQueue::of(stage), FuturesUnordered::new());
        let mut results = Vec::with_capacity(stage.steps.len());
        loop {
            for (position, step) in queue.take(in_flight.len()) {
                in_flight.push(self.execute_step_at(position, step));
            }
            let Some((position, executed)) = in_flight.next().await else { break };
            queue.observe(position, &executed.1);
            results.push((position, executed));
        }
        results.sort_unstable_by_key(|(position, _)| *position);
        let positions: BTreeSet<_> = results.iter().map(|(position, _)| *position).collect();
        let unsent = stage.steps.iter().enumerate().filter(|(position, _)| !positions.contains(position));
        let unsent = unsent.map(|(_, step)| step).collect();
        ExecutedStage { sent: results.into_iter().map(|(_, executed)| executed).collect(), unsent }
    }

    async fn execute_step_at<'a>(&self, position: usize, step: &'a Step) -> (usize, ExecutedStep<'a>) {
        (position, (step, self.execute_step(step).await))
    }

    async fn execute_step(&self, step: &Step) -> Result<Effect, ApiError> {
        let target = step.target();
        let result = match step {
            Step::Create(create) => self.create(create).await,
            Step::Patch(patch) => self.patch(patch).await,
            Step::Delete(delete) => self.delete(delete).await,
            Step::Adopt(adopt) => self.adopt(adopt).await,
        };
        if let Err(error) = &result {
            tracing::warn!(verb = step.verb(), %target, namespace = target.namespace, "write failed: {error}");
        }
        result
    }

    async fn create(&self, Create { target, object }: &Create) -> Result<Effect, ApiError> {
        let created = self.write("create", target, async {
            requests::create(&self.client, target, object).await.map(Effect::Created)
        });
        match created.await {
            Err(error) if error.code == 409 && error.reason == "AlreadyExists" => {
                self.resolve_already_exists(target, object, error).await
            }
            other => other,
        }
    }

    // The cache may be stale, so that the object exists and our owner controls it, or has no controller and all our labels. Otherwise this
    // is a name conflict.
    async fn resolve_already_exists(
        &self,
        target: &Target,
        object: &Manifest,
        error: ApiError,
    ) -> Result<Effect, ApiError> {
        let Some(live) = self.live_meta(target).await? else { return Err(error) };
        let object = object.value();
        let ours = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let ours = ours.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true));
        let theirs = controller_of(&live);
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours["uid"] == theirs.uid.as_str() => {
                Ok(Effect::AlreadyOwned(live.uid.clone()))
            }
            (None, None) if has_labels_of(&live, &object) => Ok(Effect::AlreadyOwned(live.uid.clone())),
            _ => Err(ApiError { reason: ApiError::NAME_CONFLICT.into(), ..error }),
        }
    }

    async fn write(
        &self,
        verb: &str,
        target: &Target,
        call: impl Future<Output = Result<Effect, kube::Error>>,
    ) -> Result<Effect, ApiError> {
        let span = span(verb, target);
        let asking = async {
            // The semaphore is never closed, so acquiring cannot fail.
            let _permit = self.permits.acquire().await;
            tokio::select! {
                biased;
                _ = self.leadership.stopped_leading() => Err(ApiError::not_leading()),
                result = self.timed(call) => result,
            }
        };
        let result = asking.instrument(span.clone()).await;
        let code = result.as_ref().map_or_else(|error| error.code.to_string(), |_| "success".to_owned());
        span.record("result", &code);
        if result.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        let kind = name_with_group(&target.resource.kind, &target.resource.group);
        self.metrics.record_write(verb, &kind, &code);
        result
    }

    /// The response of a write, whose duration counts as the latency of the process.
    async fn timed(&self, call: impl Future<Output = Result<Effect, kube::Error>>) -> Result<Effect, ApiError> {
        let began = Instant::now();
        let result = with_timeout(call).await;
        self.write_latency.record(began.elapsed());
        result
    }

    async fn live_meta(&self, target: &Target) -> Result<Option<ObjectMeta>, ApiError> {
        match with_timeout(requests::get_metadata(&self.client, target)).await {
            Ok(live) => Ok(Some(live)),
            // If the kind is not served, a 404 does not prove that the object does not exist.
            Err(error) if error.code == 404 && error.reason != ApiError::NOT_SERVED => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn publish<K: Resource<DynamicType = ()>>(&self, subject: &K, events: impl IntoIterator<Item = Event>) {
        // Users need no event about the rejected writes of a replica that lost its lease.
        if !self.leadership.is_held() {
            return;
        }
        for event in events {
            self.events.record(subject.object_ref(&()), event);
        }
    }
}

/// The stage without the creates in blocked failure domains.
fn without_blocked_steps<'a>(plan: &Plan, stage: &'a Stage, blocked_domains: &BTreeSet<i32>) -> Cow<'a, Stage> {
    if blocked_domains.is_empty() {
        return Cow::Borrowed(stage);
    }
    let steps = stage.steps.iter().filter(|step| !plan.is_blocked(step, blocked_domains)).cloned().collect();
    Cow::Owned(Stage { name: stage.name, steps, events: stage.events.clone(), slow_start: stage.slow_start })
}

/// The span of one write. It is in traces, and in the log at level `debug`.
fn span(verb: &str, target: &Target) -> Span {
    let Target { resource, namespace, name, uid: _ } = target;
    let (kind, namespace) = (&resource.kind, namespace.as_deref());
    tracing::debug_span!("write", verb, kind, namespace, name, result = Empty, otel.status_code = Empty)
}

fn step_result(stage: &Stage, step: &Step, result: Result<Effect, ApiError>) -> StepResult {
    let is_changed = matches!(result, Ok(Effect::ChangedBeforeDelete));
    let bytes = match step {
        Step::Create(create) => create.object.stored_bytes(),
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => 0,
    };
    let (target, result) = match result {
        Ok(effect) => (effect.resolve(step.target()), Ok(())),
        Err(error) => (step.target().clone(), Err(error)),
    };
    StepResult { is_changed, bytes, ..StepResult::new(stage.name, step.verb(), target, result) }
}

/// Whether the manifest has labels, and the live object has them all.
fn has_labels_of(live: &ObjectMeta, manifest: &Value) -> bool {
    let labels = manifest.pointer("/metadata/labels").and_then(Value::as_object).filter(|labels| !labels.is_empty());
    let has = |(key, value): (&String, &Value)| {
        live.labels.as_ref().and_then(|live| live.get(key)).is_some_and(|it| value == it)
    };
    labels.is_some_and(|labels| labels.iter().all(has))
}

async fn with_timeout<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
    client::with_timeout(REQUEST_TIMEOUT, call).await.map_err(|error| ApiError::from(&error))
}

#[cfg(test)]
mod tests;
