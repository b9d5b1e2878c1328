//! The shell every Grove service wears, and the one place that writes to the API server.
//!
//! Modules in reading order: a [`process`] starts its [`service::Service`]; that opens [`caches`], wires a reconciler with
//! [`controller::Wiring`]; the reconciler thinks in [`plan::Plan`]s, and the [`executor::Executor`] carries them out.
//! No rule of the Grove API lives here: this crate knows Kubernetes, not what is built on it.

#![deny(missing_docs)]

pub mod process;
pub mod service;

pub mod args;
pub mod client;
pub mod config;
pub mod telemetry;

pub mod admin;
pub mod metrics;
pub mod ready;
pub mod shutdown;

mod identity;
pub mod leader_election;
pub mod leadership;

pub mod conditions;
pub mod load;
pub mod merge;
pub mod namesake;
pub mod pace;
pub mod plan;
pub mod rbac;

pub mod events;
pub mod executor;
pub mod refusals;

pub mod caches;
pub mod controller;
pub mod slim;
pub mod triggers;

pub mod backoff;
pub mod clock;
mod versions;

#[cfg(test)]
mod mock_api_server;
