//! An error of the Kubernetes API: the server's status, or a request that got no answer.

use std::{
    error::Error,
    fmt::{self, Display, Formatter},
    time::Duration,
};

use grove_api_types::conditions::available;
use kube::core::Status;

/// The meaning of code 401 for a service, for every request.
const UNAUTHORIZED_HINT: &str = "the token of this service is not accepted, it may have expired";

/// The meaning of code 403 for a request that the service always needs.
const FORBIDDEN_HINT: &str = "the account of this service lacks a rule";

/// The longest message. A validation error may contain the whole invalid value. Logs, conditions and the memory about rejected creates
/// need only its begin.
const MAX_MESSAGE: usize = 2048;

/// A request that the API server did not carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status code; 0 if there was no answer.
    pub code: u16,
    /// The server's `reason`, or one of the constants of this type, or `Transport` or `Timeout`.
    pub reason: String,
    /// The server's `message`, with a hint for codes 401 and 403; or why there was no answer.
    pub message: String,
    /// The server's `retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    /// The namespace of the object does not exist or is terminating.
    pub is_namespace_terminating: bool,
    /// A `test` operation of a JSON patch failed.
    pub is_failed_test: bool,
}

impl ApiError {
    /// The reason if the object that has the name is not controlled by our owner.
    pub const NAME_CONFLICT: &str = available::NAME_CONFLICT;

    /// The reason if this process may not write because it does not hold the lease.
    pub const NOT_LEADING: &str = "NotLeading";

    /// The reason if the API server does not serve the kind.
    pub const NOT_SERVED: &str = "NotServed";

    /// An error without further details.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), ..Self::default() }
    }

    /// The error of a write by a process that does not hold the lease.
    pub fn not_leading() -> Self {
        Self::new(0, Self::NOT_LEADING, "this replica does not hold the lease of its service")
    }

    /// Whether the server rejects this object, and not every request at this time or of this kind.
    pub fn is_object_specific(&self) -> bool {
        matches!(self.code, 400 | 403 | 404 | 409 | 422) && self.reason != Self::NOT_SERVED
    }

    /// Whether a quota rejects the create. It rejects other objects of the kind, too. The status of a new quota is unknown until the
    /// quota controller has counted the objects. The message of Kubernetes has the object first, and then the reason. A webhook or a
    /// policy may write of a quota in its own message, which follows another reason and concerns one object.
    pub fn is_quota_rejection(&self) -> bool {
        let reasons = ["exceeded quota: ", "status unknown for quota: "];
        let is_of_quota = |(object, reason): (&str, &str)| {
            !object.contains(": ") && reasons.iter().any(|prefix| reason.starts_with(prefix))
        };
        self.code == 403 && self.message.split_once(" is forbidden: ").is_some_and(is_of_quota)
    }

    /// Whether the server rejects every request at this time: it is unreachable or overloaded, or it does not accept the
    /// credentials. Code 500 may be the failed call of a webhook for some objects only.
    pub fn is_outage(&self) -> bool {
        matches!(self.code, 0 | 401 | 429 | 503 | 504)
    }

    /// The error of a request that got no answer within `limit`.
    pub fn timeout(limit: Duration) -> Self {
        Self::new(0, "Timeout", RequestTimeout(limit).to_string())
    }

    /// The error of a request for a kind that the API server does not serve.
    pub fn not_served() -> Self {
        let message = "the API server does not serve this kind; its definition has to be installed";
        Self::new(404, Self::NOT_SERVED, message)
    }

    /// The error of a request that the service always needs, such as a watch. There, code 403 means a missing RBAC rule; a
    /// write can be forbidden for other reasons, such as a quota.
    #[must_use]
    pub fn for_required_access(self) -> Self {
        match self.code {
            403 => Self { message: [&*self.message, FORBIDDEN_HINT].join("; "), ..self },
            _ => self,
        }
    }
}

