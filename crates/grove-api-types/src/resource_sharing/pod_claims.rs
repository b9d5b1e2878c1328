//! The references to shared claims in a pod spec: one entry per claim, and a reference in each container.

use serde_json::{Value, json};

use crate::names::{PodClaimName, ResourceClaimName};
use crate::pod_spec::{RawPodSpec, push_named};
use crate::startup::INIT_CONTAINER;

/// Adds the claims to the pod, in this order, and a reference to each of them to every container and init container of the user. Other claims
/// and references stay. A claim is not added if the pod has an own claim with its name, which admission denies.
pub fn inject(pod: &mut RawPodSpec, claims: &[ResourceClaimName]) {
    let own = pod.get("resourceClaims");
    let own = own.as_ref().and_then(Value::as_array).into_iter().flatten();
    let own: Vec<&str> = own.filter_map(|entry| entry.get("name")?.as_str()).collect();
    let named = claims.iter().map(|claim| (PodClaimName::of_claim(claim), claim));
    let added: Vec<_> = named.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    if added.is_empty() {
        return;
    }
    pod.edit(|fields| {
        let list = fields.entry("resourceClaims").or_insert(Value::Null);
        for (name, claim) in &added {
            push_named(list, json!({ "name": name.as_str(), "resourceClaimName": claim.as_str() }));
        }
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            let of_user = |container: &&mut Value| container.is_object() && container["name"] != INIT_CONTAINER;
            for container in containers.filter(of_user) {
                add_references(container, added.iter().map(|(name, _)| name));
            }
        }
    });
}

fn add_references<'a>(container: &mut Value, names: impl Iterator<Item = &'a PodClaimName>) {
    let resources = &mut container["resources"];
    if !resources.is_object() {
        *resources = json!({});
    }
    for name in names {
        push_named(&mut resources["claims"], json!({ "name": name.as_str() }));
    }
}
