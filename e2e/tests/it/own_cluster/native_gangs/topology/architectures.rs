//! Two architectures with topologies of different depths in one cluster. Their nodes get the labels while the sets are pending. Sets choose a
//! topology by its name, and run on its nodes. For sets of KAI, its objects name the topology.

use std::collections::BTreeSet;

use e2e::poll::poll_until;
use e2e::{NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::case::Case;
use super::{Nodes, by_label, create_set, create_topology, delete_topology, set_of, topology_of};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const H100_RACK: &str = "h100.example/rack";
const GB200_BLOCK: &str = "gb200.example/block";
const GB200_RACK: &str = "gb200.example/rack";
/// The names of the topologies, and their domains with the keys.
const TOPOLOGIES: [(&str, &[(&str, &str)]); 2] = [
    ("h100", &[("zone", ZONE), ("rack", H100_RACK), ("host", HOST)]),
    ("gb200", &[("zone", ZONE), ("block", GB200_BLOCK), ("rack", GB200_RACK), ("host", HOST)]),
];
/// The gangs of the default scheduler, of four pods each.
const GANGS: [&str; 3] = ["h100-0", "h100-1", "gb200-0"];
const NODES_PER_RACK: usize = 4;
const H100_NODES: usize = 2 * NODES_PER_RACK;
/// A block of two racks, and one of one rack.
const GB200_NODES: usize = 3 * NODES_PER_RACK;

pub(super) async fn each_architecture_has_its_topology(cluster: &TestCluster) {
    let case = Case::create(cluster, "architectures").await;
    let nodes = create_nodes_and_sets(&case).await;
    for gang in GANGS {
        case.wait_until_unschedulable(gang, 4).await;
    }
    case.assert_never_bound(|_| true).await;
    label_nodes(&case, &nodes).await;
    pods_are_on_the_nodes_of_their_topologies(&case).await;
    pod_groups_of_kai_name_the_topologies(&case).await;
    topologies_of_kai_have_the_levels(&case).await;
    delete_all(&case).await;
}

/// Creates the topologies, nodes without the labels of a topology, and the sets, each also for KAI. Returns the names of the nodes.
async fn create_nodes_and_sets(case: &Case) -> Vec<String> {
    for (name, levels) in TOPOLOGIES {
        create_topology(&case.ns.client, name, levels).await;
    }
    let mut nodes = Vec::new();
    for _ in 0..H100_NODES + GB200_NODES {
        nodes.push(case.add_node("p", 1).await);
    }
    for set in sets(case) {
        create_set(case, &set).await;
        create_set(case, &of_kai(set)).await;
    }
    nodes
}

async fn delete_all(case: &Case) {
    for (name, _) in TOPOLOGIES {
        for set in [name.to_owned(), format!("{name}-kai")] {
            case.ns.delete_object::<PodCliqueSet>(&set).await;
        }
    }
    case.ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    for (name, _) in TOPOLOGIES {
        delete_topology(&case.ns.client, name).await;
    }
}

/// Each replica of the first set fills a rack of H100 nodes. The other set fills a block of GB200 nodes by half.
fn sets(case: &Case) -> [Value; 2] {
    let in_rack = |name: &str| {
        let mut clique = case.clique(name, (2, 2), "p");
        clique["topologyConstraint"] = json!({ "packDomain": "rack" });
        clique
    };
    let mut h100 = set_of("h100", Some("h100"), "rack", &[case.clique("a", (4, 4), "p")]);
    h100["spec"]["replicas"] = json!(2);
    [h100, set_of("gb200", Some("gb200"), "block", &[in_rack("a"), in_rack("b")])]
}

/// The same set with another name, for KAI.
fn of_kai(mut set: Value) -> Value {
    let name = format!("{}-kai", set["metadata"]["name"].as_str().expect("a name"));
    set["metadata"]["name"] = json!(name);
    for clique in set["spec"]["template"]["cliques"].as_array_mut().expect("cliques") {
        clique["labels"] = json!({ "kai.scheduler/queue": "team" });
        clique["spec"]["podSpec"]["schedulerName"] = json!("kai-scheduler");
    }
    set
}

/// Gives each node the labels of its architecture.
async fn label_nodes(case: &Case, names: &[String]) {
    let nodes = Api::<Node>::all(case.ns.client.clone());
    let (h100, gb200) = names.split_at(H100_NODES);
    for (at, name) in h100.iter().enumerate() {
        let labels = json!({ ZONE: "a", H100_RACK: format!("rack-{}", at / NODES_PER_RACK), HOST: name });
        label(&nodes, name, &labels).await;
    }
    for (at, name) in gb200.iter().enumerate() {
        let rack = at / NODES_PER_RACK;
        let (block, rack) = (format!("block-{}", rack / 2), format!("rack-{rack}"));
        label(&nodes, name, &json!({ ZONE: "a", GB200_BLOCK: block, GB200_RACK: rack, HOST: name })).await;
    }
}

async fn label(nodes: &Api<Node>, name: &str, labels: &Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    nodes.patch(name, &PatchParams::default(), &patch).await.expect("the node is labelled");
}

async fn pods_are_on_the_nodes_of_their_topologies(case: &Case) {
    let nodes = Nodes::list(&case.ns.client).await;
    let [first, second, third] = GANGS;
    let (first, second) = (case.wait_until_bound(first, 4).await, case.wait_until_bound(second, 4).await);
    let gb200 = case.wait_until_bound(third, 4).await;
    let racks = [&first, &second].map(|pods| nodes.labels(pods, H100_RACK));
    assert!(racks.iter().all(|racks| racks.len() == 1), "each replica is in one rack: {racks:?}");
    assert_ne!(racks[0], racks[1], "a rack has no place for both");
    assert_eq!(nodes.labels(&gb200, GB200_BLOCK).len(), 1, "one block of GB200 nodes");
    for (clique, pods) in by_label(&gb200, "grove.io/podclique") {
        assert_eq!(nodes.labels(pods, GB200_RACK).len(), 1, "{clique}");
    }
    let named = case.ns.wait_for("the gangs name their topologies", |state| {
        GANGS.iter().all(|gang| topology_of(state, gang).is_some_and(|name| gang.starts_with(name)))
    });
    named.await;
}

/// The API server validates the objects by the CRDs of KAI.
async fn pod_groups_of_kai_name_the_topologies(case: &Case) {
    let required = [("h100", H100_RACK, None), ("gb200", GB200_BLOCK, Some(GB200_RACK))];
    let pod_groups = ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.run.ai", "v2alpha2", "PodGroup"));
    let pod_groups = Api::<DynamicObject>::namespaced_with(case.ns.client.clone(), &case.ns.name, &pod_groups);
    for (name, of_gang, of_clique) in required {
        let gang = format!("{name}-kai-0");
        let constraint =
            |key: &str| json!({ "topology": name, "requiredTopologyLevel": key, "preferredTopologyLevel": HOST });
        let group = poll_until(async || {
            let group = pod_groups.get_opt(&gang).await.expect("an answer")?;
            (group.data["spec"]["topologyConstraint"] == constraint(of_gang)).then_some(group)
        })
        .await;
        let sub_groups = group.data["spec"]["subGroups"].as_array().expect("subgroups");
        for sub_group in sub_groups {
            // In sets of this form, each clique prefers the narrowest level.
            let preferred = json!({ "topology": name, "preferredTopologyLevel": HOST });
            let expected = of_clique.map_or(preferred, constraint);
            assert_eq!(sub_group["topologyConstraint"], expected, "{gang}");
        }
        case.ns.wait_for("the gang names its topology", |state| topology_of(state, &gang) == Some(name)).await;
    }
}

async fn topologies_of_kai_have_the_levels(case: &Case) {
    let topologies = ApiResource::from_gvk(&GroupVersionKind::gvk("kai.scheduler", "v1alpha1", "Topology"));
    let topologies = Api::<DynamicObject>::all_with(case.ns.client.clone(), &topologies);
    for (name, levels) in TOPOLOGIES {
        let keys: Vec<Value> = levels.iter().map(|(_, key)| json!({ "nodeLabel": key })).collect();
        let topology = poll_until(async || topologies.get_opt(name).await.expect("an answer")).await;
        assert_eq!(topology.data["spec"]["levels"], json!(keys), "{name}");
        let owners: BTreeSet<_> = topology.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
        assert_eq!(owners, BTreeSet::from(["ClusterTopology"]), "{name}");
    }
}
