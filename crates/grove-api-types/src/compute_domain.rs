//! The `ComputeDomain` of NVIDIA's DRA driver, with only the fields that Grove reads and writes.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

/// The name of its CRD.
pub const CRD: &str = "computedomains.resource.nvidia.com";
/// Its API group.
pub const GROUP: &str = "resource.nvidia.com";
/// The version of its API.
pub const VERSION: &str = "v1beta1";

/// A `ComputeDomain`: nodes whose GPUs communicate through one `NVLink` fabric. The driver writes its status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputeDomain {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state, which is immutable.
    #[serde(default)]
    pub spec: ComputeDomainSpec,
}

/// The desired state of a `ComputeDomain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeDomainSpec {
    /// The number of nodes. With 0, the domain consists of the nodes on which pods with its claim run.
    pub num_nodes: i64,
    /// The channel of the domain.
    pub channel: ComputeDomainChannel,
}

/// The channel of a `ComputeDomain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComputeDomainChannel {
    /// The template of the claims by which pods use the domain. The driver creates it.
    pub resource_claim_template: ResourceClaimTemplateReference,
}

/// The name of a `ResourceClaimTemplate` in the namespace of the domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplateReference {
    /// The name.
    pub name: String,
}

impl ComputeDomain {
    /// The template of the claims by which pods use the domain.
    pub fn claim_template(&self) -> &str {
        &self.spec.channel.resource_claim_template.name
    }
}

impl Resource for ComputeDomain {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ComputeDomain".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "computedomains".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
