//! CRDs that are newer than the webhook server: fields that it does not know survive creates, replacements and patches, also
//! when other fields are defaulted.

use e2e::TestCluster;
use e2e::propagation::kubectl_until_success;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{get, run, user_fields};

/// The paths of new fields in the CRD of sets; `items` means the items of a list.
const NEW_SET_FIELDS: [&str; 5] = [
    "spec",
    "spec.template",
    "spec.template.cliques.items",
    "spec.template.cliques.items.spec",
    "spec.template.podCliqueScalingGroups.items",
];
const NEW_TOPOLOGY_FIELDS: [&str; 2] = ["spec", "spec.levels.items"];

pub(super) async fn survive(cluster: &TestCluster) {
    extend(cluster, "podcliquesets.grove.io", &NEW_SET_FIELDS).await;
    extend(cluster, "clustertopologies.grove.io", &NEW_TOPOLOGY_FIELDS).await;
    sets(cluster).await;
    topologies(cluster).await;
}

/// Adds the field `tomorrow`, an object with a string, at each path of a CRD.
async fn extend(cluster: &TestCluster, crd: &str, paths: &[&str]) {
    let field = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let root = "/spec/versions/0/schema/openAPIV3Schema";
    let pointer = |path: &str| {
        let steps = path
            .split('.')
            .map(|step| if step == "items" { "/items".to_owned() } else { format!("/properties/{step}") });
        [root.to_owned(), steps.collect(), "/properties/tomorrow".to_owned()].concat()
    };
    let operations: Vec<_> =
        paths.iter().map(|path| json!({ "op": "add", "path": pointer(path), "value": field })).collect();
    let patch: json_patch::Patch = serde_json::from_value(json!(operations)).expect("a patch");
    let crds = Api::<CustomResourceDefinition>::all(cluster.client().await);
    crds.patch(crd, &PatchParams::default(), &Patch::Json::<()>(patch)).await.expect("the CRD is extended");
}

fn new_field(text: &str) -> Value {
    json!({ "text": text })
}

async fn sets(cluster: &TestCluster) {
    let pod = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    let clique = |name: &str| json!({ "name": name, "tomorrow": new_field("a clique"), "spec": { "tomorrow": new_field("its spec"), "podSpec": pod } });
    let group = json!({ "name": "model", "cliqueNames": ["worker"], "tomorrow": new_field("a group") });
    let template = json!({ "tomorrow": new_field("the template"), "cliques": [clique("front"), clique("worker")], "podCliqueScalingGroups": [group] });
    let sent = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "newer", "namespace": "default" },
        "spec": { "replicas": 1, "tomorrow": new_field("the spec"), "template": template } });
    wait_until_known(cluster, &sent).await;
    run(cluster, &["create", "--validate=strict", "-f", "-"], &sent.to_string()).await;
    let mut expected = sent;
    add_defaults(&mut expected);
    let stored = get(cluster, &expected).await;
    assert_eq!(user_fields(&stored), expected, "the stored set is the sent one with defaults");

    // Replace: a new field changes, an omitted field is defaulted again.
    let mut put = stored;
    for object in [&mut put, &mut expected] {
        object["spec"]["template"]["cliques"][1]["tomorrow"] = new_field("another");
        object["spec"]["template"]["cliques"][1]["spec"]["replicas"] = json!(3);
    }
    put["spec"]["template"].as_object_mut().expect("the template").remove("terminationDelay");
    run(cluster, &["replace", "--validate=strict", "-f", "-"], &put.to_string()).await;
    assert_eq!(user_fields(&get(cluster, &expected).await), expected);

    // Patch of other fields.
    let patch = json!({ "spec": { "template": { "terminationDelay": "1h", "tomorrow": { "text": "changed" } } } });
    let patch = ["patch", "podcliqueset", "newer", "--type=merge", "-p", &patch.to_string()];
    run(cluster, &patch, "").await;
    expected["spec"]["template"]["terminationDelay"] = json!("1h");
    expected["spec"]["template"]["tomorrow"] = new_field("changed");
    assert_eq!(user_fields(&get(cluster, &expected).await), expected);

    run(cluster, &["scale", "podcliqueset", "newer", "--replicas=2"], "").await;
    expected["spec"]["replicas"] = json!(2);
    assert_eq!(user_fields(&get(cluster, &expected).await), expected);
}

/// Adds the defaults of the CRD and of the webhook server.
fn add_defaults(set: &mut Value) {
    let template = &mut set["spec"]["template"];
    template["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder");
    template["headlessServiceConfig"] = json!({ "publishNotReadyAddresses": true });
    template["terminationDelay"] = json!("4h0m0s");
    for clique in template["cliques"].as_array_mut().expect("cliques") {
        let spec = &mut clique["spec"];
        (spec["roleName"], spec["replicas"], spec["minAvailable"]) = (json!(""), json!(1), json!(1));
        spec["podSpec"]["restartPolicy"] = json!("Always");
        spec["podSpec"]["terminationGracePeriodSeconds"] = json!(30);
    }
    for group in template["podCliqueScalingGroups"].as_array_mut().expect("groups") {
        (group["replicas"], group["minAvailable"]) = (json!(1), json!(1));
    }
}

/// The webhook server sorts the levels and keeps their unknown fields.
async fn topologies(cluster: &TestCluster) {
    let level = |domain: &str| json!({ "domain": domain, "key": domain, "tomorrow": new_field(domain) });
    let topology = |levels: [&str; 3]| {
        let levels = levels.map(level);
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": "newer" },
            "spec": { "tomorrow": new_field("the spec"), "levels": levels } })
    };
    let sent = topology(["host", "zone", "rack"]);
    wait_until_known(cluster, &sent).await;
    run(cluster, &["create", "--validate=strict", "-f", "-"], &sent.to_string()).await;
    let expected = topology(["zone", "rack", "host"]);
    let stored = get(cluster, &expected).await;
    assert_eq!(user_fields(&stored), expected);
    let mut put = stored;
    put["spec"]["levels"] = sent["spec"]["levels"].clone();
    run(cluster, &["replace", "--validate=strict", "-f", "-"], &put.to_string()).await;
    assert_eq!(user_fields(&get(cluster, &expected).await), expected);
}

/// Waits until the API server knows the new fields, a moment after the CRD is stored.
async fn wait_until_known(cluster: &TestCluster, object: &Value) {
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    kubectl_until_success(cluster, &create, &object.to_string(), "unknown field").await;
}
