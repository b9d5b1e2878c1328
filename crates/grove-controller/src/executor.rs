//! The only code that writes to the API server: carries plans out, and publishes status.
//!
//! Nothing is retried here. A step that is refused fails, the rest of its stage still happens, later stages do not, at least
//! for the same part of the object, and the controller's backoff brings the object back.

mod announce;
mod outcome;
mod requests;

use std::{borrow::Cow, collections::BTreeSet, future::Future, sync::Arc};

use futures::{StreamExt, stream::FuturesUnordered};
use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::controller_of;
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::{Instrument, Span, field::Empty};

pub use self::outcome::{Done, Error, Outcome};
use self::{announce::announcements, outcome::Effect};
use grove_runtime::{api_error::ApiError, client::REQUEST_TIMEOUT, leadership::Leadership, metrics::Metrics};

use crate::{
    events::Recorder,
    load::Load,
    merge::merge_patch,
    plan::{Adopt, Create, Delete, Manifest, Patch, PatchBody, Plan, Stage, Step, Target},
};

/// Writes in flight at once.
pub const IN_FLIGHT: usize = IN_FLIGHT_PERMITS as usize;
const IN_FLIGHT_PERMITS: u32 = 32;

/// Carries plans out. Cheap to clone; all clones share one limit of writes in flight.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    recorder: Recorder,
    metrics: Metrics,
    permits: Arc<Semaphore>,
    leadership: Leadership,
    load: Load,
}

impl Executor {
    /// An executor that writes through `client`, at most [`IN_FLIGHT`] requests at a time.
    pub fn new(client: Client, recorder: Recorder, metrics: Metrics) -> Self {
        let (permits, leadership) = (Arc::new(Semaphore::new(IN_FLIGHT)), Leadership::always());
        Self { client, recorder, metrics, permits, leadership, load: Load::default() }
    }

