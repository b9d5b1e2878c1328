//! One route per question. Whatever is sent, there is an answer, it is bounded in size and time, and what goes wrong with
//! one request is no other's concern.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::LengthLimitError;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answer::{answer, awaited};
use crate::cluster::Cluster;
use crate::metrics::{Counters, Outcome, Reviewing};
use crate::question::Question;
use crate::review::{Answer, Request};

/// A review carries an object twice, and the API server takes objects of three megabytes.
const LARGEST: usize = 8 << 20;
/// For what arrives slowly; the API server gives up after as long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bodies that are in memory at a time; who comes later waits for its turn.
const AT_ONCE: usize = 32;

/// What every request needs.
pub(crate) struct Desk {
    cluster: Cluster,
    counters: Counters,
    turns: Semaphore,
}

impl Desk {
    pub(crate) fn new(cluster: Cluster, counters: Counters) -> Arc<Self> {
        Arc::new(Self { cluster, counters, turns: Semaphore::new(AT_ONCE) })
    }
}

/// The routes. While `is_stopping` says so, each answer is the last on its connection.
pub(crate) fn routes(desk: &Arc<Desk>, is_stopping: impl Fn() -> bool + Clone + Send + Sync + 'static) -> Router {
    let mut router = Router::new();
    for question in Question::ALL {
        let desk = Arc::clone(desk);
        router = router.route(question.path(), post(move |request| review(State((desk, question)), request)));
    }
    router.layer(middleware::from_fn(move |request: HttpRequest, next: Next| {
        let is_last = request.version() <= Version::HTTP_11 && is_stopping();
        async move {
            let mut response = next.run(request).await;
            if is_last {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }))
}

async fn review(State((desk, question)): State<(Arc<Desk>, Question)>, request: HttpRequest) -> Response {
    let mut reviewing = desk.counters.review(question);
    // The semaphore is never closed, so acquiring cannot fail.
    let _turn = desk.turns.acquire().await;
    let body = match body(request).await {
        Ok(body) => body,
        Err((outcome, code, text)) => return refuse(&mut reviewing, outcome, (code, text)),
    };
    let asked = match Request::read(&body) {
        Ok(asked) => asked,
        Err(malformed) => {
            return refuse(&mut reviewing, Outcome::Malformed, (StatusCode::BAD_REQUEST, malformed.to_string()));
        }
    };
    drop(body);
    awaited(question, &asked, &desk.cluster).await;
    let answered = isolated(|| {
        let answer = answer(question, &asked, &desk.cluster);
        answer.to_json(&asked.uid).map(|json| (answer, json))
    });
    match answered {
        Some(Ok((answer, json))) => {
            reviewing.ended(outcome(&answer));
            count_and_tell(&desk.counters, question, &asked, &answer);
            ([(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        Some(Err(error)) => went_wrong(&mut reviewing, &format!("the answer cannot be written: {error}")),
        None => went_wrong(&mut reviewing, "the review panicked; the log of the webhook server says where"),
    }
}

/// A panic ends this and nothing else.
fn isolated<T>(work: impl FnOnce() -> T) -> Option<T> {
    // Nothing that `work` could leave half done is used after it.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

type Refused = (Outcome, StatusCode, String);

async fn body(request: HttpRequest) -> Result<axum::body::Bytes, Refused> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if !is_json {
        let text = "Content-Type must be application/json".to_owned();
        return Err((Outcome::Malformed, StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    read(request.into_body()).await
}

async fn read(body: Body) -> Result<axum::body::Bytes, Refused> {
    match timeout(PATIENCE, to_bytes(body, LARGEST)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_too_large(&error) => {
            let text = format!("a review may have {LARGEST} bytes");
            Err((Outcome::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Ok(Err(error)) => Err((Outcome::Malformed, StatusCode::BAD_REQUEST, error.to_string())),
        Err(_) => {
            let text = format!("the review did not arrive within {PATIENCE:?}");
            Err((Outcome::TooSlow, StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<LengthLimitError>)
}

fn outcome(answer: &Answer) -> Outcome {
    match (&answer.refusal, answer.changes.is_empty()) {
        (Some(_), _) => Outcome::Refused,
        (None, true) => Outcome::Allowed,
        (None, false) => Outcome::Changed,
    }
}

fn count_and_tell(counters: &Counters, question: Question, asked: &Request, answer: &Answer) {
    let Some(refusal) = &answer.refusal else { return };
    for rule in &refusal.rules {
        counters.refused(*rule);
    }
    let rules: Vec<_> = refusal.rules.iter().map(|rule| rule.name()).collect();
    tracing::info!(
        webhook = question.name(),
        kind = asked.kind.kind,
        namespace = asked.namespace,
        name = asked.name,
        user = asked.user_info.username,
        ?rules,
        "refused"
    );
}

fn refuse(reviewing: &mut Reviewing, outcome: Outcome, answer: (StatusCode, String)) -> Response {
    reviewing.ended(outcome);
    answer.into_response()
}

fn went_wrong(reviewing: &mut Reviewing, text: &str) -> Response {
    tracing::error!("{text}");
    refuse(reviewing, Outcome::Panicked, (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned()))
}

#[cfg(test)]
mod tests;
