//! Environments with topologies of their own, with the names of the listing in the design of several topologies. All users write the same
//! constraint, and their pods run on the nodes of their environment.

use e2e::binding_log::is_bound;
use e2e::kubectl::run_in_bash;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use serde_json::json;

use super::super::case::{Case, pods_of, set};
use super::{Nodes, create_topology, delete_topology, set_of};

const DEFAULT: &str = "grove-topology";
/// The topologies with the keys of their racks, and the racks.
const TOPOLOGIES: [(&str, &str, &[&str]); 3] = [
    ("aws-p5", "aws.example/placement", &["a", "b"]),
    ("gcp-a3", "gcp.example/superpod", &["a"]),
    (DEFAULT, "on-premises.example/rack", &["a"]),
];
/// The sets with their namespaces and topologies.
const SETS: [(&str, &str, Option<&str>); 4] = [
    ("ml-team", "inference-llama", Some("aws-p5")),
    ("ml-team", "inference-mixtral", Some("aws-p5")),
    ("batch", "training-job-1", Some("gcp-a3")),
    ("default", "simple-inference", None),
];
/// The pods of a set, and the nodes of a rack. Each pod needs a node.
const PODS: i32 = 2;
/// A set without pods in the form of the Go operator, which names the topology `aws-p5` in its constraint.
const OTHER_FORM: &str = "other-form";
const PAGE: &str = include_str!("../../../../../../docs/topology-controller.md");
/// The command does not read the topology of the other form.
const LISTING: [&str; 5] = [
    "aws-p5 ml-team/inference-llama",
    "aws-p5 ml-team/inference-mixtral",
    "gcp-a3 batch/training-job-1",
    "grove-topology (default) batch/other-form",
    "grove-topology (default) default/simple-inference",
];

pub(super) async fn each_environment_has_its_topology(cluster: &TestCluster) {
    let case = Case::create(cluster, "environments").await;
    create_topologies_and_nodes(&case).await;
    let client = &case.ns.client;
    let namespaces = Namespaces([
        Namespace::create(client, "ml-team").await,
        Namespace::create(client, "batch").await,
        Namespace::attach(client, "default"),
    ]);
    for (of, name, topology) in SETS {
        let set = set_of(name, topology, "rack", &[case.clique("a", (PODS, PODS), "p")]);
        namespaces.get(of).create_yaml::<PodCliqueSet>(&set.to_string()).await;
    }
    for (of, name, topology) in SETS {
        let pods = wait_until_bound(namespaces.get(of), &format!("{name}-0")).await;
        let key = key_of(topology.unwrap_or(DEFAULT));
        assert_eq!(Nodes::list(client).await.labels(&pods, key).len(), 1, "{name}");
    }
    let mut other_form = set(OTHER_FORM, &[case.clique("a", (PODS, PODS), "p")]);
    other_form["spec"]["replicas"] = json!(0);
    other_form["spec"]["template"]["topologyConstraint"] =
        json!({ "topologyName": "aws-p5", "pack": { "required": "rack" } });
    namespaces.get("batch").create_yaml::<PodCliqueSet>(&other_form.to_string()).await;
    assert_eq!(listing(cluster).await, LISTING);
    delete_all(client, &namespaces).await;
}

/// The namespaces of the sets.
struct Namespaces([Namespace; 3]);

impl Namespaces {
    fn get(&self, name: &str) -> &Namespace {
        self.0.iter().find(|namespace| namespace.name == name).expect("a namespace")
    }
}

/// The key of the racks of a topology.
fn key_of(topology: &str) -> &'static str {
    TOPOLOGIES.iter().find(|(name, ..)| *name == topology).expect("a topology").1
}

async fn create_topologies_and_nodes(case: &Case) {
    for (name, key, racks) in TOPOLOGIES {
        create_topology(&case.ns.client, name, &[("rack", key)]).await;
        for rack in racks.iter().flat_map(|rack| (0..PODS).map(move |_| *rack)) {
            case.add_node_in("p", 1, &[(key, rack)]).await;
        }
    }
}

async fn delete_all(client: &Client, namespaces: &Namespaces) {
    let sets = SETS.iter().map(|(of, name, _)| (*of, *name));
    for (of, name) in sets.chain([("batch", OTHER_FORM)]) {
        namespaces.get(of).delete_object::<PodCliqueSet>(name).await;
    }
    for namespace in &namespaces.0 {
        let are_deleted = |state: &NamespaceState| state.sets.is_empty() && state.pods.is_empty();
        namespace.wait_for("the sets are deleted", are_deleted).await;
    }
    // The default topology stays: its deletion would end only with another configuration.
    for (name, ..) in TOPOLOGIES.into_iter().filter(|(name, ..)| *name != DEFAULT) {
        delete_topology(client, name).await;
    }
}

async fn wait_until_bound(namespace: &Namespace, gang: &str) -> Vec<Pod> {
    let are_bound = |state: &NamespaceState| {
        let pods = pods_of(state, gang);
        i32::try_from(pods.len()) == Ok(PODS) && pods.into_iter().all(is_bound)
    };
    let state = namespace.wait_for(&format!("the pods of {gang} are bound"), are_bound).await;
    pods_of(&state, gang).into_iter().cloned().collect()
}

/// The output of the command in the documentation, which is that of the design, for the sets of this case. Other cases have sets in other
/// namespaces, whose names change the width of the columns.
async fn listing(cluster: &TestCluster) -> Vec<String> {
    let (_, page) = PAGE.split_once("```bash\n").expect("a command");
    let (command, _) = page.split_once("```").expect("the end of the command");
    let text = run_in_bash(cluster, command).await;
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_listed = |row: &String| SETS.iter().any(|(of, ..)| row.contains(&format!(" {of}/")));
    rows.filter(is_listed).collect()
}
