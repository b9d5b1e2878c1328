//! What came of a plan: one outcome per step that was tried, with the server's words where it refused.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

use kube::core::Status;

use crate::{plan::Target, telemetry::error_chain};

/// What came of the steps that were tried.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// In the order of the plan. Steps after a failed stage are not in it.
    pub outcomes: Vec<Outcome>,
}

impl Done {
    /// The refusals.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err())
    }

    /// The steps that were refused, with why.
    pub fn refused(&self) -> impl Iterator<Item = (&Outcome, &Failure)> {
        self.outcomes.iter().filter_map(|outcome| Some((outcome, outcome.result.as_ref().err()?)))
    }

    /// Whether nothing was refused.
    pub fn succeeded(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Whether objects came or went by it, so that the watches will tell of that; what is said before that is out of date.
    pub fn will_be_heard_of(&self) -> bool {
        self.succeeded() && self.outcomes.iter().any(|outcome| outcome.verb != "patch")
    }

    /// The first refusal as an error, to hand to the controller, which then comes back with backoff.
    pub fn into_result(self) -> Result<(), Error> {
        let refused = |Outcome { stage: _, verb: _, target, result }| Some((target, result.err()?));
        match self.outcomes.into_iter().find_map(refused) {
            Some((target, failure)) => Err(Error::Refused { target: Box::new(target), failure }),
            None => Ok(()),
        }
    }
}

/// What came of one step.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The stage it belonged to.
    pub stage: &'static str,
    /// `create`, `patch` or `delete`.
    pub verb: &'static str,
    /// What it was about; of what was created, or was there already, with its uid.
    pub target: Target,
    /// Success includes that somebody else was faster.
    pub result: Result<(), Failure>,
}

/// What 401 means to a service, whatever it asked for.
const NO_TOKEN: &str = "the token of this service is not accepted, it may have expired";

/// What 403 means to a service that asks for what it always needs.
const NO_RULE: &str = "the account of this service lacks a rule";

/// A refusal, mostly in the server's words, or a request that never got an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status; 0 when there was no answer.
    pub code: u16,
    /// The server's word for it; `NameTaken` when a name belongs to somebody else; `Transport` or `Timeout`.
    pub reason: String,
    /// The server's sentence, with what it means to a service where that is not in it; or why there was no answer.
    pub message: String,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    pub(super) namespace_is_leaving: bool,
    pub(super) is_failed_test: bool,
}

impl Failure {
    /// The reason when the name of a child belongs to an object that is not ours.
    pub const NAME_TAKEN: &str = "NameTaken";

    /// The reason when this process may not write: another replica acts, or might.
    pub const NOT_LEADING: &str = "NotLeading";

    /// The reason when the API server does not know the kind.
    pub const NOT_SERVED: &str = "NotServed";

    pub(super) fn not_leading() -> Self {
        Self::new(0, Self::NOT_LEADING, "this replica does not hold the lease of its service")
    }

    /// Whether it is this object that the server does not want, and not every request at this time or of its kind.
    pub fn is_of_the_object(&self) -> bool {
        matches!(self.code, 400 | 403 | 404 | 409 | 422) && self.reason != Self::NOT_SERVED
    }

    /// A failure without further details.
    pub fn new(code: u16, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), ..Self::default() }
    }

    /// The refusal of what a service always needs. Of a write 403 may mean much else: a quota, a webhook.
    pub(crate) fn of_need(status: &Status) -> Self {
        let failure = Self::from_status(status);
        match failure.code {
            403 => Self { message: [&*failure.message, NO_RULE].join("; "), ..failure },
            _ => failure,
        }
    }

    fn from_status(status: &Status) -> Self {
        // The answer to an unknown path is no status of an object, but plain text.
        if status.code == 404 && status.reason != "NotFound" {
            let why = "the API server does not serve this kind; its definition has to be installed";
            return Self::new(404, Self::NOT_SERVED, why);
        }
        if status.code == 401 {
            return Self::new(401, &*status.reason, [&*status.message, NO_TOKEN].join("; "));
        }
        let causes = status.details.iter().flat_map(|details| &details.causes).collect::<Vec<_>>();
        let missing_namespace = status.code == 404 && status.details.as_ref().is_some_and(|d| d.kind == "namespaces");
        let retry_after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Self {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            retry_after: (retry_after > 0).then(|| Duration::from_secs(retry_after.into())),
            namespace_is_leaving: missing_namespace || causes.iter().any(|c| c.reason == "NamespaceTerminating"),
            // A refusal for what the object would become names the fields; a failed test of a patch names none.
            is_failed_test: status.code == 422 && causes.iter().all(|cause| cause.field.is_empty()),
        }
    }
}

impl From<&kube::Error> for Failure {
    fn from(error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::from_status(status);
        }
        Self::new(0, "Transport", error_chain(error))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { code, reason, message, .. } = self;
        match code {
            0 => write!(f, "{reason}: {message}"),
            code => write!(f, "{code} {reason}: {message}"),
        }
    }
}

impl std::error::Error for Failure {}

/// A write that the executor could not make.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused or did not answer.
    #[error("could not write {target}")]
    Refused {
        /// What was to be written.
        target: Box<Target>,
        /// Why not.
        #[source]
        failure: Failure,
    },
    /// The value is not JSON.
    #[error("could not serialise the status")]
    Serialize(#[source] serde_json::Error),
}

/// What came of a step that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changed the cluster.
    Done,
    /// It created the object with this uid.
    Created(Option<String>),
    /// The object to be created was there already, with this uid.
    Found(Option<String>),
    /// Somebody else was faster.
    Moot,
}

impl Effect {
    /// Whether the step was what changed the cluster.
    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Done | Self::Created(_) => true,
            Self::Found(_) | Self::Moot => false,
        }
    }

    /// The target, with what the step learned about it.
    pub(super) fn learned(self, target: &Target) -> Target {
        match self {
            Self::Created(uid) | Self::Found(uid) => Target { uid, ..target.clone() },
            Self::Done | Self::Moot => target.clone(),
        }
    }
}
