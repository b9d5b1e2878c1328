//! The HTTP endpoints of the webhooks. Each request gets a response. Size and time of a request are limited, and a
//! panic ends only its own request.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::BodyExt;
use kube::Client;
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;

use crate::admit::admit;
use crate::cluster_facts::ClusterFacts;
use crate::memory_budget::{self, BodyMemory, MAX_REVIEW_BYTES, MemoryBudget};
use crate::metrics::{Decision, WebhookMetrics};
use crate::review::{AdmissionRequest, AdmissionResponse};
use crate::template_review::{ReviewError, TemplateReviewer};
use crate::webhook::Webhook;

/// How long a body may take to arrive. It equals the timeout of the API server.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the next part of a large body may take to arrive, while other large bodies may wait for its memory.
const LARGE_BODY_STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The state that all endpoints share.
pub(crate) struct WebhookState {
    cluster: ClusterFacts,
    reviewer: TemplateReviewer,
    metrics: WebhookMetrics,
    budget: MemoryBudget,
}

impl WebhookState {
    /// `client` asks the API server what users may do.
    pub(crate) fn new(cluster: ClusterFacts, client: Client, metrics: WebhookMetrics) -> Arc<Self> {
        let budget = MemoryBudget::new(metrics.bytes_in_flight(), metrics.bodies());
        Arc::new(Self { cluster, reviewer: TemplateReviewer::new(client), metrics, budget })
    }
}

/// One endpoint per webhook.
pub(crate) fn routes(state: &Arc<WebhookState>) -> Router {
    let mut router = Router::new();
    for webhook in Webhook::ALL {
        let state = Arc::clone(state);
        let endpoint = move |request: Request| async move { serve_review(&state, webhook, request).await };
        router = router.route(webhook.path(), post(endpoint));
    }
    router.layer(CatchPanicLayer::custom(panic_response))
}

fn panic_response(_: Box<dyn Any + Send>) -> Response {
    let text = "the review panicked; the log of the webhook server contains the reason";
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// Serves one request and counts it by the status code of its response.
async fn serve_review(state: &WebhookState, webhook: Webhook, request: Request) -> Response {
    let mut timer = state.metrics.start_request(webhook);
    let response = review(state, webhook, request).await.unwrap_or_else(IntoResponse::into_response);
    timer.set_code(response.status());
    response
}

/// A status code other than 200, and the reason. The API server then treats the call of the webhook as failed.
type HttpRejection = (StatusCode, String);

async fn review(state: &WebhookState, webhook: Webhook, request: Request) -> Result<Response, HttpRejection> {
    let body = receive(request, &state.budget).await?;
    let (mut request, mut response) = parse_and_admit(webhook, &body, &state.cluster)?;
    if let Some(missing) = response.missing.take() {
        // Only the bytes of the body stay in memory, because a parsed object takes much more memory.
        drop(request);
        tokio::select! {
            () = missing.wait_until_cached(&state.cluster.caches) => {}
            // Newer reviews need the memory, so this one does not wait any longer.
            () = body.memory.evicted() => {}
        }
        (request, response) = parse_and_admit(webhook, &body, &state.cluster)?;
    }
    drop(body);
    if !response.templates.is_empty() {
        let templates = std::mem::take(&mut response.templates);
        // The parsed objects take much memory, and nothing needs them any more.
        (request.object, request.old_object) = (None, None);
        let denial = state.reviewer.denial(&request.user_info, templates).await;
        response = denial.map_err(|error| not_reviewed(&error))?.unwrap_or(response);
    }
    let json = response.to_json(&request.uid).map_err(|error| {
        let text = format!("cannot serialize the response: {error}");
        tracing::error!("{text}");
        (StatusCode::INTERNAL_SERVER_ERROR, text)
    })?;
    record(&state.metrics, webhook, &request, &response);
    Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

fn not_reviewed(error: &ReviewError) -> HttpRejection {
    let text = format!("the API server did not review the access to ResourceClaimTemplates: {error}; try again");
    tracing::warn!("{text}");
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

fn parse_and_admit(
    webhook: Webhook,
    body: &ReceivedBody<'_>,
    cluster: &ClusterFacts,
) -> Result<(AdmissionRequest, AdmissionResponse), HttpRejection> {
    let request = AdmissionRequest::parse(&body.bytes).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let response = admit(webhook, &request, cluster);
    Ok((request, response))
}

/// A body that has arrived completely.
struct ReceivedBody<'a> {
    bytes: Vec<u8>,
    memory: BodyMemory<'a>,
}

/// Receives the body, unless the memory budget needs its memory for other bodies.
async fn receive(request: Request, budget: &MemoryBudget) -> Result<ReceivedBody<'_>, HttpRejection> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json".to_owned()));
    }
    let body = request.into_body();
    // A body without Content-Length may have the maximum size.
    let length = body.size_hint().upper().map_or(Ok(MAX_REVIEW_BYTES), usize::try_from);
    let length = length.ok().filter(|length| *length <= MAX_REVIEW_BYTES).ok_or_else(too_large)?;
    let mut memory = budget.start_body();
    let evicted = memory.evicted();
    let received = tokio::select! {
        // A body that has arrived completely gets its response.
        biased;
        received = timeout(BODY_TIMEOUT, read_body(body, length, &mut memory)) => received,
        () = evicted => {
            let text = "the review did not arrive before newer ones needed its memory; try again";
            return Err((StatusCode::SERVICE_UNAVAILABLE, text.to_owned()));
        }
    };
    let bytes = received.unwrap_or_else(|_| Err(too_late(BODY_TIMEOUT)))?;
    if memory_budget::exceeds_limit(&bytes) {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the review consists of too many small parts".to_owned()));
    }
    Ok(ReceivedBody { bytes, memory })
}

