//! Support for tests against a real control plane: a namespace for each test, informers for its objects, and dev clusters for
//! tests that disturb others.
//!
//! Tests wait for states of objects, never for time to pass, and use no code of the services.

#![allow(clippy::expect_used, clippy::panic, reason = "support code of tests: any failure fails the test")]

pub mod access;
pub mod audit;
pub mod binding_log;
mod cluster_objects;
pub mod compute_domains;
pub mod crash_injection;
pub mod events;
pub mod fixtures;
pub mod init_containers;
pub mod kubectl;
pub mod kustomize;
pub mod metrics;
pub mod namespace;
pub mod namespace_state;
pub mod native_gangs;
pub mod normalized;
pub mod poll;
mod pool;
mod processes;
pub mod propagation;
pub mod proxy;
pub mod resource_claims;
pub mod schema;
pub mod service_replica;
pub mod snapshot;
pub mod standalone;
pub mod test_cluster;
mod timing;
pub mod watch_history;
mod xtask;

pub use namespace::{Namespace, in_namespace};
pub use namespace_state::NamespaceState;
pub use test_cluster::TestCluster;
