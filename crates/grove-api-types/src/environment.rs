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

/// Puts `variables` before those of every container and init container of a pod spec. The names are Grove's, so a
/// container's own variable of such a name goes.
pub fn put_first(pod_spec: &mut Map<String, Value>, variables: &[Value]) {
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
