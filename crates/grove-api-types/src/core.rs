//! Group `grove.io/v1alpha1`: the kinds users write and the kinds Grove derives from them.

pub mod pod_clique;
pub mod pod_clique_set;
mod status;

pub use pod_clique::{PodClique, PodCliqueSpec, PodCliqueStatus};
pub use pod_clique_set::{
    HeadlessServiceConfig, PodCliqueSet, PodCliqueSetSpec, PodCliqueSetStatus, PodCliqueSetTemplate, PodCliqueTemplate,
};
pub use status::LastError;
