//! The objects with the label of a domain: its `DaemonSet`, its claim templates and its nodes, with only their metadata.

use std::borrow::Cow;

use grove_api_types::compute_domain::{DOMAIN_LABEL, TARGET_LABEL};
use grove_api_types::deletion::is_terminating;
use grove_api_types::finalizers;
use grove_controller::json_patch::{remove, test};
use grove_controller::plan::Step;
use grove_runtime::caches::{Index, IndexScope};
use json_patch::Patch;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

/// The objects of a domain, by its UID.
pub(super) fn by_domain<K: Resource<DynamicType = ()>>() -> Index<K> {
    Index { name: "domain", values: domain_of, scope: IndexScope::Cluster }
}

/// The UID in the label of the object.
pub(super) fn domain_of<K: Resource<DynamicType = ()>>(object: &K) -> Vec<Cow<'_, str>> {
    object.labels().get(DOMAIN_LABEL).map(|uid| Cow::Borrowed(uid.as_str())).into_iter().collect()
}

/// The `DaemonSet` of a domain. It must never be sent to the API server, because all other fields would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = DaemonSet)]
pub(crate) struct SlimDaemonSet {
    /// The metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
}

/// A claim template of a domain. It must never be sent to the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = ResourceClaimTemplate)]
pub(crate) struct SlimClaimTemplate {
    /// The metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
}

/// The pods whose claims a template describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimTarget {
    /// Those of the daemons.
    Daemon,
    /// Those that use the domain.
    Workload,
}

impl ClaimTarget {
    /// The value of [`TARGET_LABEL`].
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Daemon => "Daemon",
            Self::Workload => "Workload",
        }
    }
}

impl SlimClaimTemplate {
    /// Whether the template is for these pods.
    pub(crate) fn is_for(&self, target: ClaimTarget) -> bool {
        self.labels().get(TARGET_LABEL).is_some_and(|label| label == target.label())
    }
}

/// A node of a domain. NVIDIA's kubelet plugin sets the label. It must never be sent to the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = Node)]
pub(crate) struct SlimNode {
    /// The metadata.
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
}

impl SlimNode {
    /// Removes the label, unless it names another domain by then.
    pub(crate) fn remove_label(&self) -> Option<Step> {
        let uid = self.labels().get(DOMAIN_LABEL)?;
        let path = ["metadata", "labels", DOMAIN_LABEL];
        Some(Step::json_patch(self, Patch(vec![test(&path, uid.as_str()), remove(&path)])))
    }
}

/// Deletes the object, unless it is terminating. Its finalizer keeps it until [`release`].
pub(crate) fn delete<K: Resource<DynamicType = ()>>(object: &K) -> Option<Step> {
    (!is_terminating(object)).then(|| Step::delete(object))
}

/// Removes the finalizer.
pub(crate) fn release<K: Resource<DynamicType = ()>>(object: &K) -> Option<Step> {
    Step::remove_finalizer(object, finalizers::COMPUTE_DOMAIN_STATE)
}
