//! The process shell of every Grove service: configuration, telemetry, client, probes, leader election, informers.
//!
//! Modules in reading order: a [`process`] starts its [`runtime::Runtime`]; that starts informers, which fill [`caches`].
//! The crate contains no rule of the Grove API.

#![deny(missing_docs)]

pub mod process;
pub mod runtime;

pub mod args;
pub mod client;
pub mod config;
pub mod telemetry;

pub mod health_and_metrics;
pub mod listen;
pub mod metrics;
pub mod ready;
pub mod signals;

mod identity;
pub mod leader_election;
pub mod leadership;

pub mod rbac;

pub mod caches;
mod foreign_owners;
pub mod live_list;
pub mod object_decoding;

pub mod api_error;
pub mod backoff;
pub mod clock;
pub mod failure_log;
