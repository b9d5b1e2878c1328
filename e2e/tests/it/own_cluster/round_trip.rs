//! The API server stores sets as users and operators sent them, whichever way they are sent again, and fields that the
//! webhook server does not know survive.

mod operator_sets;
mod unknown_fields;
mod webhook_outage;

use std::collections::BTreeSet;
use std::path::Path;

use e2e::TestCluster;
use e2e::kubectl::kubectl_on;
use e2e::propagation::{TOPOLOGY_NOT_CACHED, kubectl_until_success};
use expect_test::expect;
use futures::future::join_all;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GetParams};
use kube::core::{GroupVersionKind, Request};
use serde_json::{Value, json};

/// Takes long: the services first expand sets of other operators, and then all sets are sent again in each way in which users send sets.
#[tokio::test(flavor = "multi_thread")]
async fn objects_round_trip_unchanged() {
    let cluster = TestCluster::with_own_services("round-trip", &["--config", &configuration_file()]).await;
    for topology in ["grove-topology", "racks", "seven-levels"] {
        let level = |domain: &str| json!({ "domain": domain, "key": domain });
        let levels = ["zone", "block", "rack", "host"].map(level);
        let topology = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "metadata": { "name": topology },
            "spec": { "levels": levels } });
        run(&cluster, &["create", "-f", "-"], &topology.to_string()).await;
    }
    operator_sets::operator_sets_are_expanded(&cluster).await;
    // From here on only users write.
    for controller in ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"] {
        cluster.stop(controller).await;
    }
    sets_are_stored_as_sent(&cluster).await;
    unknown_fields::survive(&cluster).await;
    webhook_outage::requests_without_rules_pass(&cluster).await;
    cluster.down().await;
}

async fn sets_are_stored_as_sent(cluster: &TestCluster) {
    let mut added = BTreeSet::new();
    let sets = sets();
    assert!(sets.len() > 8, "{}", sets.len());
    // One kubectl for all sets: each process reads the schemas of the API server.
    let texts = sets.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("\n---\n");
    kubectl_until_success(cluster, &["create", "--dry-run=server", "-f", "-"], &texts, TOPOLOGY_NOT_CACHED).await;
    run(cluster, &["create", "-f", "-"], &texts).await;
    let get_all = async || join_all(sets.iter().map(|(_, sent)| get(cluster, sent))).await;
    let first = get_all().await;
    for ((_, sent), stored) in sets.iter().zip(&first) {
        compare("", sent, &user_fields(stored), &mut added);
    }
    let stored = first.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    run(cluster, &["replace", "-f", "-"], &stored).await;
    assert_eq!(get_all().await, first, "replacing an object by itself changes nothing");
    applies_change_nothing(cluster, &texts, &first, get_all).await;
    let added: Vec<_> = added.into_iter().collect();
    expect![[r#"
        .metadata.labels.grove.io/topology-name: null becomes "racks"
        .metadata.labels: null becomes {"grove.io/topology-name":"seven-levels"}
        .metadata.namespace: null becomes "default"
        .spec.template.cliqueStartupType: null becomes "CliqueStartupTypeAnyOrder"
        .spec.template.cliques[].spec.autoScalingConfig.minReplicas: null becomes 2
        .spec.template.cliques[].spec.minAvailable: null becomes 1
        .spec.template.cliques[].spec.minAvailable: null becomes 2
        .spec.template.cliques[].spec.minAvailable: null becomes 3
        .spec.template.cliques[].spec.minAvailable: null becomes 4
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

/// The first apply changes only metadata of kubectl; a second apply changes nothing.
async fn applies_change_nothing(
    cluster: &TestCluster,
    texts: &str,
    first: &[Value],
    get_all: impl AsyncFn() -> Vec<Value>,
) {
    for apply in [&["apply", "-f", "-"][..], &["apply", "--server-side", "--force-conflicts", "-f", "-"]] {
        run(cluster, apply, texts).await;
        let applied = get_all().await;
        assert_eq!(each(&applied, user_fields), each(first, user_fields), "{apply:?}");
        run(cluster, apply, texts).await;
        let again = get_all().await;
        assert_eq!(each(&again, without_times), each(&applied, without_times), "a second {apply:?} changes only times");
    }
}

fn each(objects: &[Value], part: fn(&Value) -> Value) -> Vec<Value> {
    objects.iter().map(part).collect()
}

/// The object without times and resource version, and with sorted field managers. Each apply takes ownership again of a
/// field that the manifest omits and that the webhook defaults differently than the CRD. Field managers are sorted by time.
/// The generation stays, because the spec must not change.
fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    let managers = metadata.remove("managedFields").expect("managed fields");
    let mut managers = managers.as_array().cloned().expect("a list");
    for manager in &mut managers {
        manager["time"].take();
    }
    managers.sort_by_key(ToString::to_string);
    metadata.insert("managedFields".to_owned(), json!(managers));
    metadata.remove("resourceVersion");
    object
}

/// The manifests of sets in the folders of tests and examples: the text and the parsed object. Sets with automatic MNNVL need another
/// configuration.
fn sets() -> Vec<(String, Value)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let folders = ["crates/grove-api-types/tests/admission/examples", "deploy/examples", "e2e/tests/it/expansion"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("the folder exists"));
    let paths = files.map(|file| file.expect("a file").path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let texts = yaml.map(|path| std::fs::read_to_string(path).expect("the file can be read"));
    let read = texts.map(|text| (serde_saphyr::from_str::<Value>(&text).expect("YAML"), text));
    let has_mnnvl = |set: &Value| set["metadata"]["annotations"]["grove.io/auto-mnnvl"] == "enabled";
    read.filter(|(set, _)| set["kind"] == "PodCliqueSet" && !has_mnnvl(set)).map(|(set, text)| (text, set)).collect()
}

/// The fields of a stored object that users write.
fn user_fields(object: &Value) -> Value {
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

/// Collects the fields that are stored with another value than sent; the items of a list share one path.
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

async fn run(cluster: &TestCluster, arguments: &[&str], input: &str) -> String {
    kubectl_on(cluster, arguments, input).await.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
}

async fn get(cluster: &TestCluster, object: &Value) -> Value {
    let kind = object["kind"].as_str().expect("a kind");
    let (name, namespace) =
        (object["metadata"]["name"].as_str().expect("a name"), object["metadata"]["namespace"].as_str());
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", kind));
    let path = DynamicObject::url_path(&resource, (kind == "PodCliqueSet").then_some(namespace.unwrap_or("default")));
    let request = Request::new(path).get(name, &GetParams::default()).expect("a request");
    cluster.client().await.request(request).await.expect("the object exists")
}

/// Writes the configuration outside of the cluster's folder, which does not exist yet. JSON is YAML.
fn configuration_file() -> String {
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "topologyAwareScheduling": { "enabled": true },
        "scheduler": { "profiles": [{ "name": "default-scheduler" }, { "name": "kai-scheduler" }],
            "defaultProfileName": "default-scheduler" },
    });
    let file = TestCluster::shared().dir().join("round-trip.yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
