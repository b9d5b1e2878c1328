//! The result of a plan's execution: one result per executed step.

use grove_runtime::api_error::ApiError;

use crate::plan::Target;

/// The result of a plan's execution.
#[derive(Clone, Debug, Default)]
pub struct ExecutionResult {
    /// The results of the steps that were sent, in the order of the plan.
    pub steps: Vec<StepResult>,
}

impl ExecutionResult {
    /// The errors of all failed steps.
    pub fn failures(&self) -> impl Iterator<Item = &ApiError> {
        self.steps.iter().filter_map(|step| step.result.as_ref().err())
    }

    /// The failed steps, each with its error.
    pub fn failed_steps(&self) -> impl Iterator<Item = (&StepResult, &ApiError)> {
        self.steps.iter().filter_map(|step| Some((step, step.result.as_ref().err()?)))
    }

    /// Whether no step failed.
    pub fn succeeded(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Whether the plan created or deleted objects. Their watch events trigger the next reconcile; a status from before these
    /// events is outdated.
    pub fn has_pending_watch_events(&self) -> bool {
        self.succeeded() && self.steps.iter().any(|step| step.verb != "patch")
    }

    /// The first failure.
    ///
    /// # Errors
    /// If a step failed. The controller then retries with backoff.
    pub fn into_result(self) -> Result<(), Error> {
        let failure = |StepResult { target, result, .. }| Some((target, result.err()?));
        match self.steps.into_iter().find_map(failure) {
            Some((target, error)) => Err(Error::Write { target: Box::new(target), error }),
            None => Ok(()),
        }
    }
}

/// The result of one step.
#[derive(Clone, Debug)]
pub struct StepResult {
    /// The stage of the step.
    pub stage: &'static str,
    /// `create`, `patch` or `delete`.
    pub verb: &'static str,
    /// The object of the step. The UID is that of the created object, or of the object that existed already.
    pub target: Target,
    /// A step also succeeds if another client wrote the change first.
    pub result: Result<(), ApiError>,
    /// The object was not deleted, because it has another version than the observed one.
    pub is_changed: bool,
    /// The bytes of the manifest of a create; 0 for any other step.
    pub bytes: usize,
}

impl StepResult {
    /// The result of a step that was sent in its own request.
    pub fn new(stage: &'static str, verb: &'static str, target: Target, result: Result<(), ApiError>) -> Self {
        Self { stage, verb, target, result, is_changed: false, bytes: 0 }
    }
}

/// A write that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server rejected the write, or did not respond.
    #[error("could not write {target}")]
    Write {
        /// The object to write.
        target: Box<Target>,
        /// The error of the request.
        #[source]
        error: ApiError,
    },
    /// The status is not JSON.
    #[error("could not serialise the status")]
    Serialize(#[source] serde_json::Error),
}

/// The effect of a step that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The step changed the object.
    Applied,
    /// The step created the object with this UID.
    Created(Option<String>),
    /// The object existed already with this UID, and our owner controls it.
    AlreadyOwned(Option<String>),
    /// Another client changed or deleted the object first.
    Superseded,
    /// The object still exists, in another version than the one that the delete expects.
    ChangedBeforeDelete,
}

impl Effect {
    /// Whether the step changed the cluster.
    pub(super) fn is_own(&self) -> bool {
        match self {
            Self::Applied | Self::Created(_) => true,
            Self::AlreadyOwned(_) | Self::Superseded | Self::ChangedBeforeDelete => false,
        }
    }

    /// The target, with the UID from the response.
    pub(super) fn resolve(self, target: &Target) -> Target {
        match self {
            Self::Created(uid) | Self::AlreadyOwned(uid) => Target { uid, ..target.clone() },
            Self::Applied | Self::Superseded | Self::ChangedBeforeDelete => target.clone(),
        }
    }
}
