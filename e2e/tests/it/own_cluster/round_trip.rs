//! What is written is kept: sets as users and operators write them come back as they were sent, whichever way they are sent
//! again, and what the webhook server has never heard of survives it.

mod operator_sets;
mod unknown_fields;
mod webhook_outage;

use std::collections::BTreeSet;
use std::path::Path;

use e2e::Plane;
use e2e::kubectl::kubectl_on;
use expect_test::expect;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GetParams};
use kube::core::{GroupVersionKind, Request};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn objects_round_trip_unchanged() {
    let plane = Plane::own_with("kept", &["--config", &configuration_file()]).await;
    for topology in ["grove-topology", "racks"] {
        let level = |domain: &str| json!({ "domain": domain, "key": domain });
        let levels = ["zone", "block", "rack", "host"].map(level);
        let topology = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": topology },
            "spec": { "levels": levels } });
        run(&plane, &["create", "-f", "-"], &topology.to_string()).await;
    }
    operator_sets::operators_get_all_that_they_ask_for(&plane).await;
    // From here on nothing but users writes.
    for controller in ["pcs-controller", "pclq-controller"] {
        plane.end(controller).await;
    }
    sets_come_back_as_they_were_sent(&plane).await;
    unknown_fields::fields_survive(&plane).await;
    webhook_outage::what_concerns_no_rule_passes(&plane).await;
    plane.down().await;
}

async fn sets_come_back_as_they_were_sent(plane: &Plane) {
    let mut added = BTreeSet::new();
    let sets = sets();
    assert!(sets.len() > 8, "{}", sets.len());
    for (text, sent) in sets {
        create(plane, &text).await;
        let first = get(plane, &sent).await;
        compare("", &sent, &own(&first), &mut added);
        // What was got is put back.
        run(plane, &["replace", "-f", "-"], &first.to_string()).await;
        assert_eq!(get(plane, &sent).await, first, "a round trip writes nothing");
        // Once kubectl has noted in the metadata how it applies, nothing is left to write.
        for apply in [&["apply", "-f", "-"][..], &["apply", "--server-side", "--force-conflicts", "-f", "-"]] {
            run(plane, apply, &text).await;
            let applied = get(plane, &sent).await;
            assert_eq!(own(&applied), own(&first), "{apply:?}");
            run(plane, apply, &text).await;
            let again = get(plane, &sent).await;
            assert_eq!(
                without_seconds(again),
                without_seconds(applied),
                "{apply:?} again changes nothing but the seconds"
            );
        }
    }
    let added: Vec<_> = added.into_iter().collect();
    expect![[r#"
        .metadata.annotations: null becomes {"grove.io/auto-mnnvl":"enabled"}
        .metadata.labels.grove.io/topology-name: null becomes "racks"
        .metadata.namespace: null becomes "default"
        .spec.template.cliqueStartupType: null becomes "CliqueStartupTypeAnyOrder"
        .spec.template.cliques[].spec.autoScalingConfig.minReplicas: null becomes 2
        .spec.template.cliques[].spec.minAvailable: null becomes 1
        .spec.template.cliques[].spec.minAvailable: null becomes 2
        .spec.template.cliques[].spec.minAvailable: null becomes 3
        .spec.template.cliques[].spec.podSpec.restartPolicy: null becomes "Always"
        .spec.template.cliques[].spec.podSpec.terminationGracePeriodSeconds: null becomes 30
        .spec.template.cliques[].spec.replicas: 0 becomes 1
        .spec.template.cliques[].spec.replicas: null becomes 1
        .spec.template.cliques[].spec.roleName: null becomes ""
        .spec.template.headlessServiceConfig: null becomes {"publishNotReadyAddresses":true}
        .spec.template.podCliqueScalingGroups[].minAvailable: null becomes 1
        .spec.template.podCliqueScalingGroups[].replicas: null becomes 1
        .spec.template.podCliqueScalingGroups[].scaleConfig.minReplicas: null becomes 1
        .spec.template.terminationDelay: null becomes "4h0m0s""#]]
    .assert_eq(&added.join("\n"));
}

/// Without what tells who wrote a field in which second. A client that applies takes hold, each time anew, of a field that it
/// leaves out and that the webhook fills in otherwise than the definition; and who wrote stands in the order of the seconds.
/// The generation stays: the spec is not to change.
fn without_seconds(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    let managers = metadata.remove("managedFields").expect("it was written");
    let mut managers = managers.as_array().cloned().expect("by somebody");
    for manager in &mut managers {
        manager["time"].take();
    }
    managers.sort_by_key(ToString::to_string);
    metadata.insert("managedFields".to_owned(), json!(managers));
    metadata.remove("resourceVersion");
    object
}

/// The manifests of sets in the folders of shapes and examples, and what they say.
fn sets() -> Vec<(String, Value)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let folders = ["crates/grove-api-types/tests/admission/shapes", "deploy/examples", "e2e/tests/it/expansion"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("the folder is there"));
    let paths = files.map(|file| file.expect("a file").path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let texts = yaml.map(|path| std::fs::read_to_string(path).expect("the file can be read"));
    let read = texts.map(|text| (serde_saphyr::from_str::<Value>(&text).expect("YAML"), text));
    read.filter(|(set, _)| set["kind"] == "PodCliqueSet").map(|(set, text)| (text, set)).collect()
}

/// What a user has written of an object, as the server has it.
fn own(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "labels", "annotations"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    let annotations =
        annotations.map(|annotations| annotations.remove("kubectl.kubernetes.io/last-applied-configuration"));
    if annotations.is_some() && metadata["annotations"] == json!({}) {
        metadata.as_object_mut().expect("metadata").remove("annotations");
    }
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"] })
}

/// Notes what is stored otherwise than it was sent; items of lists are all alike.
fn compare(at: &str, sent: &Value, stored: &Value, added: &mut BTreeSet<String>) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for key in sent.keys().chain(stored.keys()) {
                let of = |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
                compare(&format!("{at}.{key}"), &of(sent), &of(stored), added);
            }
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (sent, stored) in sent.iter().zip(stored) {
                compare(&format!("{at}[]"), sent, stored, added);
            }
        }
        _ if sent == stored => {}
        _ => drop(added.insert(format!("{at}: {sent} becomes {stored}"))),
    }
}

