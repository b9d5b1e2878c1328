//! `ComputeDomainClique`: the entries of the daemons of one clique of a domain.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::{CLIQUE_LABEL, DOMAIN_LABEL};

/// A clique: the nodes of a domain that share one `NVLink` partition. Its object is in the namespace of the daemons and has no
/// status subresource. The daemons' pods own it, so it is deleted after the last of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputeDomainClique {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The entries of the daemons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemons: Vec<Entry>,
}

impl ComputeDomainClique {
    /// The labels of the object of a clique.
    pub fn labels(domain_uid: &str, clique: &str) -> BTreeMap<String, String> {
        [(DOMAIN_LABEL, domain_uid), (CLIQUE_LABEL, clique)]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// An owner reference to the pod of a daemon.
    pub fn owner(pod_name: &str, pod_uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod_name.to_owned(),
            uid: pod_uid.to_owned(),
            ..OwnerReference::default()
        }
    }
}
