//! `AdmissionReview` of `admission.k8s.io/v1`: parses requests and serializes responses.
//!
//! Objects remain JSON values, so that unknown fields survive. kube's `AdmissionRequest` would parse them into a type.
//! kube's `AdmissionResponse` has another wire format: `patch` is a list of numbers in place of a base64 string, and
//! each allowed response has an empty `status`.

use std::collections::BTreeMap;

use grove_api_types::admission::Rule;
use grove_api_types::resource_sharing::template_access::CrossNamespaceTemplates;
use json_patch::PatchOperation;
use k8s_openapi::ByteString;
use kube::core::Status;
use kube::core::admission::{META_API_VERSION_V1, META_KIND, Operation};
use kube::core::response::{StatusCause, StatusDetails, reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::missing_object::MissingObject;

/// The attributes of a request that the webhooks read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest {
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
    /// The resource of the request. For a `Scale` it names the kind of the scaled object.
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
    #[serde(default)]
    pub(crate) uid: String,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview {
    #[serde(default)]
    api_version: String,
    request: Option<AdmissionRequest>,
}

/// Why a body is not a valid `AdmissionReview`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidReview {
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the AdmissionReview has version {0:?}; only {META_API_VERSION_V1} is supported")]
    Version(String),
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

impl AdmissionRequest {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, InvalidReview> {
        let review: AdmissionReview = serde_json::from_slice(body)?;
        if review.api_version != META_API_VERSION_V1 {
            return Err(InvalidReview::Version(review.api_version));
        }
        let mut request = review.request.ok_or(InvalidReview::NoRequest)?;
        [&mut request.object, &mut request.old_object].into_iter().flatten().for_each(remove_managed_fields);
        Ok(request)
    }

    /// `namespace/name`. In a create request the name may be empty, because the API server generates it later.
    pub(crate) fn full_name(&self) -> String {
        [self.namespace.as_str(), self.name.as_str()].join("/")
    }
}

/// No rule reads the managed fields, and any client may write a time into them that no type can represent.
fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// The response to an admission request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AdmissionResponse {
    /// The operations of the JSON patch; empty if the request is denied.
    pub(crate) patch: Vec<PatchOperation>,
    /// `None` if the request is allowed.
    pub(crate) denial: Option<Denial>,
    /// Warnings for the user, with either decision.
    pub(crate) warnings: Vec<String>,
    /// The response may differ once the caches contain this object.
    pub(crate) missing: Option<MissingObject>,
    /// An allowed request is denied if the user may not read one of these templates.
    pub(crate) templates: CrossNamespaceTemplates,
}

/// Why a request is denied.
#[derive(Debug, PartialEq)]
pub(crate) struct Denial {
    status: Status,
    /// The violated rules, one entry per field error.
    pub(crate) rules: Vec<Rule>,
}

impl AdmissionResponse {
    /// Denies the request with 403.
    pub(crate) fn deny(message: String, causes: Vec<StatusCause>, rules: Vec<Rule>) -> Self {
        let details = (!causes.is_empty()).then(|| details(causes));
        let status = Status { code: 403, reason: reason::FORBIDDEN.to_owned(), message, details, ..Status::default() };
        Self { denial: Some(Denial { status, rules }), ..Self::default() }
    }

    /// Denies the request with 400: the object cannot be parsed.
    pub(crate) fn bad_request(message: String) -> Self {
        let status = Status { code: 400, reason: reason::BAD_REQUEST.to_owned(), message, ..Status::default() };
        Self { denial: Some(Denial { status, rules: vec![] }), ..Self::default() }
    }

    /// The `AdmissionReview` that contains this response.
    pub(crate) fn to_json(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let patch = match self.patch.as_slice() {
            [] => None,
            operations => Some(ByteString(serde_json::to_vec(operations)?)),
        };
        let response = Response {
            uid,
            allowed: self.denial.is_none(),
            status: self.denial.as_ref().map(|denial| &denial.status),
            patch_type: patch.is_some().then_some("JSONPatch"),
            patch,
            warnings: &self.warnings,
        };
        serde_json::to_vec(&ReviewResponse { api_version: META_API_VERSION_V1, kind: META_KIND, response })
    }
}

fn details(causes: Vec<StatusCause>) -> StatusDetails {
    let [name, group, kind, uid] = [const { String::new() }; 4];
    StatusDetails { name, group, kind, uid, causes, retry_after_seconds: 0 }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a> {
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
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(review: &Value) -> Result<AdmissionRequest, String> {
        AdmissionRequest::parse(review.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn unknown_fields_of_an_object_survive_parsing() {
        let object = json!({ "metadata": { "name": "a" }, "spec": { "newer": { "deep": [1, 2.5, null] } } });
        let request = json!({ "uid": "1", "operation": "CREATE", "object": object, "oldObject": null, "newer": true });
        let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        let request = parse(&review).unwrap();
        assert_eq!(request.object, Some(object));
        assert_eq!((request.old_object, request.operation), (None, Operation::Create));
    }

    #[test]
    fn the_managed_fields_of_both_objects_are_removed() {
        let object = json!({ "metadata": { "name": "a", "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] } });
        let request = json!({ "uid": "1", "operation": "UPDATE", "object": object, "oldObject": object });
        let request = parse(&json!({ "apiVersion": "admission.k8s.io/v1", "request": request })).unwrap();
        let expected = Some(json!({ "metadata": { "name": "a" } }));
        assert_eq!((&request.object, &request.old_object), (&expected, &expected));
    }

    #[test]
    fn an_invalid_review_is_rejected_with_the_reason() {
        assert!(parse(&json!([])).unwrap_err().starts_with("the body is not an AdmissionReview"));
        let beta = json!({ "apiVersion": "admission.k8s.io/v1beta1" });
        assert!(parse(&beta).unwrap_err().contains("only admission.k8s.io/v1 is supported"));
        let empty = json!({ "apiVersion": "admission.k8s.io/v1" });
        assert_eq!(parse(&empty).unwrap_err(), "the AdmissionReview has no request");
    }

    fn serialized(response: &AdmissionResponse) -> Value {
        serde_json::from_slice(&response.to_json("7").unwrap()).unwrap()
    }

    #[test]
    fn a_response_has_no_empty_fields() {
        let review = |response: Value| json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
        assert_eq!(serialized(&AdmissionResponse::default()), review(json!({ "uid": "7", "allowed": true })));
        let path = json_patch::jsonptr::PointerBuf::from_tokens(["a"]);
        let change = PatchOperation::Remove(json_patch::RemoveOperation { path });
        let patched = AdmissionResponse { patch: vec![change], ..AdmissionResponse::default() };
        let base64 = "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=";
        let response = json!({ "uid": "7", "allowed": true, "patchType": "JSONPatch", "patch": base64 });
        assert_eq!(serialized(&patched), review(response));
        let denied = AdmissionResponse::bad_request("no set".to_owned());
        let status = json!({ "code": 400, "reason": "BadRequest", "message": "no set" });
        assert_eq!(serialized(&denied), review(json!({ "uid": "7", "allowed": false, "status": status })));
    }
}
