//! Sets as users write them, each with all objects that Grove creates for it, as recorded in `expansion/*.txt`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use e2e::{Namespace, NamespaceState, TestCluster, in_namespace, propagation, snapshot};
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use grove_dev_harness::devices::{Devices, GPUS};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/expansion"))
}

fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples"))
}

/// All objects of a set by name: cliques and groups with their replicas, gangs with their pod groups, and the conditions of
/// the set.
pub(super) fn describe(state: &NamespaceState) -> String {
    let mut text = String::new();
    let mut list = |kind: &str, names: Vec<String>| {
        for name in names {
            let _ = writeln!(text, "{kind} {name}");
        }
    };
    list("service", state.services.keys().cloned().collect());
    list(
        "group",
        state.groups.values().map(|group| format!("{} × {}", group.name_any(), group.spec.replicas)).collect(),
    );
    list(
        "clique",
        state.cliques.values().map(|clique| format!("{} × {}", clique.name_any(), clique.spec.replicas)).collect(),
    );
    for gang in state.gangs.values() {
        let group = |group: &grove_api_types::scheduler_v1alpha1::GangPodGroup| {
            format!("{} {} of {}", group.name, group.min_replicas, group.pod_references.len())
        };
        let groups: Vec<_> = gang.spec.podgroups.iter().map(group).collect();
        list("gang", vec![format!("{}: {}", gang.name_any(), groups.join(", "))]);
    }
    list("autoscaler", state.autoscalers.keys().cloned().collect());
    list("claim", state.claims.keys().cloned().collect());
    let mut hosts: Vec<_> = state.active_pods().map(snapshot::hostname).map(str::to_owned).collect();
    hosts.sort_unstable();
    list("host", hosts);
    let conditions = state.sets.values().filter_map(|set| set.status.as_ref()).flat_map(|status| &status.conditions);
    let line = |c: &Condition| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message);
    list("condition", conditions.map(line).collect());
    text
}

pub(super) fn desired_pods(state: &NamespaceState) -> usize {
    let desired: i32 = state.cliques.values().map(|clique| clique.spec.replicas).sum();
    usize::try_from(desired).expect("not negative")
}

/// Whether the set is available, every status is current, and exactly the desired pods exist, are ready and have a reference
/// in a `PodGang`.
fn is_settled(state: &NamespaceState, set: &str) -> bool {
    let ready = state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count();
    let desired = desired_pods(state);
    state.is_available(set)
        && state.status_is_current()
        && state.pods.len() == desired
        && ready == desired
        && state.reference_count() == desired
}

async fn expands_as_recorded(namespace: &str, manifest: PathBuf) {
    in_namespace(namespace, async |ns| expands_in(ns, &manifest).await).await;
}

/// The manifest of an object, without the namespace that some examples name. JSON is YAML.
fn without_namespace(manifest: &Path) -> String {
    let text = std::fs::read_to_string(manifest).expect("the manifest");
    let mut object: Value = serde_saphyr::from_str(&text).expect("YAML");
    object["metadata"].as_object_mut().expect("metadata").remove("namespace");
    object.to_string()
}

async fn expands_in(ns: &Namespace, manifest: &Path) {
    let written = without_namespace(manifest);
    // The webhook server reads topologies from a cache, which may lack a topology that was just stored.
    propagation::wait_for_dry_run_create(ns, &written, None).await;
    let created: PodCliqueSet = ns.create_yaml(&written).await;
    let name = created.name_any();
    let description =
        describe(&ns.wait_for("all objects of the set are ready", |state| is_settled(state, &name)).await);
    let name_of_file = manifest.file_stem().expect("a name").to_string_lossy().into_owned();
    expect_test::expect_file![folder().join(format!("{name_of_file}.txt"))].assert_eq(&description);
    let written: Value = serde_saphyr::from_str(&written).expect("YAML");
    let stored = ns.api::<PodCliqueSet>().get(&name).await.expect("the set");
    let stored = serde_json::to_value(&stored.spec).expect("JSON");
    assert_eq!(lost_fields(&written["spec"], &stored, "spec"), Vec::<String>::new());
    ns.delete_object::<PodCliqueSet>(&name).await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
}

/// The fields that are stored with another value than written, or not at all. Empty strings and objects do not count.
fn lost_fields(written: &Value, stored: &Value, path: &str) -> Vec<String> {
    match (written, stored) {
        (Value::Object(fields), _) => {
            let lost = |(name, value): (&String, &Value)| lost_fields(value, &stored[name], &format!("{path}.{name}"));
            fields.iter().flat_map(lost).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter().zip(others).enumerate();
            pairs.flat_map(|(at, (item, other))| lost_fields(item, other, &format!("{path}[{at}]"))).collect()
        }
        (Value::String(text), _) if text.is_empty() => Vec::new(),
        _ if written == stored => Vec::new(),
        _ => vec![format!("{path}: {written} became {stored}")],
    }
}

