//! Dry-run requests to the API server, with the expected responses.

use std::time::Duration;

use e2e::namespace_state::TIMEOUT;
use futures::{StreamExt, stream};
use grove_dev_harness::wait;
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Request;
use serde_json::{Value, json};

/// Between two attempts of a case.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Cases that run at a time.
const CONCURRENCY: usize = 8;
/// Fields of the metadata that differ in each response.
const SERVER_FIELDS: [&str; 5] = ["uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"];

/// Runs the cases, and returns the failures. The caches of the webhook server may lag behind the stored objects, so each
/// case is repeated until the response is as expected.
pub(super) async fn run_cases(client: &Client, cases: Vec<Case>) -> Vec<String> {
    let running = stream::iter(cases).map(|case| async move {
        let mut response = Response::default();
        // No watch reports what the caches of the webhook server have; only the response shows it.
        let attempts = wait::poll(RETRY_INTERVAL, async || {
            response = case.send(client).await;
            case.is_expected(&response).then_some(())
        });
        match tokio::time::timeout(TIMEOUT / 5, attempts).await {
            Ok(()) => None,
            Err(_) => Some(case.failure(&response)),
        }
    });
    running.buffer_unordered(CONCURRENCY).filter_map(async |failure| failure).collect().await
}

/// The operation of a request.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create(Value),
    Update(Value),
    Delete,
    Scale(i32),
}

/// A request and the expected response.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) title: String,
    /// The path of the kind in the API.
    pub(super) path: String,
    pub(super) name: String,
    pub(super) operation: Operation,
    /// The user to impersonate; `None` for the administrator.
    pub(super) user: Option<String>,
    /// The webhook that answers.
    pub(super) webhook: &'static str,
    pub(super) denied: Vec<String>,
    /// All expected warnings.
    pub(super) warnings: Vec<String>,
    /// Texts in the error by which the CRD or a policy rejects the request before any webhook.
    pub(super) crd_error: Vec<String>,
    /// The whole expected object, for cases about defaults.
    pub(super) defaulted: Option<Value>,
}

/// The actual response.
#[derive(Debug, Default)]
struct Response {
    code: u16,
    message: String,
    warnings: Vec<String>,
    object: Value,
}

impl Response {
    fn is_accepted(&self) -> bool {
        [200, 201].contains(&self.code)
    }
}

impl Case {
    /// The same case for CRDs without rules, so that the webhook answers.
    pub(super) fn for_webhook(&self) -> Self {
        Self { crd_error: vec![], ..self.clone() }
    }

    /// The same case with an expected object: exactly these JSON patch operations are applied. Runs while no webhook is
    /// registered, so that the response shows the object before them.
    pub(super) async fn with_defaults(self, client: &Client, operations: &[Value]) -> Self {
        let response = self.send(client).await;
        assert!(response.is_accepted(), "{}: {response:?}", self.title);
        let before = without_server_fields(response.object);
        let operations = operations.iter().cloned().map(without_unknown).collect();
        let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
        let mut defaulted = before.clone();
        json_patch::patch(&mut defaulted, &patch).expect("the patch fits the object");
        let defaulted = without_server_fields(defaulted);
        assert_eq!(
            defaulted == before,
            patch.0.is_empty(),
            "{}: the expected defaults are already in the object",
            self.title
        );
        Self { defaulted: Some(defaulted), ..self }
    }

    async fn send(&self, client: &Client) -> Response {
        let (requests, dry) = (Request::new(&self.path), PostParams { dry_run: true, ..PostParams::default() });
        let bytes = |object: &Value| serde_json::to_vec(object).expect("JSON");
        let request = match &self.operation {
            Operation::Create(object) => requests.create(&dry, bytes(object)),
            Operation::Update(object) => requests.replace(&self.name, &dry, bytes(object)),
            Operation::Delete => {
                requests.delete(&self.name, &DeleteParams { dry_run: true, ..DeleteParams::default() })
            }
            Operation::Scale(replicas) => {
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
            // The rules of admission depend on the user; RBAC must allow every request.
            request.headers_mut().insert("impersonate-group", "system:masters".parse().expect("a header"));
        }
        let response = client.send(request).await.expect("a response of the API server");
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning_text(&String::from_utf8_lossy(warning.as_bytes()))).collect();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        Response { code, message: body["message"].as_str().unwrap_or_default().to_owned(), warnings, object: body }
    }

    fn is_expected(&self, response: &Response) -> bool {
        if !self.crd_error.is_empty() {
            let is_webhook_denial = response.message.contains("denied the request");
            let has_texts = self.crd_error.iter().all(|part| response.message.contains(part));
            return response.code >= 400 && !is_webhook_denial && has_texts && response.warnings.is_empty();
        }
        if let Some(defaulted) = &self.defaulted {
            return response.is_accepted() && without_server_fields(response.object.clone()) == *defaulted;
        }
        let is_expected = if self.denied.is_empty() {
            // The API server accepts the object, and then finds an object with the same name.
            response.is_accepted() || response.code == 409 && response.message.contains("already exists")
        } else {
            response.code == 403 && response.message == self.denial()
        };
        is_expected && response.warnings == self.warnings
    }

    fn denial(&self) -> String {
        let text = match self.denied.as_slice() {
            [error] => error.clone(),
            errors => format!("[{}]", errors.join(", ")),
        };
        format!("admission webhook {:?} denied the request: {text}", self.webhook)
    }

    fn failure(&self, response: &Response) -> String {
        let Response { code, message, warnings, object } = response;
        let expected = match (self.denied.is_empty(), self.crd_error.is_empty()) {
            (_, false) => format!("a CRD error with {:?}", self.crd_error),
            (true, true) => {
                format!("acceptance {}", self.defaulted.as_ref().map_or_else(String::new, Value::to_string))
            }
            (false, true) => self.denial(),
        };
        let (title, expected_warnings) = (&self.title, &self.warnings);
        let object =
            if self.defaulted.is_none() { String::new() } else { without_server_fields(object.clone()).to_string() };
        format!(
            "{title}\n  expected {expected}, warnings {expected_warnings:?}\n  received {code} {message}, warnings {warnings:?} {object}"
        )
    }
}

/// The object without the fields that the API server and controllers write, and without empty metadata.
fn without_server_fields(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, value| !SERVER_FIELDS.contains(&name.as_str()) && *value != json!({}));
    }
    object
}

/// The operation without the field `unknown`, which the schema of no CRD has.
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

/// The text of a warning header such as `299 - "text"`.
fn warning_text(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text);
    text.trim_end_matches('"').replace("\\\"", "\"")
}
