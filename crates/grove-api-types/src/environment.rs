//! The environment variables that Grove sets in containers. They precede the container's own variables, in the order of this
//! file, so that the own variables can refer to them: [`prepend`] inserts them. Their values: `clique/desired/env.rs` of pclq-controller, and for
//! `GROVE_PCSG_*` `scaling_group/desired/pod_clique.rs` of pcs-controller.

use serde_json::{Map, Value};

/// The name of the set.
pub const PCS_NAME: &str = "GROVE_PCS_NAME";
/// The index of the set replica.
pub const PCS_INDEX: &str = "GROVE_PCS_INDEX";
/// The name of the `PodClique`.
pub const PCLQ_NAME: &str = "GROVE_PCLQ_NAME";
/// The DNS name of the headless Service of the set replica.
pub const HEADLESS_SERVICE: &str = "GROVE_HEADLESS_SERVICE";
/// The index of the pod within its clique.
pub const PCLQ_POD_INDEX: &str = "GROVE_PCLQ_POD_INDEX";
/// The name of the `PodCliqueScalingGroup`; only in its cliques.
pub const PCSG_NAME: &str = "GROVE_PCSG_NAME";
/// The number of pods of one replica of the scaling group, by the template; only in its cliques.
pub const PCSG_TEMPLATE_NUM_PODS: &str = "GROVE_PCSG_TEMPLATE_NUM_PODS";
/// The index of the replica of the scaling group; only in its cliques.
pub const PCSG_INDEX: &str = "GROVE_PCSG_INDEX";
/// The index of the pod within the replica of the scaling group; only in its cliques.
pub const PCSG_POD_INDEX: &str = "GROVE_PCSG_POD_INDEX";

/// Whether Grove sets the variable in the containers of a clique. `is_member`: the clique is in a scaling group.
pub fn is_injected(name: &str, is_member: bool) -> bool {
    let to_all = [PCS_NAME, PCS_INDEX, PCLQ_NAME, HEADLESS_SERVICE, PCLQ_POD_INDEX];
    let to_members = [PCSG_NAME, PCSG_TEMPLATE_NUM_PODS, PCSG_INDEX, PCSG_POD_INDEX];
    to_all.contains(&name) || (is_member && to_members.contains(&name))
}

/// Inserts `variables` before those of every container and init container of a pod spec. They replace a container's own
/// variables with the same names.
pub fn prepend(pod_spec: &mut Map<String, Value>, variables: &[Value]) {
    for list in ["containers", "initContainers"] {
        let containers = pod_spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let own = container.get_mut("env").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            let others =
                own.into_iter().filter(|variable| !variables.iter().any(|ours| ours["name"] == variable["name"]));
            let env: Vec<_> = variables.iter().cloned().chain(others).collect();
            container.insert("env".into(), env.into());
        }
    }
}
