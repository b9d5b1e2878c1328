//! What is done to objects before they are stored and before they are acted on: defaults, and the rules by which they are
//! accepted or refused.
//!
//! All of it are functions of the object, the object before, and facts about the cluster. Every service applies the same
//! defaults to what it reads, so that an object stored without the webhook is understood the same way.

mod authorize;
mod cluster_topology;
pub mod default;
mod facts;
mod findings;
mod mutate;
mod rule;
mod scale;
pub(crate) mod texts;
mod validate;
mod verdict;

pub use authorize::{ALWAYS_EXEMPT, Authorization, Operation, Parent, Request, authorize};
pub use cluster_topology::{
    validate_cluster_topology_create, validate_cluster_topology_update, validate_topology_binding_create,
    validate_topology_binding_update,
};
pub use facts::{Facts, Referring, TopologyFacts};
pub use mutate::{Change, default_cluster_topology, default_pod_clique_set};
pub use rule::Rule;
pub use scale::{Scaled, validate_scale};
pub use validate::{RULED, validate_create, validate_update};
pub use verdict::{Fault, FieldError, FieldPath, Verdict};
