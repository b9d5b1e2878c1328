//! A domain with the fields that its state depends on.

use grove_api_types::compute_domain::status::ComputeDomainStatus;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, ResourceClaimTemplateReference, STRATEGY_ANNOTATION};
use grove_api_types::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
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
    /// The channel.
    pub(crate) channel: Channel,
}

/// How pods use the domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Channel {
    /// The template of the claims.
    pub(crate) resource_claim_template: ResourceClaimTemplateReference,
    /// Which channels a claim gets. Default: `Single`.
    pub(crate) allocation_mode: Option<String>,
}

impl SyncedDomain {
    /// Whether the finalizer of the driver protects the objects of the domain.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == finalizers::COMPUTE_DOMAIN_STATE)
    }

    /// The name of the strategy with which the synchronization began; `None` before that.
    pub(crate) fn strategy_name(&self) -> Option<&str> {
        self.annotations().get(STRATEGY_ANNOTATION).map(String::as_str)
    }

    /// Whether the synchronization has begun.
    pub(crate) fn is_registered(&self) -> bool {
        self.has_finalizer() && self.strategy_name().is_some()
    }

    /// The strategy with which the synchronization began, otherwise the `configured` one; `None` for an unknown name.
    pub(crate) fn strategy(&self, configured: Strategy) -> Option<Strategy> {
        self.strategy_name().map_or(Some(configured), Strategy::of_name)
    }
}
