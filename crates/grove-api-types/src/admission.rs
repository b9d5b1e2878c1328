//! Admission: defaults, and the rules that decide whether an object is accepted.
//!
//! Both are pure functions of the object, the old object and facts about the cluster. Every service applies the same
//! defaults to the objects that it reads, so that it also understands objects that were stored without the webhook.

mod authorize;
mod cluster_topology;
pub mod default;
mod error_collector;
mod facts;
mod field_path;
pub(crate) mod messages;
mod mutate;
mod rule;
mod scale;
mod validate;
pub mod validating_admission_policy;
mod validation_result;

pub use authorize::{ALWAYS_EXEMPT, Attributes, Authorization, Operation, ParentSet, authorize};
pub use cluster_topology::{
    validate_cluster_topology_create, validate_cluster_topology_update, validate_topology_binding_create,
    validate_topology_binding_update, validate_topology_delete,
};
pub use facts::{Facts, ReferencingSet, TopologyFacts};
pub use field_path::FieldPath;
pub use mutate::{default_cluster_topology, default_pod_clique_set};
pub use rule::Rule;
pub use scale::{ScaleTarget, validate_scale};
pub use validate::{validate_create, validate_update, validated_keys};
pub use validation_result::{ValidationResult, Violation};