/// Reads at most `max_bytes` into one buffer, which is not reallocated if the length is known.
async fn read_body(mut body: Body, max_bytes: usize, memory: &mut BodyMemory<'_>) -> Result<Vec<u8>, HttpRejection> {
    if !memory.reserve(max_bytes).await {
        let waited = memory_budget::RESERVE_TIMEOUT;
        let text = format!("other large reviews used the memory budget for {waited:?}; try again");
        return Err((StatusCode::SERVICE_UNAVAILABLE, text));
    }
    let stall_timeout = if memory.is_large() { LARGE_BODY_STALL_TIMEOUT } else { BODY_TIMEOUT };
    let mut bytes = Vec::with_capacity(body.size_hint().upper().map_or(0, |_| max_bytes));
    while let Some(frame) = timeout(stall_timeout, body.frame()).await.map_err(|_| too_late(stall_timeout))? {
        let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > max_bytes - bytes.len() {
            return Err(too_large());
        }
        memory.record_progress(data.len());
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_late(time: Duration) -> HttpRejection {
    (StatusCode::REQUEST_TIMEOUT, format!("the review did not arrive within {time:?}"))
}

fn too_large() -> HttpRejection {
    (StatusCode::PAYLOAD_TOO_LARGE, format!("a review may have {MAX_REVIEW_BYTES} bytes"))
}

/// Counts the decision, and logs a denial.
fn record(metrics: &WebhookMetrics, webhook: Webhook, request: &AdmissionRequest, response: &AdmissionResponse) {
    let Some(denial) = &response.denial else {
        let decision = if response.patch.is_empty() { Decision::Allowed } else { Decision::Patched };
        return metrics.count_decision(webhook, decision);
    };
    metrics.count_decision(webhook, Decision::Denied);
    for rule in &denial.rules {
        metrics.count_violation(*rule);
    }
    let rules: Vec<_> = denial.rules.iter().map(|rule| rule.name()).collect();
    tracing::info!(
        webhook = webhook.name(),
        kind = request.kind.kind,
        namespace = request.namespace,
        name = request.name,
        user = request.user_info.username,
        ?rules,
        "denied"
    );
}

#[cfg(test)]
mod tests;
