//! The `ComputeDomain` of NVIDIA's DRA driver, with only the fields that Grove reads and writes.
//!
//! The modules below decide how the state of a domain is synchronized: which nodes it has, which index each node has in its
//! clique, and whether their daemons are ready. They are values and pure functions that mnnvl-controller, compute-domain-daemon
//! and the benchmark share. Start with [`strategy`] for the ways to synchronize, and with [`daemon`] for what a daemon does.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};

pub mod assignment;
pub mod clique;
pub mod daemon;
pub mod daemon_pod;
pub mod daemon_state;
pub mod entry;
pub mod problem;
pub mod request;
pub mod stale_entries;
pub mod state_object;
pub mod status;
pub mod strategy;
pub mod summary;

use self::clique::ComputeDomainClique;
use self::status::ComputeDomainStatus;

/// The name of its CRD.
pub const CRD: &str = "computedomains.resource.nvidia.com";
/// Its API group.
pub const GROUP: &str = "resource.nvidia.com";
/// The version of its API.
pub const VERSION: &str = "v1beta1";

/// Label of daemon pods, cliques and nodes: the UID of the domain.
pub const DOMAIN_LABEL: &str = "resource.nvidia.com/computeDomain";
/// Label of daemon pods and cliques: the ID of the clique. Empty for a pod on a node without `NVLink` fabric.
pub const CLIQUE_LABEL: &str = "resource.nvidia.com/computeDomain.cliqueID";

/// Label of the claim templates of a domain: `Daemon` or `Workload`, by the pods whose claims they describe.
pub const TARGET_LABEL: &str = "resource.nvidia.com/computeDomainTarget";
/// The DRA driver whose devices the claims get.
pub const DRIVER: &str = "compute-domain.nvidia.com";
/// The class of the devices of daemons.
pub const DAEMON_CLASS: &str = "compute-domain-daemon.nvidia.com";
/// The class of the devices of pods that use a domain.
pub const CHANNEL_CLASS: &str = "compute-domain-default-channel.nvidia.com";
/// Annotation of a domain: the strategy by which its state is synchronized. It is written once, so that another configuration affects
/// only later domains.
pub const STRATEGY_ANNOTATION: &str = "grove.io/compute-domain-sync-strategy";

/// A `ComputeDomain`: nodes whose GPUs communicate through one `NVLink` fabric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputeDomain {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state, which is immutable.
    #[serde(default)]
    pub spec: ComputeDomainSpec,
}

/// The state of a `ComputeDomain`, as its daemons read and write it. It is a type of its own, so that a service that needs only the spec
/// neither stores the nodes nor depends on their form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputeDomainState {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The state.
    #[serde(default)]
    pub status: ComputeDomainStatus,
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

/// Implements [`Resource`] for a type of a kind of the driver.
macro_rules! resource {
    ($type:ty, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(ComputeDomain, "ComputeDomain", "computedomains");
resource!(ComputeDomainState, "ComputeDomain", "computedomains");
resource!(ComputeDomainClique, "ComputeDomainClique", "computedomaincliques");
