//! The environment variables that Grove gives to containers. They stand before a container's own, in the order
//! in which they stand here, so that a container's own may refer to them.

use serde_json::{Map, Value};

/// The set.
pub const PCS_NAME: &str = "GROVE_PCS_NAME";
/// The replica of the set.
pub const PCS_INDEX: &str = "GROVE_PCS_INDEX";
/// The `PodClique`.
pub const PCLQ_NAME: &str = "GROVE_PCLQ_NAME";
/// The address under which the pods of the replica find one another.
pub const HEADLESS_SERVICE: &str = "GROVE_HEADLESS_SERVICE";
/// The index of the pod within its clique.
pub const PCLQ_POD_INDEX: &str = "GROVE_PCLQ_POD_INDEX";
/// The `PodCliqueScalingGroup`; only in its cliques.
pub const PCSG_NAME: &str = "GROVE_PCSG_NAME";
/// How many pods a replica of the scaling group has by the template; only in its cliques.
pub const PCSG_TEMPLATE_NUM_PODS: &str = "GROVE_PCSG_TEMPLATE_NUM_PODS";
/// The replica of the scaling group; only in its cliques.
pub const PCSG_INDEX: &str = "GROVE_PCSG_INDEX";

/// Whether Grove gives the variable to the containers of a clique, which may be one of a scaling group.
pub fn is_injected(name: &str, is_member: bool) -> bool {
    let to_all = [PCS_NAME, PCS_INDEX, PCLQ_NAME, HEADLESS_SERVICE, PCLQ_POD_INDEX];
    let to_members = [PCSG_NAME, PCSG_TEMPLATE_NUM_PODS, PCSG_INDEX];
    to_all.contains(&name) || (is_member && to_members.contains(&name))
}

/// Puts `variables` before those of every container and init container of a pod spec. The names are Grove's, so a
/// container's own variable of such a name goes.
pub fn prepend(pod_spec: &mut Map<String, Value>, variables: &[Value]) {
    for list in ["containers", "initContainers"] {
        let containers = pod_spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let own = container.get_mut("env").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            let kept =
                own.into_iter().filter(|variable| !variables.iter().any(|ours| ours["name"] == variable["name"]));
            let env: Vec<_> = variables.iter().cloned().chain(kept).collect();
            container.insert("env".into(), env.into());
        }
    }
}
