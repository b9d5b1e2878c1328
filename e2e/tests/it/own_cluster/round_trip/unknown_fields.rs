//! Definitions that are newer than the webhook server: fields that it has never heard of come through it, when objects are
//! created, replaced and patched, and while other fields are filled in.

use e2e::Plane;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{get, own, run};

/// Where the definition of sets has a new field; properties of a list are those of its items.
const IN_SETS: [&str; 5] = [
    "spec",
    "spec.template",
    "spec.template.cliques.items",
    "spec.template.cliques.items.spec",
    "spec.template.podCliqueScalingGroups.items",
];
const IN_TOPOLOGIES: [&str; 2] = ["spec", "spec.levels.items"];

pub(super) async fn fields_survive(plane: &Plane) {
    extend(plane, "podcliquesets.grove.io", &IN_SETS).await;
    extend(plane, "clustertopologies.grove.io", &IN_TOPOLOGIES).await;
    sets(plane).await;
    topologies(plane).await;
}

/// Adds `tomorrow`, an object with a text, at each of the places.
async fn extend(plane: &Plane, definition: &str, places: &[&str]) {
    let field = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let root = "/spec/versions/0/schema/openAPIV3Schema";
    let pointer = |place: &str| {
        let steps = place
            .split('.')
            .map(|step| if step == "items" { "/items".to_owned() } else { format!("/properties/{step}") });
        [root.to_owned(), steps.collect(), "/properties/tomorrow".to_owned()].concat()
    };
    let operations: Vec<_> =
        places.iter().map(|place| json!({ "op": "add", "path": pointer(place), "value": field })).collect();
    let patch: json_patch::Patch = serde_json::from_value(json!(operations)).expect("a patch");
    let definitions = Api::<CustomResourceDefinition>::all(plane.client().await);
    definitions.patch(definition, &PatchParams::default(), &Patch::Json::<()>(patch)).await.expect("it is extended");
}

fn tomorrow(text: &str) -> Value {
    json!({ "text": text })
}

async fn sets(plane: &Plane) {
    let pod = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    let clique = |name: &str| json!({ "name": name, "tomorrow": tomorrow("a clique"), "spec": { "tomorrow": tomorrow("its spec"), "podSpec": pod } });
    let group = json!({ "name": "model", "cliqueNames": ["worker"], "tomorrow": tomorrow("a group") });
    let template = json!({ "tomorrow": tomorrow("the template"), "cliques": [clique("front"), clique("worker")], "podCliqueScalingGroups": [group] });
    let sent = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "newer", "namespace": "default" },
        "spec": { "replicas": 1, "tomorrow": tomorrow("the spec"), "template": template } });
    until_known(plane, &sent).await;
    run(plane, &["create", "--validate=strict", "-f", "-"], &sent.to_string()).await;
    let mut expected = sent;
    fill_in(&mut expected);
    let stored = get(plane, &expected).await;
    assert_eq!(own(&stored), expected, "it is as it was sent, and what was left out was filled in");

    // Replaced: a new field changes, an old one is left out and filled in again.
    let mut put = stored;
    for object in [&mut put, &mut expected] {
        object["spec"]["template"]["cliques"][1]["tomorrow"] = tomorrow("another");
        object["spec"]["template"]["cliques"][1]["spec"]["replicas"] = json!(3);
    }
    put["spec"]["template"].as_object_mut().expect("the template").remove("terminationDelay");
    run(plane, &["replace", "--validate=strict", "-f", "-"], &put.to_string()).await;
    assert_eq!(own(&get(plane, &expected).await), expected);

    // Patched elsewhere.
    let patch = json!({ "spec": { "template": { "terminationDelay": "1h", "tomorrow": { "text": "changed" } } } });
    let patch = ["patch", "podcliqueset", "newer", "--type=merge", "-p", &patch.to_string()];
    run(plane, &patch, "").await;
    expected["spec"]["template"]["terminationDelay"] = json!("1h");
    expected["spec"]["template"]["tomorrow"] = tomorrow("changed");
    assert_eq!(own(&get(plane, &expected).await), expected);

    run(plane, &["scale", "podcliqueset", "newer", "--replicas=2"], "").await;
    expected["spec"]["replicas"] = json!(2);
    assert_eq!(own(&get(plane, &expected).await), expected);
}

/// What the definition and the webhook server fill in, and nothing else.
fn fill_in(set: &mut Value) {
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

/// Levels are put into order as they are.
async fn topologies(plane: &Plane) {
    let level = |domain: &str| json!({ "domain": domain, "key": domain, "tomorrow": tomorrow(domain) });
    let topology = |levels: [&str; 3]| {
        let levels = levels.map(level);
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": "newer" },
            "spec": { "tomorrow": tomorrow("the spec"), "levels": levels } })
    };
    let sent = topology(["host", "zone", "rack"]);
    until_known(plane, &sent).await;
    run(plane, &["create", "--validate=strict", "-f", "-"], &sent.to_string()).await;
    let expected = topology(["zone", "rack", "host"]);
    let stored = get(plane, &expected).await;
    assert_eq!(own(&stored), expected);
    let mut put = stored;
    put["spec"]["levels"] = sent["spec"]["levels"].clone();
    run(plane, &["replace", "--validate=strict", "-f", "-"], &put.to_string()).await;
    assert_eq!(own(&get(plane, &expected).await), expected);
}

/// The server knows of the new fields a moment after they were defined.
async fn until_known(plane: &Plane, object: &Value) {
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    while let Err(words) = e2e::kubectl::kubectl_on(plane, &create, &object.to_string()).await {
        assert!(words.contains("unknown field"), "{words}");
    }
}
