//! The error of a reconcile, which makes the controller retry it with backoff
//! ([`Backoff::for_objects`](grove_runtime::backoff::Backoff::for_objects)).

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
        source: kube::Error,
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
    /// When to reconcile the object again if the retry is later.
    pub fn requeue(&self) -> Requeue {
        match self {
            Self::Execute { source: _, requeue } | Self::WriteStatus { source: _, requeue } => *requeue,
            Self::Read { .. } => Requeue::AwaitChange,
        }
    }
}
