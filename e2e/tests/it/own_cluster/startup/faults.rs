//! Faults while pods wait for others.

use e2e::init_containers::{InitContainers, PENDING, init_container, log};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::{clique, find, ready, set, set_behaviour, waiting_set};

/// The replicas of the clique whose pods wait during the restart of the API server.
const WAITING: i32 = 50;

#[tokio::test]
async fn waiting_pods_survive_faults() {
    let cluster = TestCluster::with_own_control_plane("startup-faults", &[]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-startup-faults").await;
    let kubelets = InitContainers::start(&cluster, &ns, None).await;
    a_parent_must_be_ready_when_the_last_one_is(&cluster, &ns, &kubelets).await;
    a_scaled_parent_changes_what_pods_wait_for(&ns, &kubelets).await;
    a_pod_counts_only_for_its_own_clique(&cluster, &ns, &kubelets).await;
    pods_start_without_the_services(&cluster, &ns, &kubelets).await;
    drop(kubelets);
    let ns = Namespace::create(&client, "e2e-startup-restart").await;
    let kubelets = InitContainers::start(&cluster, &ns, None).await;
    pods_wait_during_a_restart_of_the_api_server_with_another_token(&cluster, &ns, &kubelets).await;
    cluster.down().await;
}

/// A parent that loses readiness before the child starts delays it, and a parent that loses it afterwards does not stop the child.
async fn a_parent_must_be_ready_when_the_last_one_is(cluster: &TestCluster, ns: &Namespace, kubelets: &InitContainers) {
    let cliques =
        [clique("a", 1, "unready", &[]), clique("b", 1, "unready", &[]), clique("c", 1, PENDING, &["a", "b"])];
    ns.create_yaml::<PodCliqueSet>(&set("lost", "Explicit", &cliques, &[])).await;
    let running = kubelets.wait_for_running(1).await;
    let pod = running.keys().next().expect("an init container");
    let waits_for = async |text: &str| {
        let line = format!("waiting for {text}");
        poll_until(async || log(cluster, ns, pod).trim_end().ends_with(&line).then_some(())).await;
    };
    waits_for("lost-0-a (0 of 1 ready), lost-0-b (0 of 1 ready)").await;
    let state = ns.wait_for("the pods exist", |state| state.pods.len() == 3).await;
    for (parent, behaviour, missing) in [
        ("lost-0-a", None, "lost-0-b (0 of 1 ready)"),
        ("lost-0-a", Some("unready"), "lost-0-a (0 of 1 ready), lost-0-b (0 of 1 ready)"),
        ("lost-0-b", None, "lost-0-a (0 of 1 ready)"),
    ] {
        set_behaviour(ns, &state, parent, behaviour).await;
        waits_for(missing).await;
    }
    set_behaviour(ns, &state, "lost-0-a", None).await;
    a_started_pod_does_not_wait_again(ns, pod).await;
}

/// The pod starts after a parent, which then is no longer ready.
async fn a_started_pod_does_not_wait_again(ns: &Namespace, pod: &str) {
    let started = ns.wait_for("the child is ready", |state| ready(state, "lost-0-c") == 1).await;
    set_behaviour(ns, &started, "lost-0-a", Some("unready")).await;
    let reported = |state: &NamespaceState| {
        let status = state.cliques.get("lost-0-a").and_then(|clique| clique.status.as_ref());
        status.is_some_and(|status| status.ready_replicas == 0)
    };
    let after = ns.wait_for("the parent is reported as not ready", reported).await;
    let child = |state: &NamespaceState| state.pods.get(pod).and_then(ResourceExt::uid);
    assert_eq!((child(&after), ready(&after, "lost-0-c")), (child(&started), 1));
}

/// The user scales a parent below its minimum while a pod waits for it.
async fn a_scaled_parent_changes_what_pods_wait_for(ns: &Namespace, kubelets: &InitContainers) {
    let cliques = [clique("a", 2, "unready", &[]), clique("b", 1, PENDING, &["a"])];
    ns.create_yaml::<PodCliqueSet>(&set("less", "Explicit", &cliques, &[])).await;
    kubelets.wait_for_running(1).await;
    ns.scale::<PodClique>("less-0-a", 1).await;
    let waits_for_one = |state: &NamespaceState| {
        let args = |pod| init_container(pod).and_then(|container| container.args.clone()).unwrap_or_default();
        let of_set: Vec<_> = state.pods_of("less").filter(|pod| !is_terminating(*pod)).collect();
        of_set.len() == 2 && of_set.iter().any(|pod| args(pod) == ["--podcliques=less-0-a:1"])
    };
    let state = ns.wait_for("the pod is replaced", waits_for_one).await;
    set_behaviour(ns, &state, "less-0-a", None).await;
    ns.wait_for("the child is ready", |state| ready(state, "less-0-b") == 1).await;
}

/// The name of one parent begins with that of the other.
async fn a_pod_counts_only_for_its_own_clique(cluster: &TestCluster, ns: &Namespace, kubelets: &InitContainers) {
    let cliques = [
        clique("pre", 1, "unready", &[]),
        clique("prefill", 2, "unready", &[]),
        clique("z", 1, PENDING, &["pre", "prefill"]),
    ];
    ns.create_yaml::<PodCliqueSet>(&set("names", "Explicit", &cliques, &[])).await;
    let running = kubelets.wait_for_running(1).await;
    let pod = running.keys().next().expect("an init container");
    let state = ns.wait_for("the pods exist", |state| state.pods_of("names").count() == 4).await;
    set_behaviour(ns, &state, "names-0-prefill", None).await;
    let line = "waiting for names-0-pre (0 of 1 ready)";
    poll_until(async || log(cluster, ns, pod).trim_end().ends_with(line).then_some(())).await;
    set_behaviour(ns, &state, "names-0-pre", None).await;
    ns.wait_for("the last pod is ready", |state| ready(state, "names-0-z") == 1).await;
}

async fn pods_start_without_the_services(cluster: &TestCluster, ns: &Namespace, kubelets: &InitContainers) {
    let cliques = ["a", "b", "c"].map(|name| clique(name, 1, if name == "a" { "unready" } else { PENDING }, &[]));
    ns.create_yaml::<PodCliqueSet>(&set("alone", "InOrder", &cliques, &[])).await;
    kubelets.wait_for_running(2).await;
    for service in ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"] {
        cluster.stop(service).await;
    }
    let state = ns.wait_for("the pods exist", |state| state.pods_of("alone").count() == 3).await;
    set_behaviour(ns, &state, "alone-0-a", None).await;
    ns.wait_for("the last pod is ready", |state| ready(state, "alone-0-c") == 1).await;
    assert_eq!(kubelets.failures(), []);
    cluster.start_again().await;
    ns.wait_for("the set is available", |state| state.is_available("alone")).await;
}

