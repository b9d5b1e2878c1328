//! What every process of Grove has: a [`client`] of the API server, logs and traces ([`telemetry`]), probes and metrics
//! ([`health_and_metrics`]), and [`signals`]. A service adds a configuration, a leader election and caches (`grove-runtime`). A process
//! that runs on each node has only this.
//!
//! The crate contains no rule of the Grove API.

#![deny(missing_docs)]

pub mod client;
pub mod telemetry;

pub mod health_and_metrics;
pub mod listen;
pub mod ready;
pub mod signals;

pub mod rbac;

pub mod api_error;
pub mod backoff;
pub mod failure_log;
mod token_bucket;
