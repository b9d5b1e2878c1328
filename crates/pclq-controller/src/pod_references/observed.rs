//! The snapshot of a gang and its pods.

use std::sync::Arc;

use grove_api_types::scheduler_v1alpha1::PodGang;

/// A gang and the cliques of its pod groups.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) gang: Arc<PodGang>,
    /// The clique of each pod group; `None` if it does not exist or is terminating.
    pub(super) members: Vec<Option<Member>>,
}

/// The pods of a clique.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The number of desired pods.
    pub(super) desired: usize,
    /// The names of the live pods, by index.
    pub(super) pods: Vec<String>,
}
