//! The `PodClique` of one standalone clique in one replica.

use grove_api_types::expansion::{Clique, SetReplica};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use kube::ResourceExt;

use crate::children::{Revision, desired};

/// The desired clique.
pub(crate) fn pod_clique(
    set: &PodCliqueSet,
    revision: &Revision,
    replica: &SetReplica<'_>,
    clique: &Clique<'_>,
) -> PodClique {
    let index = replica.index.to_string();
    let own = [(labels::SET_REPLICA, index.as_str()), (labels::POD_GANG, replica.base_gang.as_str())];
    let own = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::SetPodClique, own);
    desired::pod_clique(set, clique, revision, own)
}
