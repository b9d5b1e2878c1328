//! Sets as users write them, each with all that it yields. What a set yields stands beside it, in `expansion/*.txt`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use e2e::{Plane, World, in_namespace, shown, taken_up};
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
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

/// Everything made for a set, by name; of each clique how many pods are ready, of each gang its groups; and what the set says
/// of itself.
pub(super) fn tell(world: &World) -> String {
    let mut text = String::new();
    let mut list = |kind: &str, names: Vec<String>| {
        for name in names {
            let _ = writeln!(text, "{kind} {name}");
        }
    };
    list("service", world.services.keys().cloned().collect());
    list(
        "group",
        world.groups.values().map(|group| format!("{} × {}", group.name_any(), group.spec.replicas)).collect(),
    );
    list(
        "clique",
        world.cliques.values().map(|clique| format!("{} × {}", clique.name_any(), clique.spec.replicas)).collect(),
    );
    for gang in world.gangs.values() {
        let group = |group: &grove_api_types::scheduler_v1alpha1::PodGroup| {
            format!("{} {} of {}", group.name, group.min_replicas, group.pod_references.len())
        };
        let groups: Vec<_> = gang.spec.podgroups.iter().map(group).collect();
        list("gang", vec![format!("{}: {}", gang.name_any(), groups.join(", "))]);
    }
    list("autoscaler", world.autoscalers.keys().cloned().collect());
    let mut hosts: Vec<_> = world.live_pods().map(shown::hostname).map(str::to_owned).collect();
    hosts.sort_unstable();
    list("host", hosts);
    let conditions = world.sets.values().filter_map(|set| set.status.as_ref()).flat_map(|status| &status.conditions);
    let told = |c: &Condition| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message);
    list("condition", conditions.map(told).collect());
    text
}

pub(super) fn wanted_pods(world: &World) -> usize {
    let wanted: i32 = world.cliques.values().map(|clique| clique.spec.replicas).sum();
    usize::try_from(wanted).expect("not negative")
}

/// Whether the set is available and nothing moves any more: every clique has its pods, all ready and known to its gang.
fn rests(world: &World, set: &str) -> bool {
    let ready = world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count();
    let wanted = wanted_pods(world);
    world.is_available(set)
        && world.is_told()
        && world.pods.len() == wanted
        && ready == wanted
        && world.references() == wanted
}

async fn check(namespace: &str, manifest: PathBuf) {
    in_namespace(namespace, async |ns| {
        let written = std::fs::read_to_string(&manifest).expect("the manifest is there");
        // The webhook server hears of a topology a moment after it was stored.
        taken_up::judgement(ns, &written, None).await;
        let created: PodCliqueSet = ns.create_yaml(&written).await;
        let name = created.name_any();
        let yields = tell(&ns.until("all of the set is ready", |world| rests(world, &name)).await);
        let shape = manifest.file_stem().expect("a name").to_string_lossy().into_owned();
        expect_test::expect_file![folder().join(format!("{shape}.txt"))].assert_eq(&yields);
        let written: Value = serde_saphyr::from_str(&written).expect("YAML");
        let kept = ns.api::<PodCliqueSet>().get(&name).await.expect("the set");
        let kept = serde_json::to_value(&kept.spec).expect("JSON");
        assert_eq!(lost(&written["spec"], &kept, "spec"), Vec::<String>::new());
        ns.remove::<PodCliqueSet>(&name).await;
        ns.until("nothing is left", World::is_empty).await;
    })
    .await;
}

/// What was written and is stored otherwise or not at all. Empty texts and objects say nothing.
fn lost(written: &Value, kept: &Value, path: &str) -> Vec<String> {
    match (written, kept) {
        (Value::Object(fields), _) => {
            let lost = |(name, value): (&String, &Value)| lost(value, &kept[name], &format!("{path}.{name}"));
            fields.iter().flat_map(lost).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter().zip(others).enumerate();
            pairs.flat_map(|(at, (item, other))| lost(item, other, &format!("{path}[{at}]"))).collect()
        }
        (Value::String(text), _) if text.is_empty() => Vec::new(),
        _ if written == kept => Vec::new(),
        _ => vec![format!("{path}: {written} became {kept}")],
    }
}

#[tokio::test]
async fn a_minimal_set_expands_as_recorded() {
    check("e2e-shape-least", folder().join("one-clique.yaml")).await;
}

#[tokio::test]
async fn a_set_with_only_scaling_groups_expands_as_recorded() {
    check("e2e-shape-groups", folder().join("only-groups.yaml")).await;
}

#[tokio::test]
async fn a_set_with_two_standalone_cliques_and_a_scaling_group_expands_as_recorded() {
    check("e2e-shape-two-alone", folder().join("two-standalone-and-a-group.yaml")).await;
}

#[tokio::test]
async fn a_set_with_nested_names_expands_as_recorded() {
    check("e2e-shape-names", folder().join("nested-names.yaml")).await;
}

#[tokio::test]
async fn an_inference_graph_expands_as_recorded() {
    check("e2e-shape-graph", folder().join("inference-graph.yaml")).await;
}

#[tokio::test]
async fn a_set_with_every_field_expands_as_recorded() {
    let topology = "{metadata: {name: racks}, spec: {levels: [{domain: block, key: b}, {domain: rack, key: r}, {domain: host, key: h}]}}";
    let topology: ClusterTopology = serde_saphyr::from_str(topology).expect("a topology");
    let topologies = Api::<ClusterTopology>::all(Plane::shared().client().await);
    topologies.create(&PostParams::default(), &topology).await.expect("the topology is created");
    check("e2e-shape-all", folder().join("every-field.yaml")).await;
}

#[tokio::test]
async fn the_disaggregated_example_expands_as_recorded() {
    check("e2e-shape-disaggregated", examples().join("disaggregated.yaml")).await;
}

#[tokio::test]
async fn the_multinode_example_expands_as_recorded() {
    check("e2e-shape-multinode", examples().join("multinode.yaml")).await;
}

#[tokio::test]
async fn the_autoscaled_example_expands_as_recorded() {
    check("e2e-shape-autoscaled", examples().join("autoscaled.yaml")).await;
}

#[test]
fn every_manifest_has_an_expansion_test() {
    let tested = include_str!("expansion.rs");
    let manifests = [folder(), examples()].map(|folder| std::fs::read_dir(folder).expect("a folder"));
    let mut names: BTreeMap<String, bool> = BTreeMap::new();
    for file in manifests.into_iter().flatten().map(|file| file.expect("a file").path()) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            names.insert(name.clone(), tested.contains(&format!("\"{name}\"")));
        }
    }
    assert!(names.values().all(|tested| *tested), "{names:?}");
}
