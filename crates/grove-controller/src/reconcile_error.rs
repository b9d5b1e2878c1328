//! The error of a reconcile, which makes the controller retry it with backoff.

use crate::executor;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A step of the plan failed; the status of the object has the message.
    #[error("could not execute the plan")]
    Execute(#[source] executor::Error),
    /// The status could not be written.
    #[error("could not write the status")]
    WriteStatus(#[source] executor::Error),
}