#[tokio::test]
async fn a_minimal_set_expands_as_recorded() {
    expands_as_recorded("e2e-expand-minimal", folder().join("one-clique.yaml")).await;
}

#[tokio::test]
async fn a_set_with_only_scaling_groups_expands_as_recorded() {
    expands_as_recorded("e2e-expand-groups", folder().join("only-groups.yaml")).await;
}

#[tokio::test]
async fn a_set_with_two_standalone_cliques_and_a_scaling_group_expands_as_recorded() {
    expands_as_recorded("e2e-expand-standalone", folder().join("two-standalone-and-a-group.yaml")).await;
}

#[tokio::test]
async fn a_set_with_nested_names_expands_as_recorded() {
    expands_as_recorded("e2e-expand-names", folder().join("nested-names.yaml")).await;
}

#[tokio::test]
async fn an_inference_graph_expands_as_recorded() {
    expands_as_recorded("e2e-expand-graph", folder().join("inference-graph.yaml")).await;
}

async fn create_topology(manifest: &str) {
    let topology: ClusterTopology = serde_saphyr::from_str(manifest).expect("a topology");
    let topologies = Api::<ClusterTopology>::all(TestCluster::shared().client().await);
    topologies.create(&PostParams::default(), &topology).await.expect("the topology is created");
}

#[tokio::test]
async fn a_set_with_every_field_expands_as_recorded() {
    let topology = "{metadata: {name: racks}, spec: {levels: [{domain: block, key: b}, {domain: rack, key: r}, {domain: host, key: h}]}}";
    create_topology(topology).await;
    in_namespace("e2e-expand-all", async |ns| {
        let shared = create_claim_templates(ns).await;
        expands_in(ns, &folder().join("every-field.yaml")).await;
        shared.delete().await;
    })
    .await;
}

/// Creates the devices of the set, and the templates that it refers to in its own namespace and in another one. All pods share a claim, and so
/// a node. Returns the other namespace.
async fn create_claim_templates(ns: &Namespace) -> Namespace {
    let devices = Devices { class: "gpu.example.com", driver: "gpu.example.com", prefix: "example" };
    devices.install(&ns.client, 16).await.expect("the devices");
    let shared = Namespace::create(&ns.client, "shared").await;
    for (namespace, name) in [(ns, "claims"), (&shared, "elsewhere")] {
        let requests = "requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]";
        let template = format!("{{metadata: {{name: {name}}}, spec: {{spec: {{devices: {{{requests}}}}}}}}}");
        namespace.create_yaml::<ResourceClaimTemplate>(&template).await;
    }
    shared
}

#[tokio::test]
async fn the_disaggregated_example_expands_as_recorded() {
    expands_as_recorded("e2e-expand-disaggregated", examples().join("disaggregated.yaml")).await;
}

#[tokio::test]
async fn the_multinode_example_expands_as_recorded() {
    expands_as_recorded("e2e-expand-multinode", examples().join("multinode.yaml")).await;
}

#[tokio::test]
async fn the_autoscaled_example_expands_as_recorded() {
    expands_as_recorded("e2e-expand-autoscaled", examples().join("autoscaled.yaml")).await;
}

#[tokio::test]
async fn the_training_example_expands_as_recorded() {
    expands_as_recorded("e2e-expand-training", examples().join("training.yaml")).await;
}

#[tokio::test]
async fn the_packed_example_expands_as_recorded() {
    let topology = std::fs::read_to_string(examples().join("cluster-topology.yaml")).expect("the topology");
    create_topology(&topology).await;
    expands_as_recorded("e2e-expand-packed", examples().join("packed.yaml")).await;
}

#[tokio::test]
async fn the_examples_with_shared_claims_expand_as_recorded() {
    in_namespace("e2e-expand-claims", async |ns| {
        GPUS.install(&ns.client, 8).await.expect("the devices");
        for template in ["gpu-claim-template.yaml", "shared-gpu-template.yaml"] {
            ns.create_yaml::<ResourceClaimTemplate>(&without_namespace(&examples().join(template))).await;
        }
        expands_in(ns, &examples().join("shadow-pods.yaml")).await;
        expands_in(ns, &examples().join("training-pipeline.yaml")).await;
    })
    .await;
}

#[test]
fn every_manifest_has_an_expansion_test() {
    // The example with a ComputeDomain needs a configuration of its own.
    let tested = [include_str!("expansion.rs"), include_str!("own_cluster/compute_domains/example.rs")].concat();
    let manifests = [folder(), examples()].map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut names: BTreeMap<String, bool> = BTreeMap::new();
    for file in manifests.into_iter().flatten().map(|file| file.expect("a file").path()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let is_set = || std::fs::read_to_string(&file).expect("a manifest").contains("kind: PodCliqueSet");
        if file.extension().is_some_and(|extension| extension == "yaml") && is_set() {
            names.insert(name.clone(), tested.contains(&format!("\"{name}\"")));
        }
    }
    assert!(names.values().all(|tested| *tested), "{names:?}");
}
