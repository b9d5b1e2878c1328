//! `AdmissionReview` in and out. Objects stay the JSON that was sent, so that no field of theirs can be lost here; no rule
//! of Grove is known.

use grove_api_types::admission::{Change, Rule};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Refused because of what somebody wants.
const FORBIDDEN: u16 = 403;
/// Refused because it cannot be read.
const BAD_REQUEST: u16 = 400;

/// What the API server wants to know about one request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) namespace: String,
    pub(crate) operation: Operation,
    #[serde(default)]
    pub(crate) user_info: UserInfo,
    pub(crate) object: Option<Value>,
    pub(crate) old_object: Option<Value>,
    /// Which resource the request is for: tells the kind of what a `Scale` scales.
    #[serde(default)]
    pub(crate) resource: Resource,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Kind {
    #[serde(default)]
    pub(crate) kind: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Resource {
    #[serde(default)]
    pub(crate) resource: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct UserInfo {
    #[serde(default)]
    pub(crate) username: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    api_version: String,
    request: Option<Request>,
}

/// Why what was sent is no question.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the AdmissionReview is of {0:?}, and only {API_VERSION} is understood")]
    Version(String),
    #[error("the AdmissionReview has no request")]
    Empty,
}

impl Request {
    pub(crate) fn read(body: &[u8]) -> Result<Self, Malformed> {
        let asked: Asked = serde_json::from_slice(body)?;
        if asked.api_version != API_VERSION {
            return Err(Malformed::Version(asked.api_version));
        }
        asked.request.ok_or(Malformed::Empty)
    }

    /// Without all of the objects but their replicas, which is what there is to know of a scale.
    pub(crate) fn of_scale(self) -> Self {
        let replicas = |scale: &Value| {
            let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64);
            json!({ "spec": { "replicas": replicas } })
        };
        let (object, old_object) = (self.object.as_ref().map(replicas), self.old_object.as_ref().map(replicas));
        Self { object, old_object, ..self }
    }

    /// `namespace/name`; on creation the name may be the server's to make.
    pub(crate) fn full_name(&self) -> String {
        [self.namespace.as_str(), self.name.as_str()].join("/")
    }
}

/// What is answered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// What is changed of the object; nothing when it is refused.
    pub(crate) changes: Vec<Change>,
    /// Why it may not be.
    pub(crate) refusal: Option<Refusal>,
    /// What the user is told either way.
    pub(crate) warnings: Vec<String>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    code: u16,
    message: String,
    causes: Vec<Cause>,
    /// The rules that refuse, each once for every error.
    pub(crate) rules: Vec<Rule>,
}

/// One mistake, for programs that read refusals.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Answer {
    pub(crate) fn refused(message: String, causes: Vec<Cause>, rules: Vec<Rule>) -> Self {
        let refusal = Refusal { code: FORBIDDEN, message, causes, rules };
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// The object is not of the kind that it says it is.
    pub(crate) fn unreadable(message: String) -> Self {
        let refusal = Refusal { code: BAD_REQUEST, message, causes: vec![], rules: vec![] };
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// The answer as the API server reads it.
    pub(crate) fn to_json(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let patch = match self.changes.as_slice() {
            [] => None,
            changes => Some(ByteString(serde_json::to_vec(changes)?)),
        };
        let response = Response {
            uid,
            allowed: self.refusal.is_none(),
            status: self.refusal.as_ref().map(Status::of),
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch,
            warnings: &self.warnings,
        };
        serde_json::to_vec(&Answered { api_version: API_VERSION, kind: KIND, response })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    reason: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Serialize)]
struct Details<'a> {
    causes: &'a [Cause],
}

impl<'a> Status<'a> {
    fn of(refusal: &'a Refusal) -> Self {
        let Refusal { code, message, causes, rules: _ } = refusal;
        let reason = if *code == FORBIDDEN { "Forbidden" } else { "BadRequest" };
        let details = (!causes.is_empty()).then_some(Details { causes });
        Self { code: *code, reason, message, details }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(review: &Value) -> Result<Request, String> {
        Request::read(review.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_nobody_here_knows_of_an_object_is_kept() {
        let object = json!({ "metadata": { "name": "a" }, "spec": { "newer": { "deep": [1, 2.5, null] } } });
        let request = json!({ "uid": "1", "operation": "CREATE", "object": object, "oldObject": null, "newer": true });
        let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        let request = read(&review).unwrap();
        assert_eq!(request.object, Some(object));
        assert_eq!((request.old_object, request.operation), (None, Operation::Create));
    }

    #[test]
    fn of_a_scale_only_the_number_is_kept() {
        let scale = json!({ "metadata": { "name": "a" }, "spec": { "replicas": 3 } });
        let odd = json!({ "spec": { "replicas": [[]] } });
        let request = json!({ "uid": "1", "operation": "UPDATE", "name": "a", "object": scale, "oldObject": odd });
        let review = json!({ "apiVersion": "admission.k8s.io/v1", "request": request });
        let request = read(&review).unwrap().of_scale();
        assert_eq!(request.object, Some(json!({ "spec": { "replicas": 3 } })));
        assert_eq!((request.old_object, request.name.as_str()), (Some(json!({ "spec": { "replicas": null } })), "a"));
    }

    #[test]
    fn what_is_no_question_is_told() {
        assert!(read(&json!([])).unwrap_err().starts_with("the body is no AdmissionReview"));
        let beta = json!({ "apiVersion": "admission.k8s.io/v1beta1" });
        assert!(read(&beta).unwrap_err().contains("only admission.k8s.io/v1 is understood"));
        let empty = json!({ "apiVersion": "admission.k8s.io/v1" });
        assert_eq!(read(&empty).unwrap_err(), "the AdmissionReview has no request");
    }

    fn told(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.to_json("7").unwrap()).unwrap()
    }

    #[test]
    fn an_answer_says_no_more_than_there_is() {
        let review = |response: Value| json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response });
        assert_eq!(told(&Answer::default()), review(json!({ "uid": "7", "allowed": true })));
        let change = Change::Remove { path: "/a".to_owned() };
        let patched = Answer { changes: vec![change], ..Answer::default() };
        let patch = "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=";
        let response = json!({ "uid": "7", "allowed": true, "patchType": "JSONPatch", "patch": patch });
        assert_eq!(told(&patched), review(response));
        let refused = Answer::unreadable("no set".to_owned());
        let status = json!({ "code": 400, "reason": "BadRequest", "message": "no set" });
        assert_eq!(told(&refused), review(json!({ "uid": "7", "allowed": false, "status": status })));
    }
}
