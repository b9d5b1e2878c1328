//! A set with two cliques that stand alone and a scaling group yields exactly these objects. Of each kind that Grove makes are compared
//! labels, annotations, owner, finalizers and spec; of pods, whose spec others fill in, the fields that Grove decides about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use e2e::{Namespace, World, in_namespace, shown, world::is_ready};
use expect_test::expect;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Of the one replica: 1 of `router`, 2 of `cache`, and 1 and 3 in each of three replicas of the group.
const PODS: usize = 1 + 2 + 3 * (1 + 3);

/// Its name is part of what pods are told.
pub(super) const NAMESPACE: &str = "e2e-composition";

/// A gate that is none of Grove's.
const HOLD: &str = "e2e.example/hold";

const CLIQUE: &str = "grove.io/podclique";
const INDEX: &str = "grove.io/podclique-pod-index";

#[tokio::test]
async fn a_set_with_a_scaling_group_creates_exactly_these_objects() {
    in_namespace(NAMESPACE, yields_exactly_these_objects).await;
}

/// Creates the set in this namespace, and compares what comes of it.
pub(super) async fn yields_exactly_these_objects(ns: &Namespace) {
    // `router` is held by somebody else's gate, so the base gang is not scheduled at first.
    let mut set: Value =
        serde_saphyr::from_str(include_str!("expansion/two-standalone-and-a-group.yaml")).expect("YAML");
    set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulingGates"] = json!([{ "name": HOLD }]);
    ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
    let is_held = |world: &World| gates(world).contains(&format!("g2-0-router-0 {HOLD}\n"));
    let is_freed = |world: &World| gates(world).matches("g2-0-router-0 ").count() == 1;
    let world = ns
        .until("all but router of the base gang is ready, and nothing else holds router", |world| {
            rests(world, 2 + 4) && is_held(world) && is_freed(world)
        })
        .await;
    expect![[r"
        g2-0-model-1-decode-0 grove.io/podgang-pending-creation
        g2-0-model-1-decode-1 grove.io/podgang-pending-creation
        g2-0-model-1-decode-2 grove.io/podgang-pending-creation
        g2-0-model-1-prefill-0 grove.io/podgang-pending-creation
        g2-0-model-2-decode-0 grove.io/podgang-pending-creation
        g2-0-model-2-decode-1 grove.io/podgang-pending-creation
        g2-0-model-2-decode-2 grove.io/podgang-pending-creation
        g2-0-model-2-prefill-0 grove.io/podgang-pending-creation
        g2-0-router-0 e2e.example/hold
    "]]
    .assert_eq(&gates(&world));
    for pod in world.live_pods().filter(|pod| shown::hostname(pod).starts_with("g2-0-router-")) {
        ns.patch::<Pod>(&pod.name_any(), json!({ "spec": { "schedulingGates": null } })).await;
    }
    let world =
        ns.until("all is ready", |world| world.is_available("g2") && rests(world, PODS) && world.is_told()).await;
    expect_file("services", &all(&world.services, shown::object));
    expect_file("groups", &all(&world.groups, shown::object));
    expect_file("cliques", &all(&world.cliques, shown::object));
    expect_file(
        "gangs",
        &all(&world.gangs, |gang, fields| shown::with_references_counted(&shown::object(gang, fields))),
    );
    each_group_refers_to_the_pods_of_its_clique(&world);
    expect_file("autoscalers", &all(&world.autoscalers, shown::object));
    expect_file("pods", &pods(&world));
    // Identities are for sets whose cliques wait for each other.
    assert_eq!(names::<ServiceAccount>(ns).await, ["default"]);
    assert!(names::<Role>(ns).await.is_empty() && names::<RoleBinding>(ns).await.is_empty());
    assert!(names::<Secret>(ns).await.is_empty() && names::<ResourceClaim>(ns).await.is_empty());
}

/// Whether all pods are there, known to their gangs, and this many of them ready.
fn rests(world: &World, ready: usize) -> bool {
    world.pods.len() == PODS
        && world.references() == PODS
        && world.live_pods().filter(|pod| is_ready(pod)).count() == ready
}

/// The gates of each pod that has any.
fn gates(world: &World) -> String {
    let mut lines = BTreeSet::new();
    for pod in world.live_pods() {
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).into_iter().flatten();
        lines.extend(gates.map(|gate| format!("{} {}\n", shown::hostname(pod), gate.name)));
    }
    lines.into_iter().collect()
}

/// Of each gang, base and scaled: the references of a group are to the live pods of the clique of its name, to all of them,
/// and to each once.
pub(super) fn each_group_refers_to_the_pods_of_its_clique(world: &World) {
    for (gang, group) in world.gangs.iter().flat_map(|(name, gang)| gang.spec.podgroups.iter().map(move |g| (name, g)))
    {
        let mut referred: Vec<_> = group.pod_references.iter().map(|pod| pod.name.clone()).collect();
        referred.sort();
        let of_clique = |pod: &&Pod| pod.labels().get(CLIQUE) == Some(&group.name);
        let mut pods: Vec<_> = world.live_pods().filter(of_clique).map(ResourceExt::name_any).collect();
        pods.sort();
        assert_eq!(referred, pods, "{} in {gang}", group.name);
    }
}

/// The objects of a kind by name.
fn all<K>(objects: &BTreeMap<String, K>, shown: impl Fn(&K, &[&str]) -> String) -> BTreeMap<String, Value> {
    objects.iter().map(|(name, object)| (name.clone(), parsed(&shown(object, &["spec"])))).collect()
}

/// What the pods of each clique are like, of which none differs from another but in its index.
fn pods(world: &World) -> BTreeMap<String, Value> {
    let mut by_clique: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for pod in world.live_pods() {
        let (clique, index) = (&pod.labels()[CLIQUE], &pod.labels()[INDEX]);
        let mut shown = parsed(&shown::object(pod, &[]));
        shown["spec"] = parsed(&shown::pod_spec(pod));
        assert_eq!(shown["spec"]["hostname"], format!("{clique}-{index}"));
        shown["spec"]["hostname"] = json!(format!("{clique}-INDEX"));
        shown["labels"][INDEX] = json!("INDEX");
        *by_clique.entry(clique.clone()).or_default().entry(shown.to_string()).or_default() += 1;
    }
    let only = |(clique, mut alike): (String, BTreeMap<String, usize>)| {
        assert_eq!(alike.len(), 1, "pods of {clique} differ: {alike:#?}");
        let (shown, count) = alike.pop_first().expect("one");
        (format!("{count} of {clique}"), parsed(&shown))
    };
    by_clique.into_iter().map(only).collect()
}

async fn names<K>(ns: &Namespace) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let objects = ns.api::<K>().list(&ListParams::default()).await.expect("the objects of the kind");
    objects.iter().map(ResourceExt::name_any).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[track_caller]
fn expect_file(kind: &str, objects: &BTreeMap<String, Value>) {
    let file = expect_test::expect_file![format!("{}/tests/it/composition/{kind}.json", env!("CARGO_MANIFEST_DIR"))];
    file.assert_eq(&format!("{objects}\n", objects = serde_json::to_string_pretty(objects).expect("JSON")));
}
