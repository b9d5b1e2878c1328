//! What came of a plan: one outcome per step that was tried, with the server's words where it refused.

use grove_runtime::api_error::ApiError;

use crate::plan::Target;

/// What came of the steps that were tried.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// In the order of the plan. Steps after a failed stage are not in it.
    pub outcomes: Vec<Outcome>,
}

impl Done {
    /// The refusals.
    pub fn failures(&self) -> impl Iterator<Item = &ApiError> {
        self.outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err())
    }

    /// The steps that were refused, with why.
    pub fn refused(&self) -> impl Iterator<Item = (&Outcome, &ApiError)> {
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
    pub result: Result<(), ApiError>,
}

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
        failure: ApiError,
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