async fn run(plane: &Plane, arguments: &[&str], input: &str) -> String {
    kubectl_on(plane, arguments, input).await.unwrap_or_else(|words| panic!("kubectl {arguments:?}: {words}"))
}

/// Creates it. The webhook server hears of the topologies a moment after they were stored.
async fn create(plane: &Plane, text: &str) {
    while let Err(words) = kubectl_on(plane, &["create", "-f", "-"], text).await {
        assert!(words.contains("not found; create it or name another one"), "{words}");
    }
}

async fn get(plane: &Plane, of: &Value) -> Value {
    let kind = of["kind"].as_str().expect("a kind");
    let (name, namespace) = (of["metadata"]["name"].as_str().expect("a name"), of["metadata"]["namespace"].as_str());
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", kind));
    let path = DynamicObject::url_path(&resource, (kind == "PodCliqueSet").then_some(namespace.unwrap_or("default")));
    let request = Request::new(path).get(name, &GetParams::default()).expect("a request");
    plane.client().await.request(request).await.expect("it is there")
}

/// Outside of the plane's folder, which is not there yet. JSON is YAML.
fn configuration_file() -> String {
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "topologyAwareScheduling": { "enabled": true },
        "network": { "autoMNNVLEnabled": true },
        "scheduler": { "profiles": [{ "name": "default-scheduler" }, { "name": "kai-scheduler" }],
            "defaultProfileName": "default-scheduler" },
    });
    let file = Plane::shared().dir().join("kept.yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
