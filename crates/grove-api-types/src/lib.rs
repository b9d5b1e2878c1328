//! The API of Grove: API types, names, labels, hashes, defaults, validation, and the expansion of a `PodCliqueSet` into the
//! objects that it implies.
//!
//! The crate contains values and pure functions only: no I/O, no client, no async runtime and no clock. The services decide
//! which objects to write.

#![deny(missing_docs)]

pub mod admission;
pub mod annotation_value;
pub mod backoff;
pub mod compute_domain;
pub mod conditions;
pub mod configuration;
pub mod crds;
pub mod deletion;
pub mod duration;
mod enum_decoding;
pub mod environment;
pub mod error_codes;
pub mod events;
pub mod expansion;
pub mod field_error;
pub mod finalizers;
pub mod hash;
pub mod labels;
pub mod mnnvl;
pub mod names;
pub mod ownership;
pub mod pack_affinity;
pub mod pack_constraints;
pub mod pod_group;
pub mod pod_spec;
pub mod raw;
pub mod resource_claim;
pub mod resource_sharing;
pub mod resource_version;
pub mod rolling_update;
pub mod scheduler;
pub mod scheduler_v1alpha1;
pub mod startup;
pub mod syntax;
pub mod text;
pub mod topology;
pub mod unsupported_fields;
pub mod v1alpha1;

/// The namespace that Grove's services run in.
pub const SYSTEM_NAMESPACE: &str = "grove-system";
/// The user name of the `ServiceAccount` of a service begins with this; the name of the service follows.
pub const SERVICE_USER_PREFIX: &str = "system:serviceaccount:grove-system:";
