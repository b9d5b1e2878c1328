//! A domain with the fields that its state depends on.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::compute_domain::status::ComputeDomainStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A domain. It must never be sent to the API server, because all other fields would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = ComputeDomain)]
pub(crate) struct SyncedDomain {
    /// The metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub(crate) spec: DomainSpec,
    /// The state.
    #[serde(default)]
    pub(crate) status: ComputeDomainStatus,
}

/// The desired state of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DomainSpec {
    /// The least number of nodes of a ready domain.
    pub(crate) num_nodes: i64,
}
