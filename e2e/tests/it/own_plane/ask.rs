//! Questions to the API server, changing nothing, and what it says.

use std::time::Duration;

use e2e::world::LIMIT;
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Request;
use serde_json::{Value, json};

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(200);
/// Questions that are asked at a time.
const AT_ONCE: usize = 8;

/// The answers that are not those of the table. The caches of the webhook server may be a moment behind what was stored, so
/// it is asked until it answers as expected.
pub(super) async fn play(client: &Client, asked: Vec<Asked>) -> Vec<String> {
    let playing = stream::iter(asked).map(|question| async move {
        let mut said = Said::default();
        let asking = async {
            loop {
                said = question.ask(client).await;
                if question.is_answered_by(&said) {
                    return;
                }
                let _ = tokio::time::timeout(AGAIN, std::future::pending::<()>()).await;
            }
        };
        match tokio::time::timeout(LIMIT / 5, asking).await {
            Ok(()) => None,
            Err(_) => Some(question.complaint(&said)),
        }
    });
    playing.buffer_unordered(AT_ONCE).filter_map(async |wrong| wrong).collect().await
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Create(Value),
    Update(Value),
    Delete,
    Scale(i32),
}

/// A question, and the answer that the table has.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) title: String,
    /// The path of the kind in the API.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) act: Act,
    /// Who asks, if not the administrator.
    pub(super) user: Option<String>,
    /// The webhook that answers.
    pub(super) webhook: &'static str,
    pub(super) refused: Vec<String>,
    /// Whether the definition may be the one that refuses it: it judges first, and says of much that it may not change.
    pub(super) or_definition: bool,
    pub(super) warned: Vec<String>,
    /// Words that the definition refuses it with before any webhook judges.
    pub(super) definition: Vec<String>,
    /// What is filled in, as operations of a JSON patch. Whether the object is accepted then is another row's concern.
    pub(super) filled_in: Option<Vec<Value>>,
}

/// What was said.
#[derive(Debug, Default)]
struct Said {
    code: u16,
    message: String,
    warnings: Vec<String>,
    object: Value,
}

impl Asked {
    async fn ask(&self, client: &Client) -> Said {
        let (requests, dry) = (Request::new(&self.path), PostParams { dry_run: true, ..PostParams::default() });
        let bytes = |object: &Value| serde_json::to_vec(object).expect("JSON");
        let request = match &self.act {
            Act::Create(object) => requests.create(&dry, bytes(object)),
            Act::Update(object) => requests.replace(&self.name, &dry, bytes(object)),
            Act::Delete => requests.delete(&self.name, &DeleteParams { dry_run: true, ..DeleteParams::default() }),
            Act::Scale(replicas) => {
                let (params, patch) = (
                    PatchParams { dry_run: true, ..PatchParams::default() },
                    json!({ "spec": { "replicas": replicas } }),
                );
                requests.patch_subresource("scale", &self.name, &params, &Patch::Merge(patch))
            }
        };
        let mut request = request.expect("a request").map(Body::from);
        if let Some(user) = &self.user {
            request.headers_mut().insert("impersonate-user", user.parse().expect("a header"));
            // What it may do is the rules', not its roles', concern.
            request.headers_mut().insert("impersonate-group", "system:masters".parse().expect("a header"));
        }
        let response = client.send(request).await.expect("the API server answers");
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| told(&String::from_utf8_lossy(warning.as_bytes()))).collect();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        Said { code, message: body["message"].as_str().unwrap_or_default().to_owned(), warnings, object: body }
    }

    fn is_answered_by(&self, said: &Said) -> bool {
        if !self.definition.is_empty() {
            let is_webhooks = said.message.contains("denied the request");
            return said.code >= 400 && !is_webhooks && self.definition.iter().all(|part| said.message.contains(part));
        }
        if self.or_definition && said.code == 422 {
            return true;
        }
        if let Some(operations) = &self.filled_in {
            let is_judged = said.code == 403 && said.message.contains(self.webhook);
            let is_there = [200, 201].contains(&said.code);
            return is_judged || is_there && operations.iter().all(|operation| is_done(operation, &said.object));
        }
        let is_right = if self.refused.is_empty() {
            // It passes, and then there is one of that name.
            [200, 201].contains(&said.code) || said.code == 409 && said.message.contains("already exists")
        } else {
            said.code == 403 && said.message == self.expected()
        };
        is_right && self.warned.iter().all(|warning| said.warnings.contains(warning))
    }

    fn expected(&self) -> String {
        let text = match self.refused.as_slice() {
            [error] => error.clone(),
            errors => format!("[{}]", errors.join(", ")),
        };
        format!("admission webhook {:?} denied the request: {text}", self.webhook)
    }

    fn complaint(&self, said: &Said) -> String {
        let Said { code, message, warnings, object } = said;
        let expected = match (self.refused.is_empty(), self.definition.is_empty()) {
            (_, false) => format!("the definition's words {:?}", self.definition),
            (true, true) => format!("to be accepted with {}", json!(self.filled_in)),
            (false, true) => self.expected(),
        };
        let (title, warned) = (&self.title, &self.warned);
        let object = if self.filled_in.is_none() { "" } else { &object.to_string() };
        format!(
            "{title}\n  expected {expected}, warned {warned:?}\n  answered {code} {message}, warned {warnings:?} {object}"
        )
    }
}

/// Whether the object is as the operation leaves it.
fn is_done(operation: &Value, object: &Value) -> bool {
    let there = object.pointer(operation["path"].as_str().expect("a path"));
    if operation["op"] == "remove" {
        there.is_none()
    } else {
        there.is_some_and(|there| is_kept(there, &operation["value"]))
    }
}

/// Whether it is stored as it was sent, but for fields that the definition does not have.
fn is_kept(stored: &Value, sent: &Value) -> bool {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            stored.iter().all(|(key, stored)| sent.get(key).is_some_and(|sent| is_kept(stored, sent)))
        }
        (Value::Array(stored), Value::Array(sent)) => {
            stored.len() == sent.len() && stored.iter().zip(sent).all(|(stored, sent)| is_kept(stored, sent))
        }
        _ => stored == sent,
    }
}

/// The text of a header such as `299 - "text"`.
fn told(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text);
    text.trim_end_matches('"').replace("\\\"", "\"")
}
