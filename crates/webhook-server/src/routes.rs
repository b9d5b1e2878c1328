//! One route per question. Whatever is sent, there is an answer, it is bounded in size and time, and what goes wrong with
//! one request is no other's concern.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request as HttpRequest;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::FutureExt;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::answer::{answer, awaited};
use crate::cluster::Cluster;
use crate::metrics::{Counters, Outcome, Reviewing};
use crate::question::Question;
use crate::review::{Answer, Request};
use crate::room::{self, LARGEST, Place, Room};

/// For what arrives slowly; the API server gives up after as long.
const PATIENCE: Duration = Duration::from_secs(10);

/// What every request needs.
pub(crate) struct Desk {
    cluster: Cluster,
    counters: Counters,
    room: Room,
}

impl Desk {
    pub(crate) fn new(cluster: Cluster, counters: Counters) -> Arc<Self> {
        let room = Room::new(counters.bytes());
        Arc::new(Self { cluster, counters, room })
    }
}

/// The routes.
pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    let mut router = Router::new();
    for question in Question::ALL {
        let desk = Arc::clone(desk);
        router = router.route(question.path(), post(move |request| isolated(review((desk, question), request))));
    }
    router
}

/// A panic ends one review and nothing else; its guard counts it.
async fn isolated(review: impl Future<Output = Response>) -> Response {
    // Nothing that a review could leave half done is used after it.
    AssertUnwindSafe(review).catch_unwind().await.unwrap_or_else(|_| {
        let text = "the review panicked; the log of the webhook server says where";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    })
}

async fn review((desk, question): (Arc<Desk>, Question), request: HttpRequest) -> Response {
    let mut reviewing = desk.counters.review(question);
    let (body, place) = match body(request, &desk.room).await {
        Ok(received) => received,
        Err((outcome, code, text)) => return refuse(&mut reviewing, outcome, (code, text)),
    };
    let asked = match Request::read(&body) {
        Ok(asked) => asked,
        Err(malformed) => {
            return refuse(&mut reviewing, Outcome::Malformed, (StatusCode::BAD_REQUEST, malformed.to_string()));
        }
    };
    drop(body);
    // From here on nothing is waited for, but for what is scaled, of which only a number is left: so this thread has no
    // other object at the same time.
    let asked = if question == Question::ValidateScale { asked.of_scale() } else { asked };
    drop(place);
    awaited(question, &asked, &desk.cluster).await;
    let answer = answer(question, &asked, &desk.cluster);
    match answer.to_json(&asked.uid) {
        Ok(json) => {
            reviewing.ended(outcome(&answer));
            count_and_tell(&desk.counters, question, &asked, &answer);
            ([(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        Err(error) => {
            let text = format!("the answer cannot be written: {error}");
            tracing::error!("{text}");
            refuse(&mut reviewing, Outcome::Panicked, (StatusCode::INTERNAL_SERVER_ERROR, text))
        }
    }
}

type Refused = (Outcome, StatusCode, String);

/// What was sent, once there is room for it.
async fn body(request: HttpRequest, room: &Room) -> Result<(Vec<u8>, Place<'_>), Refused> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if !is_json {
        let text = "Content-Type must be application/json".to_owned();
        return Err((Outcome::Malformed, StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let body = request.into_body();
    // Who does not say how long it is may send as much as anybody.
    let length = body.size_hint().upper().map_or(Ok(LARGEST), usize::try_from);
    let length = length.ok().filter(|length| *length <= LARGEST).ok_or_else(too_large)?;
    let Some(place) = room.place(length).await else {
        let text =
            format!("there was no room for the review within {:?}, as others are large; try again", room::PATIENCE);
        return Err((Outcome::Busy, StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let received = timeout(PATIENCE, received(body, length)).await.unwrap_or_else(|_| {
        let text = format!("the review did not arrive within {PATIENCE:?}");
        Err((Outcome::TooSlow, StatusCode::REQUEST_TIMEOUT, text))
    })?;
    if room::is_too_heavy(&received) {
        let text = "the review consists of too many small parts".to_owned();
        return Err((Outcome::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    Ok((received, place))
}

/// All that is sent, and no second copy of it.
async fn received(mut body: Body, most: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::with_capacity(body.size_hint().upper().map_or(0, |_| most));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (Outcome::Malformed, StatusCode::BAD_REQUEST, error.to_string()))?;
        // Trailers say nothing.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > most - bytes.len() {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large() -> Refused {
    (Outcome::TooLarge, StatusCode::PAYLOAD_TOO_LARGE, format!("a review may have {LARGEST} bytes"))
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

#[cfg(test)]
mod tests;
