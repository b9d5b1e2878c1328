//! Gangs of the default scheduler with topology constraints, on 28 nodes in zones, blocks, racks and hosts. The tests check the node of each
//! pod.

mod architectures;
mod changes;
mod environments;
mod placement;
mod retries;

use std::collections::{BTreeMap, BTreeSet};

use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::case::{Case, GPU, set};

const TOPOLOGY: &str = "e2e-native-topology";
/// The key of a level that no node has.
const MISSING_KEY: &str = "e2e.example/numa";
const KAI_CRDS: &str = include_str!("../../../../crds/kai-scheduler.yaml");
/// The annotation of a gang that names its topology.
const TOPOLOGY_NAME: &str = "grove.io/topology-name";
const CONFIGURATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");

/// The key of the node labels of a level.
fn key(level: &str) -> &'static str {
    match level {
        "zone" => "topology.kubernetes.io/zone",
        "block" => "topology.grove.io/block",
        "rack" => "topology.grove.io/rack",
        "host" => "kubernetes.io/hostname",
        _ => MISSING_KEY,
    }
}

/// The configuration of the shared cluster, with KAI as a second scheduler.
fn configuration_with_kai() -> String {
    let text = std::fs::read_to_string(CONFIGURATION).expect("the configuration of the shared cluster");
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/native-topology.yaml").to_owned();
    let profiles = "scheduler: {profiles: [{name: default-scheduler}, {name: kai-scheduler}]}\n";
    std::fs::write(&file, text + profiles).expect("the configuration is written");
    file
}

/// A cluster with 28 nodes, and the topology of its nodes.
async fn start(name: &str, native_gangs: &str, configuration: &str) -> TestCluster {
    let flags = ["--nodes", "28", "--config", configuration, native_gangs];
    let cluster = TestCluster::with_own_services(name, &flags).await;
    let level = |level: &str| json!({ "domain": level, "key": key(level) });
    let levels = ["zone", "block", "rack", "host", "numa"].map(level);
    let spec = serde_json::from_value(json!({ "levels": levels })).expect("a spec");
    let topology = ClusterTopologyBinding::new(TOPOLOGY, spec);
    let topologies = Api::all(cluster.client().await);
    topologies.create(&PostParams::default(), &topology).await.expect("the topology is created");
    cluster
}

/// The cases that run at the same time stop no service, and only those in `on_shared_nodes` need the 28 nodes.
/// It takes long because the others run in turn.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_are_packed_by_topology() {
    let cluster = start("native-topology", "--native-gangs", &configuration_with_kai()).await;
    kubectl_on(&cluster, &["apply", "--server-side", "--filename=-"], KAI_CRDS).await.expect("the CRDs of KAI");
    // On the heap: these are large futures.
    tokio::join!(
        Box::pin(on_shared_nodes(&cluster)),
        Box::pin(architectures::each_architecture_has_its_topology(&cluster)),
        Box::pin(environments::each_environment_has_its_topology(&cluster)),
        Box::pin(retries::a_pending_set_runs_with_another_topology(&cluster)),
        // The moments of this seed are between the creation of the set and the start of all pods.
        Box::pin(retries::series(&cluster, 6, 38)),
    );
    changes::a_restarted_gang_does_not_follow_its_terminating_pods(&cluster).await;
    cluster.down().await;
}

/// Each of these cases needs the nodes for itself.
async fn on_shared_nodes(cluster: &TestCluster) {
    placement::each_replica_has_a_rack(cluster).await;
    placement::cliques_are_packed_by_host_in_racks_in_a_block(cluster).await;
    placement::pods_leave_a_full_preferred_domain(cluster).await;
    placement::a_rack_that_is_too_small_by_one_gpu_gets_no_pod(cluster).await;
    placement::scaled_replicas_have_a_rack_each(cluster).await;
    placement::a_key_that_no_node_has_leaves_pods_pending(cluster).await;
    changes::other_constraints_begin_the_next_incarnation(cluster).await;
    changes::only_pending_pods_follow_other_constraints(cluster).await;
    changes::a_successor_is_in_the_domain_of_its_incarnation(cluster).await;
}

/// The API server does not store the topology keys of `PodGroup`s, so pod affinity expresses all constraints.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_are_packed_by_affinity_without_topology_keys() {
    let cluster = start("native-gangs-without-topology", "--native-gangs=without-topology", CONFIGURATION).await;
    placement::all_constraints_are_expressed_by_affinity(&cluster).await;
    cluster.down().await;
}

/// A constraint of this form. The names of the topologies of a set must agree.
fn constraint(form: &str, level: &str) -> Value {
    json!({ "topologyName": TOPOLOGY, "pack": { form: level } })
}

/// A clique on the nodes that all cases share, whose pods need these GPUs.
fn clique(name: &str, (replicas, min_available): (i32, i32), gpus: u32) -> Value {
    let limits = json!({ GPU: gpus.to_string() });
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10",
        "resources": { "requests": limits, "limits": limits } });
    let pod_spec = json!({ "nodeSelector": { "type": "kwok" }, "containers": [container] });
    json!({ "name": name, "spec": { "roleName": name, "replicas": replicas, "minAvailable": min_available,
        "podSpec": pod_spec } })
}

