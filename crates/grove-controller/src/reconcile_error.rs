//! The error of a reconcile, which makes the controller retry it with backoff
//! ([`Backoff::for_objects`](grove_runtime::backoff::Backoff::for_objects)).

use grove_runtime::api_error::ApiError;

use crate::{executor, requeue::Requeue};

/// Why a reconcile failed. A failure drops no deadline of its reconcile.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A step of the plan failed; the status of the object has the message.
    #[error("could not execute the plan")]
    Execute {
        /// The failed write.
        source: executor::Error,
        /// When to reconcile the object again if the retry is later.
        requeue: Requeue,
    },
    /// An object that the plan depends on could not be read.
    #[error("could not read {name}")]
    Read {
        /// The name of the object.
        name: String,
        /// The failed request.
        source: ApiError,
        /// When to reconcile the object again if the retry is later.
        requeue: Requeue,
    },
    /// The status could not be written.
    #[error("could not write the status")]
    WriteStatus {
        /// The failed write.
        source: executor::Error,
        /// When to reconcile the object again if the retry is later.
        requeue: Requeue,
    },
}

impl ReconcileError {
    /// The error of a reconcile that reads this object before it has a plan, and so no deadline.
    pub fn read(name: impl Into<String>, error: &kube::Error) -> Self {
        Self::Read { name: name.into(), source: ApiError::from(error), requeue: Requeue::AwaitChange }
    }

    /// When to reconcile the object again if the retry is later.
    pub fn requeue(&self) -> Requeue {
        match self {
            Self::Execute { requeue, .. } | Self::Read { requeue, .. } | Self::WriteStatus { requeue, .. } => *requeue,
        }
    }
}
