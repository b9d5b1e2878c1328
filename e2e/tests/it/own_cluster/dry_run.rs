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
/// Of the metadata, what is another one with each question.
const UPKEEP: [&str; 5] = ["uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"];

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
    /// All that is warned about.
    pub(super) warned: Vec<String>,
    /// Words that the definition refuses it with before any webhook judges.
    pub(super) definition: Vec<String>,
    /// The whole object that comes back, where it is about defaults.
    pub(super) filled_in: Option<Value>,
}

/// What was said.
#[derive(Debug, Default)]
struct Said {
    code: u16,
    message: String,
    warnings: Vec<String>,
    object: Value,
}

impl Said {
    fn is_accepted(&self) -> bool {
        [200, 201].contains(&self.code)
    }
}

impl Asked {
    /// The same question, where no definition answers in the place of the webhook.
    pub(super) fn of_webhook(&self) -> Self {
        Self { definition: vec![], ..self.clone() }
    }

    /// The same question, and that exactly these operations make of the object what comes back. Asked while there is no
    /// webhook, so that what comes back now is what went in.
    pub(super) async fn filling_in(self, client: &Client, operations: &[Value]) -> Self {
        let said = self.ask(client).await;
        assert!(said.is_accepted(), "{}: {said:?}", self.title);
        let plain = without_upkeep(said.object);
        let operations = operations.iter().cloned().map(without_unknown).collect();
        let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
        let mut filled_in = plain.clone();
        json_patch::patch(&mut filled_in, &patch).expect("the patch fits the object");
        let filled_in = without_upkeep(filled_in);
        assert_eq!(filled_in == plain, patch.0.is_empty(), "{}: somebody fills it in already", self.title);
        Self { filled_in: Some(filled_in), ..self }
    }

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
            let is_told = self.definition.iter().all(|part| said.message.contains(part));
            return said.code >= 400 && !is_webhooks && is_told && said.warnings.is_empty();
        }
        if let Some(filled_in) = &self.filled_in {
            return said.is_accepted() && without_upkeep(said.object.clone()) == *filled_in;
        }
        let is_right = if self.refused.is_empty() {
            // It passes, and then there is one of that name.
            said.is_accepted() || said.code == 409 && said.message.contains("already exists")
        } else {
            said.code == 403 && said.message == self.expected()
        };
        is_right && said.warnings == self.warned
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
            (true, true) => {
                format!("to be accepted {}", self.filled_in.as_ref().map_or_else(String::new, Value::to_string))
            }
            (false, true) => self.expected(),
        };
        let (title, warned) = (&self.title, &self.warned);
        let object = if self.filled_in.is_none() { String::new() } else { without_upkeep(object.clone()).to_string() };
        format!(
            "{title}\n  expected {expected}, warned {warned:?}\n  answered {code} {message}, warned {warnings:?} {object}"
        )
    }
}

/// The object without what the API server and controllers write, and without what is empty.
fn without_upkeep(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, value| !UPKEEP.contains(&name.as_str()) && *value != json!({}));
    }
    object
}

/// The operation without fields that no definition has, which rows call `unknown`.
fn without_unknown(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("unknown");
            fields.values_mut().for_each(|value| *value = without_unknown(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = without_unknown(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// The text of a header such as `299 - "text"`.
fn told(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text);
    text.trim_end_matches('"').replace("\\\"", "\"")
}
