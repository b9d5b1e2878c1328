//! What the state of a domain depends on of the pod of a daemon.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use super::CLIQUE_LABEL;
use super::entry::{self, Entry, Readiness};
use crate::deletion::is_terminating;

/// Annotation of the pod of a daemon: the index with which the daemon starts IMEX. The daemon writes it before it starts IMEX, and
/// only with [`super::strategy::Strategy::ControllerClique`].
pub const INDEX_ANNOTATION: &str = "grove.io/compute-domain-index";

/// The object of the pod, with only the fields that are read. It must never be sent to the API server, because all other fields would be
/// lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub struct DaemonPodObject {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pod_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<PodCondition>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct PodCondition {
    r#type: String,
    status: String,
}

impl DaemonPodObject {
    /// Whether the pod runs and is ready.
    pub fn is_ready(&self) -> bool {
        let conditions = self.status.conditions.iter().flatten();
        let mut ready = conditions.filter(|condition| condition.r#type == "Ready");
        self.status.phase.as_deref() == Some("Running") && ready.any(|condition| condition.status == "True")
    }

    /// The value of [`INDEX_ANNOTATION`].
    pub fn index(&self) -> Option<i64> {
        self.annotations().get(INDEX_ANNOTATION)?.parse().ok()
    }

    /// The pod of the daemon; `None` before it has a node and an address.
    pub fn daemon_pod(&self) -> Option<DaemonPod> {
        let (node, ip) = (self.spec.node_name.clone()?, self.status.pod_ip.clone()?);
        let has_ended = matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        Some(DaemonPod {
            name: self.name_any(),
            uid: self.uid().unwrap_or_default(),
            node,
            ip,
            clique: self.labels().get(CLIQUE_LABEL).cloned(),
            index: self.index(),
            is_ready: self.is_ready(),
            is_ending: has_ended || is_terminating(self),
            created: self.metadata.creation_timestamp.clone(),
        })
    }
}

/// The pod of a daemon. A pod without node or address is not one yet.
#[derive(Clone, Debug, PartialEq)]
pub struct DaemonPod {
    /// The name of the pod.
    pub name: String,
    /// The UID of the pod.
    pub uid: String,
    /// The node on which the pod runs.
    pub node: String,
    /// The address of the pod.
    pub ip: String,
    /// The value of [`super::CLIQUE_LABEL`]; `None` before the daemon has labelled its pod.
    pub clique: Option<String>,
    /// The value of [`INDEX_ANNOTATION`]; `None` if it is absent or no number.
    pub index: Option<i64>,
    /// Whether the pod is ready.
    pub is_ready: bool,
    /// Whether the pod is terminating or has ended.
    pub is_ending: bool,
    /// When the pod was created.
    pub created: Option<Time>,
}

impl DaemonPod {
    /// Whether the node of the pod has an `NVLink` fabric. True before the daemon has labelled its pod, because almost all nodes
    /// have one.
    pub fn has_fabric(&self) -> bool {
        self.clique.as_deref() != Some("")
    }

    /// Whether the entry is that of this pod's daemon.
    pub fn owns(&self, entry: &Entry) -> bool {
        self.node == entry.node_name && self.ip == entry.ip_address
    }

    /// The entry that mnnvl-controller writes for the pod.
    pub fn new_entry(&self, clique: &str, index: i64) -> Entry {
        Entry {
            node_name: self.node.clone(),
            ip_address: self.ip.clone(),
            clique_id: clique.to_owned(),
            index,
            status: Readiness::of(self.is_ready),
        }
    }

    /// The entry of the pod in the clique, if it has one.
    pub fn entry<'a>(&self, entries: &'a [Entry]) -> Option<&'a Entry> {
        entry::of_node(entries, &self.node)
    }
}
