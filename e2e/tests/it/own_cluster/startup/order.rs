//! Pods start after those of their parents, and have the objects of the Go operator.

use std::fmt::Write as _;

use e2e::init_containers::{InitContainers, PENDING, init_container, log};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::process_memory;
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{all_are_ready, clique, find, ready, set, set_behaviour, stored, waiting_set};

const SHAPES: usize = 6;
/// The fields of the init container that differ from the Go operator, which has another image, no requests, and no security context.
const DIFFERENT: [&str; 3] = ["image", "resources", "securityContext"];
/// Each set has other delays.
const SETS: usize = 20;
/// Of one init container without the pages of its file, in megabytes of 2^20 bytes. The file of a test is not optimised and has 70 MB, of which more or fewer
/// pages are resident.
const MAX_MEMORY: f64 = 15.0;

/// A set of a shape: in-order or explicit, with and without scaling groups, with scaled gangs, and with one name that begins with another.
fn shape(number: usize, name: &str) -> String {
    let clique = |name: &str, replicas: i32, parents: &[&str]| clique(name, replicas, PENDING, parents);
    match number {
        0 => {
            let cliques = [clique("a", 1, &[]), clique("b", 2, &[]), clique("c", 1, &[]), clique("d", 1, &[])];
            set(name, "InOrder", &cliques, &[])
        }
        1 => {
            let (b, c) = (clique("b", 1, &["a"]), clique("c", 2, &["a"]));
            set(name, "Explicit", &[clique("a", 1, &[]), b, c, clique("d", 1, &["b", "c"])], &[])
        }
        2 => {
            let cliques = [clique("f", 1, &[]), clique("p", 1, &[]), clique("d", 2, &[]), clique("z", 1, &[])];
            set(name, "InOrder", &cliques, &["{name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1}"])
        }
        3 => {
            let (p, d) = (clique("p", 1, &["f"]), clique("d", 1, &["f", "p"]));
            let groups = ["{name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 2}"];
            set(name, "Explicit", &[clique("f", 1, &[]), p, d, clique("z", 1, &["d"])], &groups)
        }
        4 => {
            let cliques = [clique("ldr", 1, &[]), clique("wkr", 2, &["ldr"])];
            set(name, "Explicit", &cliques, &["{name: g, cliqueNames: [ldr, wkr], replicas: 3, minAvailable: 1}"])
        }
        _ => {
            let cliques = [clique("pre", 1, &[]), clique("prefill", 1, &["pre"]), clique("z", 1, &["pre", "prefill"])];
            set(name, "Explicit", &cliques, &[])
        }
    }
}

/// Asserts that the set has the identity of the Go operator, and its waiting pods the same init container and volumes.
async fn assert_objects_of_the_go_operator(ns: &Namespace, state: &NamespaceState, set: &str) {
    let text = include_str!("go-operator.yaml").replace("SET", set).replace("NAMESPACE", &ns.name);
    let mut expected: Value = serde_saphyr::from_str(&text).expect("the expected objects");
    let owner = json!([{
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": set, "uid": "<uid>", "controller": true, "blockOwnerDeletion": true,
    }]);
    for object in expected["identity"].as_array_mut().expect("a list") {
        object["metadata"]["namespace"] = json!(ns.name);
        object["metadata"]["ownerReferences"] = owner.clone();
    }
    assert_eq!(identity(ns, set).await, expected["identity"]);
    let of_set = state.pods_of(set).filter(|pod| init_container(pod).is_some());
    for pod in of_set {
        let mut container = json!(init_container(pod));
        let fields = container.as_object_mut().expect("a container");
        fields.remove("args");
        for field in DIFFERENT {
            assert!(fields.remove(field).is_some(), "{field}");
        }
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        // The API server adds a token of the account of the pod.
        let volumes: Vec<_> = volumes.filter(|volume| !volume.name.starts_with("kube-api-access")).collect();
        assert_eq!((container, json!(volumes)), (expected["initContainer"].clone(), expected["volumes"].clone()));
    }
}

/// The objects of the identity of a set.
async fn identity(ns: &Namespace, set: &str) -> Value {
    let role = format!("grove.io:pcs:{set}");
    let account = find::<ServiceAccount>(ns, set).await.expect("the account");
    let mut secret = find::<Secret>(ns, &format!("{set}-ic-sat")).await.expect("the Secret");
    let keys: Vec<_> = secret.data.take().expect("the token").into_keys().collect();
    assert_eq!(keys, ["ca.crt", "namespace", "token"]);
    let uid = secret.annotations_mut().remove("kubernetes.io/service-account.uid");
    assert_eq!(uid, account.uid());
    json!([
        stored(&account),
        stored(&find::<Role>(ns, &role).await.expect("the Role")),
        stored(&find::<RoleBinding>(ns, &role).await.expect("the RoleBinding")),
        stored(&secret),
    ])
}