    /// The same, writing only while that leadership is held. When it ends, whatever is in flight is broken off.
    #[must_use]
    pub fn gated_by_leadership(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// The same, noting in `load` how long its writes take.
    #[must_use]
    pub fn with_load(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// Returns when no write is in flight.
    pub async fn wait_idle(&self) {
        // The semaphore is never closed, so acquiring cannot fail.
        drop(self.permits.acquire_many(IN_FLIGHT_PERMITS).await);
    }

    /// The same, announcing what it does in the name of `controller`.
    #[must_use]
    pub fn with_reporting_controller(&self, controller: &'static str) -> Self {
        Self { recorder: self.recorder.named(controller), ..self.clone() }
    }

    /// Takes the plan's steps, stage by stage, until one fails; if the plan has parts and it is only that object that the
    /// server does not want, the other parts go on. `subject` is what the events are about.
    pub async fn carry_out<K: Resource<DynamicType = ()>>(&self, subject: &K, plan: &Plan) -> Done {
        let (mut done, mut incomplete) = (Done::default(), BTreeSet::new());
        for stage in &plan.stages {
            let stage = possible(plan, stage, &incomplete);
            if stage.steps.is_empty() {
                continue;
            }
            let results = self.take_all(&stage.steps).await;
            self.announce(subject, &stage, &results);
            let refused = stage.steps.iter().zip(&results).filter(|(_, result)| result.is_err());
            incomplete.extend(refused.filter_map(|(step, _)| plan.part_of(step)));
            let outcomes = stage.steps.iter().zip(results).map(|(step, result)| outcome(&stage, step, result));
            done.outcomes.extend(outcomes);
            let is_over = plan.parts.is_empty() && !done.succeeded();
            if is_over || done.failures().any(|failure| !failure.is_object_specific()) {
                break;
            }
        }
        done
    }

    /// Writes what differs between the `old` status and the `new` one; returns whether anything did.
    ///
    /// Holds for the version that was judged: an object that changed meanwhile, or is gone, is left alone, and the event
    /// of that change brings us back. So the status of one object never lands on its successor of the same name.
    pub async fn publish<K, S>(&self, object: &K, old: Option<&S>, new: &S) -> Result<bool, Error>
    where
        K: Resource<DynamicType = ()>,
        S: Serialize,
    {
        let old = old.map(serde_json::to_value).transpose().map_err(Error::Serialize)?.unwrap_or(Value::Null);
        let new = serde_json::to_value(new).map_err(Error::Serialize)?;
        let Some(change) = merge_patch(&old, &new) else { return Ok(false) };
        let target = Target::of(object);
        let patch = json!({ "metadata": { "resourceVersion": object.resource_version() }, "status": change });
        let written = self.write("patch", &target, async {
            requests::patch_status(&self.client, &target, &patch).await.map(|()| Effect::Done)
        });
        match written.await {
            Ok(_) => Ok(true),
            Err(failure) if matches!(failure.code, 404 | 409) => Ok(false),
            Err(failure) => Err(Error::Refused { target: Box::new(target), failure }),
        }
    }

    /// Asks the server itself whether this very object is gone. To be asked before anything is deleted or released
    /// because its owner seems absent.
    pub async fn is_gone<K: Resource<DynamicType = ()>>(&self, object: &K) -> Result<bool, Error> {
        let target = Target::of(object);
        let live = self.live_meta(&target).await;
        let live = live.map_err(|failure| Error::Refused { target: Box::new(target.clone()), failure })?;
        Ok(live.is_none_or(|live| live.uid() != target.uid))
    }

    /// The results in the order of the steps. No more futures exist than requests may be in flight: each is large.
    async fn take_all(&self, steps: &[Step]) -> Vec<Result<Effect, ApiError>> {
        let (mut ahead, mut taking) = (steps.iter().enumerate(), FuturesUnordered::new());
        let mut results = Vec::with_capacity(steps.len());
        loop {
            for (at, step) in ahead.by_ref().take(IN_FLIGHT - taking.len()) {
                taking.push(self.take_numbered(at, step));
            }
            let Some(result) = taking.next().await else { break };
            results.push(result);
        }
        results.sort_unstable_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }

    async fn take_numbered(&self, at: usize, step: &Step) -> (usize, Result<Effect, ApiError>) {
        (at, self.take(step).await)
    }

    async fn take(&self, step: &Step) -> Result<Effect, ApiError> {
        let target = step.target();
        let result = match step {
            Step::Create(create) => self.create(create).await,
            Step::Patch(patch) => self.patch(patch).await,
            Step::Delete(delete) => self.delete(delete).await,
            Step::Adopt(adopt) => self.adopt(adopt).await,
        };
        if let Err(failure) = &result {
            tracing::warn!(verb = step.verb(), %target, namespace = target.namespace, "write failed: {failure}");
        }
        result
    }

    async fn create(&self, Create { target, object }: &Create) -> Result<Effect, ApiError> {
        let created = self.write("create", target, async {
            requests::create(&self.client, target, object).await.map(Effect::Created)
        });
        match created.await {
            Err(failure) if failure.is_namespace_terminating => Ok(Effect::Moot),
            Err(failure) if failure.code == 409 && failure.reason == "AlreadyExists" => {
                self.name_is_taken(target, object, failure).await
            }
            other => other,
        }
    }

    // The cache may have been behind, and the object there ours already; or the name is somebody else's.
    async fn name_is_taken(&self, target: &Target, object: &Manifest, failure: ApiError) -> Result<Effect, ApiError> {
        let Some(live) = self.live_meta(target).await? else { return Err(failure) };
        let object = object.value();
        let ours = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let ours = ours.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true));
        let theirs = controller_of(&live.metadata);
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours["uid"] == theirs.uid.as_str() => Ok(Effect::Found(live.uid())),
            _ => Err(ApiError { reason: ApiError::NAME_CONFLICT.into(), ..failure }),
        }
    }

    async fn patch(&self, Patch { target, change }: &Patch) -> Result<Effect, ApiError> {
        let patched = self.write("patch", target, async {
            requests::patch(&self.client, target, change).await.map(|()| Effect::Done)
        });
        match patched.await {
            // Somebody was faster; the event of that brings us back.
            Err(failure) if matches!(failure.code, 404 | 409) => Ok(Effect::Moot),
            Err(failure) if failure.is_failed_test && has_test(change) => Ok(Effect::Moot),
            other => other,
        }
    }

    async fn delete(&self, Delete { target }: &Delete) -> Result<Effect, ApiError> {
        let deleted =
            self.write("delete", target, async { requests::delete(&self.client, target).await.map(|()| Effect::Done) });
        match deleted.await {
            // Gone already, or another object by now.
            Err(failure) if matches!(failure.code, 404 | 409) => Ok(Effect::Moot),
            other => other,
        }
    }

    // Both are asked for, not only the cache: an owner that is leaving may have released its children on purpose, and an
    // object that changes all the time would hardly ever be met in the version that was seen.
    async fn adopt(&self, Adopt { target, owner, reference }: &Adopt) -> Result<Effect, ApiError> {
        let stays =
            |live: &PartialObjectMeta<DynamicObject>, seen: &Target| live.uid() == seen.uid && !is_terminating(live);
        let (owning, live) = (self.live_meta(owner).await?, self.live_meta(target).await?);
        let live = live.filter(|live| stays(live, target) && owning.is_some_and(|owning| stays(&owning, owner)));
        let live = live.filter(|live| controller_of(&live.metadata).is_none());
        let Some(PartialObjectMeta { metadata, .. }) = live else { return Ok(Effect::Moot) };
        let others = metadata.owner_references.into_iter().flatten();
        let others = others.filter(|other| reference.iter().all(|ours| ours.uid != other.uid));
        let references: Vec<_> = others.chain(reference.iter().cloned()).collect();
        let change = json!({ "metadata": {
            "uid": metadata.uid, "resourceVersion": metadata.resource_version, "ownerReferences": references,
        } });
        self.patch(&Patch { target: target.clone(), change: PatchBody::Merge(change) }).await
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
            let began = Instant::now();
            let result = tokio::select! {
                biased;
                _ = self.leadership.stopped_leading() => Err(ApiError::not_leading()),
                result = in_time(call) => result,
            };
            result.inspect(|_| self.load.wrote(began.elapsed()))
        };
        let result = asking.instrument(span.clone()).await;
        let code = result.as_ref().map_or_else(|failure| failure.code.to_string(), |_| "success".to_owned());
        span.record("result", &code);
        if result.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        self.metrics.record_write(verb, &target.resource.kind, &code);
        result
    }

    async fn live_meta(&self, target: &Target) -> Result<Option<PartialObjectMeta<DynamicObject>>, ApiError> {
        match in_time(self.api(target).get_metadata(&target.name)).await {
            Ok(live) => Ok(Some(live)),
            // A kind that is not served says nothing about an object of it.
            Err(failure) if failure.code == 404 && failure.reason != ApiError::NOT_SERVED => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        let Target { resource, namespace, name: _, uid: _ } = target;
        api_of(self.client.clone(), resource, namespace.as_deref())
    }

    fn announce<K: Resource<DynamicType = ()>>(
        &self,
        subject: &K,
        stage: &Stage,
        results: &[Result<Effect, ApiError>],
    ) {
        // Of a replica that lost the lead nobody wants to hear that it is refused.
        if !self.leadership.is_held() {
            return;
        }
        for event in announcements(stage, results) {
            self.recorder.record(subject.object_ref(&()), event);
        }
    }
}

