//! What the state of a domain depends on of the pod of a daemon.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::entry::{self, Entry, Readiness};

/// Annotation of the pod of a daemon: the index with which the daemon starts IMEX. The daemon writes it before it starts IMEX, and
/// only with [`super::strategy::Strategy::ControllerClique`].
pub const INDEX_ANNOTATION: &str = "grove.io/compute-domain-index";

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