/// The parents of each pod of the set, and the arguments of its init container.
fn parents(state: &NamespaceState, set: &str) -> String {
    let mut text = String::new();
    for clique in state.cliques.values().filter(|clique| clique.name_any().starts_with(&format!("{set}-0-"))) {
        let name = clique.name_any();
        let pods = state.pods.values().filter(|pod| pod.labels().get("grove.io/podclique") == Some(&name));
        let index = |pod: &Pod| pod.labels()["grove.io/podclique-pod-index"].clone();
        let mut pods: Vec<_> = pods.collect();
        // Their names are not the same in each run.
        pods.sort_by_key(|pod| index(pod));
        for pod in pods {
            let args = init_container(pod).and_then(|container| container.args.clone()).unwrap_or_default();
            let _ = writeln!(text, "{name}-{} after {:?}: {args:?}", index(pod), clique.spec.starts_after);
        }
    }
    text
}

/// Asserts that at each moment in which a pod became ready, its parents had enough ready pods.
fn assert_order(state: &NamespaceState, ready: &[String]) {
    let cliques = |name: &String| state.cliques.get(name).unwrap_or_else(|| panic!("no clique {name}"));
    for (at, name) in ready.iter().enumerate() {
        for parent in &cliques(name).spec.starts_after {
            let before = ready[..at].iter().filter(|other| *other == parent).count();
            let needed = cliques(parent).spec.min_available.expect("a minimum");
            let has_enough = i32::try_from(before).is_ok_and(|before| before >= needed);
            assert!(has_enough, "{name} started after {before} of {needed} pods of {parent}: {ready:?}");
        }
    }
}

#[tokio::test]
async fn pods_start_after_those_of_their_parents() {
    let cluster = TestCluster::with_own_services("startup-order", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-startup-order").await;
    let kubelets = InitContainers::start(&cluster, &ns, Some(7)).await;
    for number in 0..SETS {
        ns.create_yaml::<PodCliqueSet>(&shape(number % SHAPES, &format!("s{number}"))).await;
    }
    let is_done = |state: &NamespaceState| state.sets.len() == SETS && all_are_ready(state);
    let state = ns.wait_for("all pods are ready", is_done).await;
    poll_until(async || (kubelets.ready().len() >= state.pods.len()).then_some(())).await;
    assert_order(&state, &kubelets.ready());
    assert_eq!(kubelets.failures(), []);
    let mut all_parents = String::new();
    for number in 0..SHAPES {
        let set = format!("s{number}");
        assert_objects_of_the_go_operator(&ns, &state, &set).await;
        all_parents.push_str(&parents(&state, &set));
    }
    assert_eq!(all_parents, include_str!("parents.txt"));
    one_init_container_needs_one_list_and_one_watch(&cluster, &ns, &kubelets).await;
    a_scaled_clique_and_a_scaled_group_keep_the_order(&ns).await;
    cluster.down().await;
}

/// Also: its memory, and what the user sees meanwhile.
async fn one_init_container_needs_one_list_and_one_watch(
    cluster: &TestCluster,
    ns: &Namespace,
    kubelets: &InitContainers,
) {
    let requests = cluster.audit_log().from_now();
    ns.create_yaml::<PodCliqueSet>(&waiting_set("one", 1)).await;
    let running = kubelets.wait_for_running(1).await;
    let (pod, pid) = running.first_key_value().expect("an init container");
    ns.wait_for_condition("one-0-b", "Available", "StartupDependenciesPending", "PodClique one-0-a (0 of 1 ready)")
        .await;
    poll_until(async || log(cluster, ns, pod).contains("waiting for one-0-a (0 of 1 ready)").then_some(())).await;
    let memory = process_memory::of(*pid).expect("a running process");
    println!("an init container has {memory:?}");
    assert!(memory.anonymous < MAX_MEMORY, "{memory:?}");
    let state = ns.wait_for("the parent exists", |state| state.pods_of("one").count() == 2).await;
    set_behaviour(ns, &state, "one-0-a", None).await;
    ns.wait_for("the child is ready", |state| ready(state, "one-0-b") == 1).await;
    let events = requests.events();
    let mut sent: Vec<_> = events
        .iter()
        .filter(|event| event.user_agent.starts_with("grove-initc/"))
        .map(|event| (event.request_received_timestamp.clone(), event.verb.clone()))
        .collect();
    sent.sort();
    // A watch has an event when it starts, and one when it ends.
    sent.dedup();
    let verbs: Vec<_> = sent.iter().map(|(_, verb)| verb.as_str()).collect();
    assert_eq!(verbs, ["list", "watch"]);
}

/// A new pod waits for the current pods of its parents.
async fn a_scaled_clique_and_a_scaled_group_keep_the_order(ns: &Namespace) {
    ns.scale::<PodClique>("s1-0-c", 3).await;
    ns.scale::<PodCliqueScalingGroup>("s2-0-g", 3).await;
    let is_done = |state: &NamespaceState| ready(state, "s1-0-c") == 3 && ready(state, "s2-0-g-2-d") == 2;
    let state = ns.wait_for("the new pods are ready", is_done).await;
    let of_scaled = state.cliques["s2-0-g-2-d"].spec.starts_after.clone();
    assert_eq!(of_scaled, ["s2-0-g-2-p"], "a scaled gang waits only for cliques of its own replica");
}
