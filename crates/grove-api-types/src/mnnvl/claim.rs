//! The claim by which the pods of a clique use a compute domain: one entry in the pod spec, and a reference in each container with GPUs.

use serde_json::{Value, json};

use super::{container_requests_gpu, has_domain_claim, requests_gpu};
use crate::names::{ComputeDomainName, PodClaimName};
use crate::pod_spec::{RawPodSpec, push_named};

/// Adds the claim of the domain to the pod, and a reference to it to each container and init container that requests GPUs. Other claims
/// and references stay. The pod does not change if no container requests GPUs, or if the pod has an own claim with the name of the claim.
pub fn inject_claim(pod: &mut RawPodSpec, domain: &ComputeDomainName) {
    if !requests_gpu(pod) || has_domain_claim(pod) {
        return;
    }
    let claim = PodClaimName::of_compute_domain();
    let claim = claim.as_str();
    let entry = json!({ "name": claim, "resourceClaimTemplateName": domain.as_str() });
    pod.edit(|fields| {
        push_named(fields.entry("resourceClaims").or_insert(Value::Null), entry);
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for container in containers.filter(|container| container_requests_gpu(container)) {
                push_named(&mut container["resources"]["claims"], json!({ "name": claim }));
            }
        }
    });
}