/// What of the stage can be done though some parts of the plan are incomplete.
fn possible<'a>(plan: &Plan, stage: &'a Stage, incomplete: &BTreeSet<i32>) -> Cow<'a, Stage> {
    if incomplete.is_empty() {
        return Cow::Borrowed(stage);
    }
    let steps = stage.steps.iter().filter(|step| !plan.is_held_up(step, incomplete)).cloned().collect();
    Cow::Owned(Stage { name: stage.name, steps, announce: stage.announce.clone() })
}

/// For traces; in the log only with `debug`.
fn span(verb: &str, target: &Target) -> Span {
    let Target { resource, namespace, name, uid: _ } = target;
    let (kind, namespace) = (&resource.kind, namespace.as_deref());
    tracing::debug_span!("write", verb, kind, namespace, name, result = Empty, otel.status_code = Empty)
}

fn outcome(stage: &Stage, step: &Step, result: Result<Effect, ApiError>) -> Outcome {
    let (target, result) = match result {
        Ok(effect) => (effect.learned(step.target()), Ok(())),
        Err(failure) => (step.target().clone(), Err(failure)),
    };
    Outcome { stage: stage.name, verb: step.verb(), target, result }
}

fn api_of(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

fn has_test(change: &PatchBody) -> bool {
    let PatchBody::Json(patch) = change else { return false };
    patch.0.iter().any(|operation| matches!(operation, json_patch::PatchOperation::Test(_)))
}

async fn in_time<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
    match timeout(REQUEST_TIMEOUT, call).await {
        Ok(result) => result.map_err(|error| ApiError::from(&error)),
        Err(_) => Err(ApiError::new(0, "Timeout", format!("no answer within {REQUEST_TIMEOUT:?}"))),
    }
}

#[cfg(test)]
mod tests;
