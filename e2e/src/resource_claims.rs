//! The `ResourceClaim`s of sets, scaling groups and cliques, and the allocated devices.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels::{COMPONENT, MANAGED_BY, POD_CLIQUE, POD_INDEX};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::ResourceExt;

mod history;

pub use history::ClaimHistory;

/// Whether Grove created the claim.
pub fn is_shared(claim: &ResourceClaim) -> bool {
    let labels = claim.labels();
    let has = |key: &str, value: &str| labels.get(key).is_some_and(|other| other == value);
    has(MANAGED_BY, "grove-operator") && has(COMPONENT, "resource-claim")
}

/// The names of the claims that a pod refers to, in their order. Claims from a template that the pod names are not among them.
pub fn claim_names(pod: &Pod) -> Vec<String> {
    let claims = pod.spec.as_ref().and_then(|spec| spec.resource_claims.clone()).unwrap_or_default();
    claims.into_iter().filter_map(|claim| claim.resource_claim_name).collect()
}

/// The claims of each pod, by `<clique>/<index>`.
pub fn claims_by_pod<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> BTreeMap<String, Vec<String>> {
    pods.into_iter().map(|pod| (pod_key(pod), claim_names(pod))).collect()
}

/// `<clique>/<index>` of a pod.
pub fn pod_key(pod: &Pod) -> String {
    let label = |key: &str| pod.labels().get(key).map(String::as_str).unwrap_or_default();
    format!("{}/{}", label(POD_CLIQUE), label(POD_INDEX))
}

/// A device: its pool, which has the name of its node, and its name.
pub type Device = (String, String);

/// The devices that are allocated to the claim.
pub fn devices(claim: &ResourceClaim) -> BTreeSet<Device> {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let results = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
    results.into_iter().flatten().map(|result| (result.pool.clone(), result.device.clone())).collect()
}

/// Asserts that each claim has this many devices of one node, that no two claims have the same device, and that the pods with a claim are on
/// its node.
///
/// # Panics
/// If not.
pub fn assert_allocated<'a>(claims: &[ResourceClaim], pods: impl IntoIterator<Item = &'a Pod>, count: usize) {
    let mut nodes = BTreeMap::new();
    let mut all = BTreeSet::new();
    for claim in claims {
        let (name, devices) = (claim.name_any(), devices(claim));
        assert_eq!(devices.len(), count, "{name} has {devices:?}");
        for (node, device) in devices {
            nodes.insert(name.clone(), node.clone());
            assert!(all.insert((node, device)), "a device of {name} is allocated to another claim, too");
        }
    }
    let mut checked = 0;
    for pod in pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        for claim in claim_names(pod).iter().filter(|claim| nodes.contains_key(*claim)) {
            assert_eq!(node.as_ref(), nodes.get(claim), "{} is not on the node of {claim}", pod.name_any());
            checked += 1;
        }
    }
    assert!(checked > 0, "no pod has one of the claims");
}
