//! The requests of a daemon.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::TypeMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::clique::ComputeDomainClique;
use super::daemon_pod::INDEX_ANNOTATION;
use super::daemon_state::{DaemonState, Identity};
use super::entry::Entry;
use super::status::ComputeDomainNode;
use super::{CLIQUE_LABEL, ComputeDomainState};
use crate::names::DaemonFieldManager;

/// One request to the API server. Its body is complete.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Request {
    /// What the API server does.
    pub verb: Verb,
    /// The object.
    pub target: Target,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The body. Null for a GET.
    pub body: Value,
}

/// What the API server does with the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// GET, answered from the newest state.
    Get,
    /// POST.
    Create,
    /// PUT with the resource version that the daemon has read.
    Replace,
    /// PATCH by server-side apply.
    Apply {
        /// The owner of the applied fields.
        field_manager: String,
        /// Whether to take over fields of other managers. Otherwise the API server responds with a conflict.
        force: bool,
    },
    /// PATCH with a merge patch.
    MergePatch,
}

/// The kind of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The status of the domain.
    DomainStatus,
    /// The object of the clique.
    Clique,
    /// The daemon's pod.
    Pod,
}

impl Request {
    /// Labels the daemon's pod with its clique.
    pub fn label_pod(identity: &Identity) -> Self {
        Self::patch_pod(identity, &json!({ "labels": { CLIQUE_LABEL: identity.clique } }))
    }

    /// Writes the index of the daemon to its pod.
    pub(in crate::compute_domain) fn publish_index(identity: &Identity, index: i64) -> Self {
        Self::patch_pod(identity, &json!({ "annotations": { INDEX_ANNOTATION: index.to_string() } }))
    }

    /// The patch contains the UID, so that it cannot change another pod of the same name.
    fn patch_pod(identity: &Identity, metadata: &Value) -> Self {
        let mut metadata = metadata.clone();
        metadata["uid"] = json!(identity.pod_uid);
        Self {
            verb: Verb::MergePatch,
            target: Target::Pod,
            namespace: identity.driver_namespace.clone(),
            name: identity.pod_name.clone(),
            body: json!({ "metadata": metadata }),
        }
    }

    /// Replaces the entries in the status of the domain.
    pub(in crate::compute_domain) fn replace_status(domain: &ComputeDomainState, entries: Vec<Entry>) -> Self {
        let (namespace, name) = key(&domain.metadata);
        let mut domain = domain.clone();
        domain.status.nodes = entries.into_iter().map(ComputeDomainNode::from).collect();
        Self { verb: Verb::Replace, target: Target::DomainStatus, namespace, name, body: with_type(&domain) }
    }

    /// Applies the daemon's entry to the status of the domain. Without entry, the API server removes the one that the daemon owns.
    pub(in crate::compute_domain) fn apply_status(daemon: &DaemonState, entry: Option<Entry>) -> Self {
        let identity = &daemon.identity;
        let nodes: Vec<_> = entry.into_iter().map(ComputeDomainNode::from).collect();
        let TypeMeta { api_version, kind } = TypeMeta::resource::<ComputeDomainState>();
        Self {
            verb: apply(daemon, DaemonFieldManager::of_status),
            target: Target::DomainStatus,
            namespace: identity.domain_namespace.clone(),
            name: identity.domain_name.clone(),
            body: json!({ "apiVersion": api_version, "kind": kind, "status": { "nodes": nodes } }),
        }
    }

    /// Creates the object of the clique, with the daemon's pod as its owner.
    pub(in crate::compute_domain) fn create_clique(identity: &Identity) -> Self {
        Self::on_clique(identity, Verb::Create, with_type(&own_clique(identity)))
    }

    /// Replaces the entries of the clique, and adds the owner.
    pub(in crate::compute_domain) fn replace_clique(
        clique: &ComputeDomainClique,
        entries: Vec<Entry>,
        owner: Option<&Identity>,
    ) -> Self {
        let mut clique = clique.clone();
        clique.daemons = entries;
        if let Some(identity) = owner {
            let owners = clique.metadata.owner_references.get_or_insert_default();
            if !owners.iter().any(|owner| owner.uid == identity.pod_uid) {
                owners.push(ComputeDomainClique::owner(&identity.pod_name, &identity.pod_uid));
            }
        }
        let (namespace, name) = key(&clique.metadata);
        Self { verb: Verb::Replace, target: Target::Clique, namespace, name, body: with_type(&clique) }
    }

    /// Applies the daemon's entry and its owner reference to the object of the clique, and creates the object if it does not exist.
    /// Without entry, the API server removes the one that the daemon owns.
    pub(in crate::compute_domain) fn apply_clique(daemon: &DaemonState, entry: Option<Entry>) -> Self {
        let identity = &daemon.identity;
        let clique = ComputeDomainClique { daemons: entry.into_iter().collect(), ..own_clique(identity) };
        Self::on_clique(identity, apply(daemon, DaemonFieldManager::of_clique), with_type(&clique))
    }

    /// Reads the object of the clique.
    pub(in crate::compute_domain) fn read_clique(identity: &Identity) -> Self {
        Self::on_clique(identity, Verb::Get, Value::Null)
    }

    fn on_clique(identity: &Identity, verb: Verb, body: Value) -> Self {
        Self {
            verb,
            target: Target::Clique,
            namespace: identity.driver_namespace.clone(),
            name: identity.clique_object_name(),
            body,
        }
    }
}

fn apply(daemon: &DaemonState, manager: impl Fn(&str) -> DaemonFieldManager) -> Verb {
    Verb::Apply { field_manager: manager(&daemon.identity.node).into(), force: daemon.applies_by_force }
}

/// The object of the clique, as a daemon creates it.
fn own_clique(identity: &Identity) -> ComputeDomainClique {
    let metadata = ObjectMeta {
        namespace: Some(identity.driver_namespace.clone()),
        name: Some(identity.clique_object_name()),
        labels: Some(ComputeDomainClique::labels(&identity.domain_uid, &identity.clique)),
        owner_references: Some(vec![ComputeDomainClique::owner(&identity.pod_name, &identity.pod_uid)]),
        ..ObjectMeta::default()
    };
    ComputeDomainClique { metadata, daemons: Vec::new() }
}

fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The object as JSON, with its API version and kind. An object with string keys is always JSON.
fn with_type<K: Serialize + kube::Resource<DynamicType = ()>>(object: &K) -> Value {
    let TypeMeta { api_version, kind } = TypeMeta::resource::<K>();
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
    value
}
