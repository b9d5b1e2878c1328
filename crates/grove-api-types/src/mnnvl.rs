//! `NVLink` between nodes: which cliques ask for GPUs, and into which fabric each of them is put.

use kube::ResourceExt;
use serde_json::Value;

use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::names::PodClaimName;
use crate::pod_spec::RawPodSpec;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec};

/// The resource by which a container asks for GPUs.
const GPU: &str = "nvidia.com/gpu";

/// Whether a container or init container of the pod asks for GPUs, in its limits or its requests. GPUs that come through
/// resource claims do not count.
pub fn requests_gpu(pod: &RawPodSpec) -> bool {
    let containers = ["containers", "initContainers"].into_iter().filter_map(|field| pod.get(field)?.as_array());
    containers.flatten().any(|container| {
        let amount = |kind: &str| container.get("resources")?.get(kind)?.get(GPU);
        ["limits", "requests"].into_iter().filter_map(amount).any(is_some_of_it)
    })
}

/// Whether a quantity is more than nothing; `0`, `"0"` and `"0.0"` are not.
fn is_some_of_it(quantity: &Value) -> bool {
    match quantity {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Whether the pod has a claim of its own under the name that the claim of a fabric gets.
pub fn has_own_claim(pod: &RawPodSpec) -> bool {
    let name = PodClaimName::of_compute_domain();
    let claims = pod.get("resourceClaims").and_then(Value::as_array);
    claims.into_iter().flatten().any(|claim| claim.get("name").and_then(Value::as_str) == Some(name.as_str()))
}

/// Whether each replica of the set has a fabric of its own, for all its cliques with GPUs.
pub fn is_auto_mnnvl(set: &PodCliqueSet) -> bool {
    set.annotations().get(AUTO_MNNVL).is_some_and(|value| value == AUTO_MNNVL_ENABLED)
}

/// The group whose fabric a clique is put into: the annotation of the clique, else of its scaling group, else of the set.
/// `none` at any of them ends the search.
pub fn group_of<'a>(
    set: &'a PodCliqueSet,
    group: Option<&'a PodCliqueScalingGroupConfig>,
    clique: &'a PodCliqueTemplateSpec,
) -> Option<&'a str> {
    let nearest = clique.annotations.get(MNNVL_GROUP);
    let nearest = nearest.or_else(|| group?.annotations.get(MNNVL_GROUP));
    let nearest = nearest.or_else(|| set.annotations().get(MNNVL_GROUP));
    nearest.map(String::as_str).filter(|group| *group != NO_MNNVL_GROUP)
}
