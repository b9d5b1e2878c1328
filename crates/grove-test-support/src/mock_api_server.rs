//! A mock API server for unit tests: a script chooses the response to each request, and the server records all requests.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, Response},
};
use futures::{StreamExt, channel::mpsc, stream};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// One request as the server received it.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: Value,
}

impl RecordedRequest {
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Whether it requests all objects. A list with `limit=1` only reads the current resourceVersion.
    pub fn is_list(&self) -> bool {
        !self.is_watch() && !self.query.split('&').any(|part| part == "limit=1")
    }
}

pub enum MockResponse {
    /// A complete JSON response.
    Json(u16, Value),
    /// A response that is not JSON.
    Text(u16, &'static str),
    /// A watch: these events, then either no further event or the end of the stream.
    Watch { events: Vec<Value>, stays_open: bool },
    /// A watch with the events of this channel.
    LiveWatch(mpsc::UnboundedReceiver<Value>),
    /// The connection breaks before a response.
    ConnectionReset,
    /// The server never responds.
    NoResponse,
}

impl MockResponse {
    pub fn ok(body: Value) -> Self {
        Self::Json(200, body)
    }

    /// A `Status` as the API server writes it.
    pub fn error(code: u16, reason: &str) -> Self {
        Self::Json(code, status(code, reason))
    }
}

pub fn status(code: u16, reason: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the server returned {reason}") })
}

/// All requests so far.
#[derive(Clone, Default)]
pub struct RequestLog(Arc<Mutex<Vec<RecordedRequest>>>);

impl RequestLog {
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.0.lock().clone()
    }

    pub fn count(&self, predicate: impl Fn(&RecordedRequest) -> bool) -> usize {
        self.requests().iter().filter(|request| predicate(request)).count()
    }

    /// The method and the last segment of the path of each request.
    pub fn methods_and_names(&self) -> Vec<String> {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        self.requests().iter().map(|request| format!("{} {}", request.method, last(&request.path))).collect()
    }
}

/// A client of a mock server that responds as `script` chooses.
pub fn client(script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> (Client, RequestLog) {
    let (log, script) = (RequestLog::default(), Arc::new(script));
    let recorded = log.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (recorded, script) = (recorded.clone(), Arc::clone(&script));
        async move {
            let request = record(request).await;
            let response = script(&request);
            recorded.0.lock().push(request);
            respond(response).await
        }
    });
    (Client::new(service, "default"), log)
}

async fn record(request: Request<kube::client::Body>) -> RecordedRequest {
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
    RecordedRequest {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}

async fn respond(response: MockResponse) -> Result<Response<Body>, std::io::Error> {
    let (code, body) = match response {
        MockResponse::Json(code, value) => (code, Body::from(value.to_string())),
        MockResponse::Text(code, text) => (code, Body::from(text)),
        MockResponse::Watch { events, stays_open } => (200, event_stream(events, stays_open)),
        MockResponse::LiveWatch(events) => {
            let lines = events.map(|event| Ok::<_, Infallible>(line(&event)));
            (200, Body::from_stream(lines))
        }
        MockResponse::ConnectionReset => return Err(std::io::Error::other("connection reset by peer")),
        MockResponse::NoResponse => std::future::pending().await,
    };
    Ok(Response::builder().status(code).body(body).unwrap())
}

fn event_stream(events: Vec<Value>, stays_open: bool) -> Body {
    let lines = stream::iter(events).map(|event| Ok::<_, Infallible>(line(&event)));
    if stays_open { Body::from_stream(lines.chain(stream::pending())) } else { Body::from_stream(lines) }
}

/// A watch event with its type first, as the API server writes it.
fn line(event: &Value) -> Bytes {
    let (type_, object) = (&event["type"], &event["object"]);
    Bytes::from(format!("{{\"type\":{type_},\"object\":{object}}}\n"))
}

/// A config map whose controller has the UID `owner`.
pub fn config_map(name: &str, version: u32, owner: &str) -> Value {
    let owner = json!([{ "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner, "controller": true }]);
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "ns",
        "uid": format!("uid-{name}"), "resourceVersion": version.to_string(), "ownerReferences": owner,
        "managedFields": [{ "manager": "m" }] } })
}

/// A complete list of config maps.
pub fn config_maps(version: u32, items: &[Value]) -> MockResponse {
    let metadata = json!({ "resourceVersion": version.to_string() });
    MockResponse::ok(json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items }))
}
