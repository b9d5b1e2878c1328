//! An API server for unit tests that answers as a script tells it, and remembers what it was asked.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{Request, Response},
};
use futures::{StreamExt, channel::mpsc, stream};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// Whether everything is asked for, and not just how far the server is.
    pub(crate) fn is_list(&self) -> bool {
        !self.is_watch() && !self.query.split('&').any(|part| part == "limit=1")
    }
}

pub(crate) enum Answer {
    /// A complete answer.
    Json(u16, Value),
    /// An answer that is no JSON.
    Text(u16, &'static str),
    /// A watch: these events, then silence or the end.
    Watch { events: Vec<Value>, stays_open: bool },
    /// A watch of what is still to come.
    Live(mpsc::UnboundedReceiver<Value>),
    /// The connection breaks before an answer.
    Broken,
    /// No answer ever comes.
    Silence,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self::Json(200, body)
    }

    /// A refusal as the API server words it.
    pub(crate) fn refusal(code: u16, reason: &str) -> Self {
        Self::Json(code, status(code, reason))
    }
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the server said {reason}") })
}

/// What was asked so far.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Asked>>>);

impl Log {
    pub(crate) fn all(&self) -> Vec<Asked> {
        self.0.lock().clone()
    }

    pub(crate) fn count(&self, which: impl Fn(&Asked) -> bool) -> usize {
        self.all().iter().filter(|asked| which(asked)).count()
    }

    /// Methods with the last part of the path.
    pub(crate) fn short(&self) -> Vec<String> {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        self.all().iter().map(|asked| format!("{} {}", asked.method, last(&asked.path))).collect()
    }
}

/// A client of a server that answers as `script` says.
pub(crate) fn client(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> (Client, Log) {
    let (log, script) = (Log::default(), Arc::new(script));
    let asked = log.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (asked, script) = (asked.clone(), Arc::clone(&script));
        async move {
            let request = read(request).await;
            let answer = script(&request);
            asked.0.lock().push(request);
            reply(answer).await
        }
    });
    (Client::new(service, "default"), log)
}

async fn read(request: Request<kube::client::Body>) -> Asked {
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
    Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}

async fn reply(answer: Answer) -> Result<Response<Body>, std::io::Error> {
    let (code, body) = match answer {
        Answer::Json(code, value) => (code, Body::from(value.to_string())),
        Answer::Text(code, text) => (code, Body::from(text)),
        Answer::Watch { events, stays_open } => (200, lines(events, stays_open)),
        Answer::Live(events) => {
            let lines = events.map(|event| Ok::<_, Infallible>(Bytes::from(format!("{event}\n"))));
            (200, Body::from_stream(lines))
        }
        Answer::Broken => return Err(std::io::Error::other("connection reset by peer")),
        Answer::Silence => std::future::pending().await,
    };
    Ok(Response::builder().status(code).body(body).unwrap())
}

fn lines(events: Vec<Value>, stays_open: bool) -> Body {
    let lines = events.into_iter().map(|event| Ok::<_, Infallible>(Bytes::from(format!("{event}\n"))));
    let lines = stream::iter(lines);
    if stays_open { Body::from_stream(lines.chain(stream::pending())) } else { Body::from_stream(lines) }
}

/// A config map owned by the controller with uid `owner`.
pub(crate) fn config_map(name: &str, version: u32, owner: &str) -> Value {
    let owner = json!([{ "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": owner, "controller": true }]);
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "ns",
        "uid": format!("uid-{name}"), "resourceVersion": version.to_string(), "ownerReferences": owner,
        "managedFields": [{ "manager": "m" }] } })
}

/// A complete list of config maps.
pub(crate) fn config_maps(version: u32, items: &[Value]) -> Answer {
    let metadata = json!({ "resourceVersion": version.to_string() });
    Answer::ok(json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items }))
}