impl From<&Status> for ApiError {
    fn from(status: &Status) -> Self {
        // The API server answers an unknown path with plain text instead of a Status.
        if status.code == 404 && status.reason != "NotFound" {
            return Self::not_served();
        }
        let message: String = status.message.chars().take(MAX_MESSAGE).collect();
        if status.code == 401 {
            return Self::new(401, &*status.reason, [&*message, UNAUTHORIZED_HINT].join("; "));
        }
        let causes = status.details.iter().flat_map(|details| &details.causes).collect::<Vec<_>>();
        let missing_namespace = status.code == 404 && status.details.as_ref().is_some_and(|d| d.kind == "namespaces");
        let retry_after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Self {
            code: status.code,
            reason: status.reason.clone(),
            message,
            retry_after: (retry_after > 0).then(|| Duration::from_secs(retry_after.into())),
            is_namespace_terminating: missing_namespace || causes.iter().any(|c| c.reason == "NamespaceTerminating"),
            // A validation error names fields; a failed test of a patch names none.
            is_failed_test: status.code == 422 && causes.iter().all(|cause| cause.field.is_empty()),
        }
    }
}

impl From<&kube::Error> for ApiError {
    fn from(error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::from(&**status);
        }
        if let kube::Error::Service(source) = error
            && let Some(RequestTimeout(limit)) = source.downcast_ref::<RequestTimeout>()
        {
            return Self::timeout(*limit);
        }
        Self::new(0, "Transport", error_chain(error))
    }
}

impl Display for ApiError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { code, reason, message, .. } = self;
        match code {
            0 => write!(f, "{reason}: {message}"),
            code => write!(f, "{code} {reason}: {message}"),
        }
    }
}

impl Error for ApiError {}

/// A request that got no answer within this time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
pub(crate) struct RequestTimeout(pub(crate) Duration);

/// The error and its sources, joined by colons. A text that an earlier error already contains is left out.
pub fn error_chain(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !chain.contains(&text) {
            chain += ": ";
            chain += &text;
        }
        next = source.source();
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        source: Option<Box<Link>>,
    }

    #[test]
    fn only_a_quota_rejects_all_objects_of_a_kind() {
        let forbidden = "podcliques.grove.io \"a\" is forbidden: ";
        let quota = "exceeded quota: small, requested: pods=1";
        let policy = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
        let webhook = "admission webhook \"gpu.example.com\" denied the request: ";
        for (message, expected) in [
            (["", "pods is forbidden: ", quota], true),
            (["", "", quota], false),
            (["", webhook, "team exceeded quota: 8 GPUs"], false),
            (["", webhook, "status unknown for quota: team"], false),
            ([webhook, forbidden, quota], false),
            ([forbidden, policy, quota], false),
            ([forbidden, policy, "pods is forbidden: exceeded quota: small"], false),
        ] {
            let error = ApiError::new(403, "Forbidden", message.concat());
            assert_eq!(error.is_quota_rejection(), expected, "{error}");
        }
        for (code, text, expected) in [
            (403, "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2", true),
            (403, "status unknown for quota: small, resources: pods", true),
            (403, "failed quota: small: must specify limits.cpu", false),
            (403, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", false),
            (500, "exceeded quota: small", false),
        ] {
            let error = ApiError::new(code, "Forbidden", [forbidden, text].concat());
            assert_eq!(error.is_quota_rejection(), expected, "{error}");
        }
    }

    #[test]
    fn a_long_message_is_shortened() {
        let status = Status { code: 422, message: "ä".repeat(5000), ..Status::default() };
        assert_eq!(ApiError::from(&status).message, "ä".repeat(MAX_MESSAGE));
    }

    #[test]
    fn an_error_chain_contains_each_text_once() {
        let root = Link { text: "connection refused", source: None };
        let repeats = Link { text: "could not connect: connection refused", source: Some(Box::new(root)) };
        let top = Link { text: "could not observe", source: Some(Box::new(repeats)) };
        assert_eq!(error_chain(&top), "could not observe: could not connect: connection refused");
    }
}
