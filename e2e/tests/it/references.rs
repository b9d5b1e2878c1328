//! One apply may create an object and a set that refers to it. The watch event of the object may reach webhook-server after
//! the set.

use e2e::kubectl::kubectl;
use e2e::{fixtures, in_namespace};
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

/// Topologies, each with a set that is created right after it.
const PAIRS: usize = 100;

fn topology(name: &str) -> Value {
    json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": name },
        "spec": { "levels": [{ "domain": "rack", "key": "e2e.example.com/rack" }] } })
}

/// A set that refers to the topology.
fn set_for(topology: &str) -> Value {
    let mut set: Value = serde_saphyr::from_str(&fixtures::three_cliques(topology, 1)).expect("a set");
    set["spec"]["template"]["topologyConstraint"] = json!({ "topologyName": topology, "packDomain": "rack" });
    set
}

#[tokio::test]
async fn a_set_can_be_created_right_after_its_topology() {
    in_namespace("e2e-references", async |ns| {
        let topologies = Api::<ClusterTopology>::all(ns.client.clone());
        let name = "e2e-applied";
        let documents = [topology(name), set_for(name)].map(|document| document.to_string()).join("\n---\n");
        kubectl(&["apply", "--namespace", &ns.name, "-f", "-"], &documents).await.expect("kubectl applies both");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        for number in 0..PAIRS {
            let name = format!("e2e-t{number}");
            let topology: ClusterTopology = serde_json::from_value(topology(&name)).expect("a topology");
            let set: PodCliqueSet = serde_json::from_value(set_for(&name)).expect("a set");
            topologies.create(&PostParams::default(), &topology).await.expect("the topology is created");
            ns.api::<PodCliqueSet>().create(&dry, &set).await.expect("the set is admitted");
            topologies.delete(&name, &DeleteParams::default()).await.expect("the topology is deleted");
        }
        ns.delete_object::<PodCliqueSet>(name).await;
        ns.wait_for("the set is deleted", |state| state.sets.is_empty()).await;
        topologies.delete(name, &DeleteParams::default()).await.expect("the topology is deleted");
    })
    .await;
}
