//! Code that the developer verbs (`xtask`) and the end-to-end tests (`e2e`) share. Nothing that ships depends on it.

pub mod audit_log;
pub mod compute_domain_channels;
pub mod devices;
pub mod http;
pub mod kubeconfig;
pub mod kubectl;
pub mod live_objects;
pub mod process_memory;
pub mod readiness_probe;
pub mod state_file;
pub mod wait;
