//! The cliques and pods of a replica of a set, with only the fields that show whether the replica still uses its domains.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::caches::{Index, IndexScope};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer, Serialize};

/// The cliques of each replica of a set.
pub(crate) const BY_REPLICA: Index<SlimClique> =
    Index { name: "replica", values: replica_of, scope: IndexScope::Namespaced };
/// The pods that name the claim template of each domain.
pub(crate) const BY_DOMAIN: Index<SlimPod> =
    Index { name: "domain", values: domains_of, scope: IndexScope::Namespaced };

/// A clique in a cache. It must never be sent to the API server, because all fields that are missing here would be lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = PodClique)]
pub(crate) struct SlimClique {
    /// The metadata without annotations, and with only the labels that name the replica.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// A pod in a cache. It must never be sent to the API server, either.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct SlimPod {
    /// The metadata without annotations and owners, and with only the labels that name the replica.
    #[serde(default, deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// A pod in a live LIST.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LivePod {
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_claims: Option<Vec<PodClaim>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodClaim {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_claim_template_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_claim_statuses: Option<Vec<PodClaimStatus>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodClaimStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_claim_name: Option<String>,
}

/// How a pod uses a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainUse {
    /// It does not use it, or has ended.
    No,
    /// It waits for its claim, and gets one of the next domain if this one is deleted.
    Awaited,
    /// It has a claim of it, or is bound to a node.
    Claimed,
}

/// How the pod uses the domain with this claim template. A terminating pod uses it until it has ended.
fn domain_use(spec: &PodSpec, status: &PodStatus, template: &str) -> DomainUse {
    let is_of_domain = |claim: &&PodClaim| claim.resource_claim_template_name.as_deref() == Some(template);
    let Some(claim) = spec.resource_claims.iter().flatten().find(is_of_domain) else { return DomainUse::No };
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return DomainUse::No;
    }
    let is_bound = spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
    let has_claim = |status: &PodClaimStatus| status.name == claim.name && status.resource_claim_name.is_some();
    let is_claimed = is_bound || status.resource_claim_statuses.iter().flatten().any(has_claim);
    if is_claimed { DomainUse::Claimed } else { DomainUse::Awaited }
}

fn slim_metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let mut metadata = ObjectMeta::deserialize(from)?;
    metadata.annotations = None;
    if let Some(labels) = &mut metadata.labels {
        labels.retain(|key, _| key == PART_OF || key == SET_REPLICA);
    }
    Ok(metadata)
}

impl SlimClique {
    /// Whether the clique may still create pods. A clique of another owner has the labels by mistake.
    pub(crate) fn is_active(&self) -> bool {
        !is_terminating(self) && may_be_of_set(&self.metadata)
    }
}

impl SlimPod {
    /// How the pod uses the domain with this claim template.
    pub(crate) fn use_of(&self, template: &str) -> DomainUse {
        domain_use(&self.spec, &self.status, template)
    }

    /// The claim templates that the pod names.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &str> {
        let claims = self.spec.resource_claims.iter().flatten();
        claims.filter_map(|claim| claim.resource_claim_template_name.as_deref())
    }
}

impl LivePod {
    /// How the pod uses the domain with this claim template.
    pub(crate) fn use_of(&self, template: &str) -> DomainUse {
        domain_use(&self.spec, &self.status, template)
    }
}

/// Whether a set or a scaling group controls the object, or nothing: an orphan deletion of a set leaves cliques that still create pods.
pub(crate) fn may_be_of_set(metadata: &ObjectMeta) -> bool {
    controller_of(metadata)
        .is_none_or(|owner| is_of_kind::<PodCliqueSet>(owner) || is_of_kind::<PodCliqueScalingGroup>(owner))
}

/// Whether the object has the labels that name a replica of a set.
pub(crate) fn is_of_replica<K: Resource>(object: &K) -> bool {
    let labels = object.labels();
    labels.contains_key(PART_OF) && labels.contains_key(SET_REPLICA)
}

/// Whether the pod has the labels that name a replica of a set, and a claim from a template.
pub(crate) fn may_use_a_domain(pod: &SlimPod) -> bool {
    is_of_replica(pod) && pod.templates().next().is_some()
}

fn replica_of(clique: &SlimClique) -> Vec<Cow<'_, str>> {
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    let labels = clique.labels();
    let set_and_replica = labels.get(PART_OF).zip(labels.get(SET_REPLICA));
    set_and_replica.map(|(set, replica)| Cow::Owned(replica_key(namespace, set, replica))).into_iter().collect()
}

/// Namespace and name of a set, and a replica; none of them contains a slash.
pub(crate) fn replica_key(namespace: &str, set: &str, replica: &str) -> String {
    format!("{namespace}/{set}/{replica}")
}

fn domains_of(pod: &SlimPod) -> Vec<Cow<'_, str>> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    pod.templates().map(|template| Cow::Owned(domain_key(namespace, template))).collect()
}

/// Namespace and claim template of a domain; neither contains a slash.
pub(crate) fn domain_key(namespace: &str, template: &str) -> String {
    format!("{namespace}/{template}")
}

/// The labels that all cliques and pods of the replica have; without a replica, those of the whole set.
pub(crate) fn selector(set: &str, replica: Option<i32>) -> BTreeMap<String, String> {
    let mut selector = BTreeMap::from([(PART_OF.to_owned(), set.to_owned())]);
    selector.extend(replica.map(|replica| (SET_REPLICA.to_owned(), replica.to_string())));
    selector
}
