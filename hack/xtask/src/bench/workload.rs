//! The workload: one set, each replica of which is one clique of small pods.

use crate::args::{Scale, UpArgs};
use crate::workload_api::WorkloadApi;
use crate::workspace;
use anyhow::{Context, Result};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::kubectl::Kubectl;
use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "grove-bench";
/// The namespace of the set that `bench update` does not change.
pub(super) const UNCHANGED_NAMESPACE: &str = "grove-bench-unchanged";
pub(super) const SET: &str = "scale";
const IMAGE: &str = "registry.example/pause:1";
/// The image after an update.
pub(super) const NEW_IMAGE: &str = "registry.example/pause:2";
/// The topology of packed gangs.
const TOPOLOGY: &str = "bench-topology";
const RACK: &str = "topology.grove.io/rack";
/// The configuration of the services for packed gangs.
const PACKED_CONFIGURATION: &str = "hack/xtask/src/bench/packed.yaml";
/// The conditions of a measurement that differ from the usual ones.
const NATIVE: &str = "Native gangs: each gang has a PodGroup, and the default scheduler binds its pods together";
const PACKED: &str =
    "Packed gangs: the PodGroup of each gang has the key of the racks, and its pods have required pod affinity";

/// How many pods a replica has, and how they are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Workload {
    /// The default scheduler schedules each pod on its own.
    #[default]
    Individual,
    /// Each gang has a `PodGroup`.
    Native,
    /// Each gang has a `PodGroup`, and all its pods must be in one rack.
    Packed,
}

impl Workload {
    /// The workload that the flags choose.
    pub(super) fn of(args: &Scale) -> Self {
        match (args.packed, args.native) {
            (true, _) => Self::Packed,
            (false, true) => Self::Native,
            (false, false) => Self::Individual,
        }
    }

    pub(super) fn pods_per_replica(self) -> u32 {
        match self {
            Self::Individual | Self::Native => 2,
            Self::Packed => 10,
        }
    }

    /// Whether each gang has a `PodGroup`.
    pub(super) fn has_pod_groups(self) -> bool {
        self != Self::Individual
    }

    /// The key of node labels by which each gang is packed.
    pub(super) fn required_key(self) -> Option<&'static str> {
        (self == Self::Packed).then_some(RACK)
    }

    /// The name of the report about one size, and of the report about several sizes.
    pub(super) fn report_names(self) -> [&'static str; 2] {
        match self {
            Self::Individual => ["scale", "growth"],
            Self::Native => ["native", "native-growth"],
            Self::Packed => ["packed", "packed-growth"],
        }
    }

    /// The conditions of a measurement that differ from the usual ones.
    pub(super) fn conditions(self) -> &'static [&'static str] {
        match self {
            Self::Individual => &[],
            Self::Native => &[NATIVE],
            Self::Packed => &[NATIVE, PACKED],
        }
    }

    /// The flags with which the dev cluster has the schedulers and the configuration for the workload.
    pub(super) fn up_args(self) -> UpArgs {
        let native_gangs = if self.has_pod_groups() { WorkloadApi::On } else { WorkloadApi::Off };
        let config = (self == Self::Packed).then(|| workspace::root().join(PACKED_CONFIGURATION));
        UpArgs { config, native_gangs, ..UpArgs::default() }
    }

    /// The set with this many replicas.
    pub(super) fn set(self, replicas: u32) -> Result<PodCliqueSet> {
        let container = json!({
            "name": "main",
            "image": IMAGE,
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
        });
        let pods = self.pods_per_replica();
        let clique = json!({
            "name": "worker",
            "spec": {
                "roleName": "worker",
                "replicas": pods,
                "minAvailable": pods,
                "podSpec": { "containers": [container] },
            },
        });
        let mut set = json!({
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": { "name": SET, "namespace": NAMESPACE },
            "spec": { "replicas": replicas, "template": { "cliques": [clique] } },
        });
        if self == Self::Packed {
            let constraint = json!({ "topologyName": TOPOLOGY, "pack": { "required": "rack" } });
            set["spec"]["template"]["topologyConstraint"] = constraint;
        }
        serde_json::from_value(set).context("the set of the benchmark is not valid")
    }

    /// Creates the objects that the set needs: its namespace and its topology.
    pub(super) async fn prepare(self, kubectl: &Kubectl) -> Result<()> {
        create_namespace(kubectl, NAMESPACE).await?;
        if self == Self::Packed {
            kubectl.apply(&topology().to_string()).await?;
        }
        Ok(())
    }
}

/// The levels of the simulated nodes.
fn topology() -> Value {
    json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": TOPOLOGY },
        "spec": { "levels": [
            { "domain": "zone", "key": "topology.kubernetes.io/zone" },
            { "domain": "block", "key": "topology.grove.io/block" },
            { "domain": "rack", "key": RACK },
            { "domain": "host", "key": "kubernetes.io/hostname" },
        ] } })
}

/// Creates a namespace, and waits for its default ServiceAccount: without one the API server rejects pods.
pub(super) async fn create_namespace(kubectl: &Kubectl, name: &str) -> Result<()> {
    kubectl.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n")).await?;
    kubectl.run(&["wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s"]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Workload, topology};
    use crate::nodes;
    use grove_api_types::configuration::OperatorConfiguration;
    use grove_api_types::v1alpha1::ClusterTopology;
    use k8s_openapi::api::core::v1::Node;

    /// The topology of the benchmark and the labels of the nodes agree, and the services enable topology-aware scheduling.
    #[test]
    fn packed_gangs_refer_to_levels_that_the_nodes_have() {
        let topology: ClusterTopology = serde_json::from_value(topology()).unwrap();
        let set = Workload::Packed.set(100).unwrap();
        let constraint = set.spec.template.topology_constraint.unwrap();
        assert_eq!(constraint.topology_name, topology.metadata.name);
        let domain = constraint.pack.unwrap().required.unwrap();
        let level = topology.spec.levels.iter().find(|level| level.domain == domain).unwrap();
        assert_eq!(Some(level.key.as_str()), Workload::Packed.required_key());
        let nodes = nodes::manifests(1);
        let node: Node = serde_saphyr::from_str(nodes.trim_start_matches("---\n")).unwrap();
        let labels = node.metadata.labels.unwrap();
        assert!(topology.spec.levels.iter().all(|level| labels.contains_key(&level.key)), "{labels:?}");

        let file = Workload::Packed.up_args().config.unwrap();
        let content = serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let (configuration, _) = OperatorConfiguration::read(&content).unwrap();
        assert!(configuration.topology.enabled);
    }

    #[test]
    fn the_other_workloads_have_no_constraints_and_the_default_configuration() {
        for workload in [Workload::Individual, Workload::Native] {
            let set = workload.set(2).unwrap();
            assert_eq!(set.spec.template.topology_constraint, None);
            assert_eq!(workload.up_args().config, None);
            assert_eq!(set.spec.template.cliques[0].spec.replicas, 2);
        }
        assert_eq!(Workload::Packed.set(2).unwrap().spec.template.cliques[0].spec.replicas, 10);
    }
}
