//! The process shell of every Grove service: configuration, leader election, informers, and the modules of `grove-process`.
//!
//! Modules in reading order: a [`process`] starts its [`runtime::Runtime`]; that starts informers, which fill [`caches`].
//! The crate contains no rule of the Grove API.

#![deny(missing_docs)]

pub mod process;
pub mod runtime;

pub mod args;
pub mod config;

pub mod metrics;

mod identity;
pub mod leader_election;
pub mod leadership;

pub mod caches;
mod foreign_owners;
pub mod live_list;
pub mod object_decoding;

pub mod clock;

pub use grove_process::{
    api_error, backoff, client, failure_log, health_and_metrics, listen, rbac, ready, signals, telemetry,
};
