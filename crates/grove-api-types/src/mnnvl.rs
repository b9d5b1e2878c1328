//! MNNVL (`NVLink` between nodes): the cliques that request GPUs, and the compute domain of each clique.

use kube::ResourceExt;
use serde_json::Value;

use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::names::PodClaimName;
use crate::pod_spec::RawPodSpec;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec};

/// The extended resource of GPUs.
const GPU: &str = "nvidia.com/gpu";

/// Whether a container or init container of the pod requests GPUs, in its limits or requests. GPUs of resource claims do not
/// count.
pub fn requests_gpu(pod: &RawPodSpec) -> bool {
    let containers = ["containers", "initContainers"].into_iter().filter_map(|field| pod.get(field)?.as_array());
    containers.flatten().any(|container| {
        let amount = |kind: &str| container.get("resources")?.get(kind)?.get(GPU);
        ["limits", "requests"].into_iter().filter_map(amount).any(is_positive)
    })
}

/// Whether a quantity is greater than 0. `0`, `"0"` and `"0.0"` are not.
fn is_positive(quantity: &Value) -> bool {
    match quantity {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Whether the pod has an own claim with the name of the claim of a compute domain.
pub fn has_own_claim(pod: &RawPodSpec) -> bool {
    let name = PodClaimName::of_compute_domain();
    let claims = pod.get("resourceClaims").and_then(Value::as_array);
    claims.into_iter().flatten().any(|claim| claim.get("name").and_then(Value::as_str) == Some(name.as_str()))
}

/// Whether each replica of the set has one compute domain for all its cliques with GPUs.
pub fn is_auto_mnnvl(set: &PodCliqueSet) -> bool {
    set.annotations().get(AUTO_MNNVL).is_some_and(|value| value == AUTO_MNNVL_ENABLED)
}

/// The MNNVL group of a clique: the annotation of the clique, otherwise of its scaling group, otherwise of the set. The value `none`
/// ends the search.
pub fn mnnvl_group<'a>(
    set: &'a PodCliqueSet,
    group: Option<&'a PodCliqueScalingGroupConfig>,
    clique: &'a PodCliqueTemplateSpec,
) -> Option<&'a str> {
    let nearest = clique.annotations.get(MNNVL_GROUP);
    let nearest = nearest.or_else(|| group?.annotations.get(MNNVL_GROUP));
    let nearest = nearest.or_else(|| set.annotations().get(MNNVL_GROUP));
    nearest.map(String::as_str).filter(|group| *group != NO_MNNVL_GROUP)
}