/// A clique with a required level.
fn packed(mut clique: Value, level: &str) -> Value {
    clique["topologyConstraint"] = constraint("required", level);
    clique
}

/// A set of these cliques with this constraint.
fn constrained_set(of_set: Option<Value>, cliques: &[Value]) -> Value {
    let mut set = set("llm", cliques);
    if let Some(of_set) = of_set {
        set["spec"]["template"]["topologyConstraint"] = of_set;
    }
    set
}

/// Adds the scaling group `g` of these cliques, which is packed by rack.
fn with_group(mut set: Value, cliques: &[&str], (replicas, min_available): (i32, i32)) -> Value {
    set["spec"]["template"]["podCliqueScalingGroups"] = json!([{ "name": "g", "cliqueNames": cliques, "replicas": replicas,
        "minAvailable": min_available, "topologyConstraint": constraint("required", "rack") }]);
    set
}

/// Creates a set as soon as the webhook server knows the topology.
async fn create_set(case: &Case, set: &Value) {
    let set: PodCliqueSet = serde_json::from_value(set.clone()).expect("a set");
    let sets = case.ns.api::<PodCliqueSet>();
    poll_until(async || sets.create(&PostParams::default(), &set).await.ok()).await;
}

/// Deletes the set, so that the next case finds empty nodes.
async fn delete_set(case: &Case) {
    case.ns.delete_object::<PodCliqueSet>("llm").await;
    let pods = case.ns.api::<Pod>();
    for pod in pods.list(&ListParams::default()).await.expect("the pods").items {
        // A slow pod would occupy its node.
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.ok();
    }
    case.ns.wait_for("no objects exist", NamespaceState::is_empty).await;
}

/// The labels of the nodes, by the names of the nodes.
struct Nodes(BTreeMap<String, BTreeMap<String, String>>);

impl Nodes {
    async fn list(client: &Client) -> Self {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.expect("the nodes");
        Self(nodes.items.into_iter().map(|node| (node.name_any(), node.labels().clone())).collect())
    }

    /// The domain of a bound pod at a level.
    fn domain(&self, pod: &Pod, level: &str) -> String {
        self.label(pod, key(level))
    }

    /// The label of the node of a bound pod.
    fn label(&self, pod: &Pod, key: &str) -> String {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).expect("a bound pod");
        self.0[node].get(key).unwrap_or_else(|| panic!("{node} has no {key}")).clone()
    }

    /// The different labels of the nodes of these pods.
    fn labels<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>, key: &str) -> BTreeSet<String> {
        pods.into_iter().map(|pod| self.label(pod, key)).collect()
    }

    /// The domains of these pods.
    fn domains<'a>(&self, pods: impl IntoIterator<Item = &'a Pod>, level: &str) -> BTreeSet<String> {
        pods.into_iter().map(|pod| self.domain(pod, level)).collect()
    }
}

/// Creates a `ClusterTopology` with these domains and keys.
async fn create_topology(client: &Client, name: &str, levels: &[(&str, &str)]) {
    let level = |(domain, key): &(&str, &str)| json!({ "domain": domain, "key": key });
    let levels: Vec<Value> = levels.iter().map(level).collect();
    let topology = ClusterTopology::new(name, serde_json::from_value(json!({ "levels": levels })).expect("a spec"));
    let created = Api::all(client.clone()).create(&PostParams::default(), &topology).await;
    created.expect("the topology is created");
}

/// Deletes a `ClusterTopology` that no set refers to, and waits for the end of the deletion.
async fn delete_topology(client: &Client, name: &str) {
    let topologies = Api::<ClusterTopology>::all(client.clone());
    topologies.delete(name, &DeleteParams::default()).await.expect("the delete is accepted");
    poll_until(async || topologies.get_opt(name).await.expect("an answer").is_none().then_some(())).await;
}

/// A set of these cliques in the form of the design of several topologies. Without a name, it refers to the default topology.
fn set_of(name: &str, topology: Option<&str>, domain: &str, cliques: &[Value]) -> Value {
    let mut set = set(name, cliques);
    let template = &mut set["spec"]["template"];
    template["topologyConstraint"] = json!({ "packDomain": domain });
    if let Some(topology) = topology {
        template["clusterTopologyName"] = json!(topology);
    }
    set
}

/// The name of the topology in the annotation of a gang.
fn topology_of<'a>(state: &'a NamespaceState, gang: &str) -> Option<&'a str> {
    state.gangs.get(gang)?.annotations().get(TOPOLOGY_NAME).map(String::as_str)
}

/// The pods by the value of a label.
fn by_label<'a>(pods: &'a [Pod], label: &str) -> BTreeMap<String, Vec<&'a Pod>> {
    let mut groups: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        groups.entry(pod.labels().get(label).cloned().unwrap_or_default()).or_default().push(pod);
    }
    groups
}

/// The topology key of a `PodGroup`.
fn pod_group_key(group: &DynamicObject) -> Option<&str> {
    group.data["spec"]["schedulingConstraints"]["topology"][0]["key"].as_str()
}

/// The names and the uids of pods.
fn identities(pods: &[Pod]) -> BTreeSet<(String, Option<String>)> {
    pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}