async fn pods_wait_during_a_restart_of_the_api_server_with_another_token(
    cluster: &TestCluster,
    ns: &Namespace,
    kubelets: &InitContainers,
) {
    let waiting = usize::try_from(WAITING).expect("a small number");
    ns.create_yaml::<PodCliqueSet>(&waiting_set("many", WAITING)).await;
    let running = kubelets.wait_for_running(waiting).await;
    let logs_contain = async |text: &str| {
        let contains = |pod: &String| log(cluster, ns, pod).contains(text);
        poll_until(async || running.keys().all(contains).then_some(())).await;
    };
    logs_contain("waiting for many-0-a (0 of 1 ready)").await;
    let state = ns.wait_for("the pods exist", |state| state.pods.len() == waiting + 1).await;
    kubelets.hold_tokens();
    let revoked = find::<Secret>(ns, "many-ic-sat").await.expect("the Secret").uid();
    ns.delete_object::<Secret>("many-ic-sat").await;
    let has_token = |secret: &Secret| secret.uid() != revoked && secret.data.is_some();
    poll_until(async || find::<Secret>(ns, "many-ic-sat").await.filter(has_token)).await;
    cluster.kill("kube-apiserver").await;
    cluster.up().await;
    logs_contain("Unauthorized").await;
    kubelets.update_tokens().await;
    set_behaviour(ns, &state, "many-0-a", None).await;
    ns.wait_for("all pods are ready", |state| ready(state, "many-0-b") == waiting).await;
    assert_eq!(kubelets.failures(), []);
}
