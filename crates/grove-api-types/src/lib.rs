//! The vocabulary of Grove: API types, names, labels, hashes, defaults, and what a `PodCliqueSet` implies.
//!
//! Everything here is a value or a function over values. What may never be here: I/O, a client, an async runtime, a
//! clock, and decisions about what to do next; those live in the services.

#![deny(missing_docs)]

pub mod admission;
pub mod conditions;
pub mod configuration;
pub mod crds;
pub mod deletion;
pub mod duration;
pub mod environment;
pub mod error_codes;
pub mod events;
pub mod expansion;
pub mod hash;
pub mod labels;
pub mod mnnvl;
pub mod names;
pub mod ownership;
pub mod pod_spec;
pub mod raw;
pub mod resource_sharing;
pub mod scheduler;
pub mod scheduler_v1alpha1;
pub mod syntax;
pub mod topology;
pub mod unsupported_fields;
pub mod v1alpha1;

/// The namespace that Grove's services run in.
pub const SYSTEM_NAMESPACE: &str = "grove-system";
/// The user name of the `ServiceAccount` of a service begins with this; the name of the service follows.
pub const SERVICE_USER_PREFIX: &str = "system:serviceaccount:grove-system:";
