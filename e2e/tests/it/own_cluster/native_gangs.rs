//! Gangs of the default scheduler, with the workload API of Kubernetes: all pods that a gang needs are bound, or none. The tests record
//! the watch events about all pods, so they find also a pod that was bound for a moment.

mod capacity;
mod case;
mod disruptions;
mod incarnations;
mod races;
mod scaled_down;
mod topology;
mod updates;

use e2e::binding_log::{is_bound, pod_group};
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster, metrics};
use grove_api_types::v1alpha1::PodClique;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use self::case::{Case, named_pod_group, pods_of, set};
use crate::it::composition::{NAMESPACE, creates_exactly_these_objects};

/// Two `PriorityClass`es.
pub(super) const LOW: &str = "e2e-low";
pub(super) const HIGH: &str = "e2e-high";
/// The reason of a gang without a `PodGroup`.
const INDIVIDUALLY: &str = "PodsScheduledIndividually";
const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "topology-controller"];

/// Creates the two `PriorityClass`es.
pub(super) async fn create_priority_classes(client: &Client) {
    for (name, value) in [(LOW, 1000), (HIGH, 2000)] {
        let class = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
            "value": value });
        let class: PriorityClass = serde_json::from_value(class).expect("a PriorityClass");
        Api::all(client.clone()).create(&PostParams::default(), &class).await.expect("the PriorityClass is created");
    }
}

/// Each case has nodes of its own, so the cluster needs no others.
async fn start(name: &str, native_gangs: &str) -> TestCluster {
    TestCluster::with_own_services(name, &["--nodes", "1", native_gangs]).await
}

/// Takes long: twelve cases share the services. They use the same priorities and nodes, so they run in turn.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_of_the_default_scheduler_are_bound_as_a_whole() {
    let cluster = start("native-gangs", "--native-gangs").await;
    let client = cluster.client().await;
    create_priority_classes(&client).await;

    capacity::a_gang_is_bound_when_all_its_pods_fit(&cluster).await;
    capacity::pods_above_the_minimum_do_not_replace_those_of_another_clique(&cluster).await;
    capacity::the_base_gang_is_bound_before_its_scaled_gangs(&cluster).await;
    capacity::one_of_two_gangs_is_bound(&cluster).await;
    capacity::a_gang_with_scheduling_gates_waits_for_their_removal(&cluster).await;
    incarnations::the_successor_of_a_terminating_gang_is_bound_as_a_whole(&cluster).await;
    incarnations::a_clique_that_scales_out_stays_in_its_pod_group(&cluster).await;
    incarnations::another_priority_begins_the_next_incarnation(&cluster).await;
    incarnations::an_update_begins_the_next_incarnation_of_a_scaled_gang(&cluster).await;
    disruptions::a_gang_preempts_a_whole_gang(&cluster).await;
    disruptions::pods_stay_in_a_deleted_pod_group(&cluster).await;
    disruptions::pod_groups_are_adopted_and_deleted(&cluster).await;
    cluster.down().await;
}

/// The cases run at the same time: each has nodes of its own.
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_of_a_gang_waits_for_unwanted_pods() {
    let cluster = start("native-gangs-scaled-down", "--native-gangs").await;
    create_priority_classes(&cluster.client().await).await;
    tokio::join!(
        Box::pin(scaled_down::a_replaced_pod_is_bound_while_other_cliques_are_at_zero(&cluster)),
        Box::pin(scaled_down::pods_beside_bound_ones_are_bound_together(&cluster)),
        Box::pin(scaled_down::a_clique_below_its_minimum_holds_up_no_other_pod(&cluster)),
        Box::pin(scaled_down::a_postponed_priority_takes_effect_once_no_pod_is_bound(&cluster)),
    );
    cluster.down().await;
}

/// Takes long: ten updates at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn updates_of_native_gangs() {
    let cluster = TestCluster::with_own_services("native-updates", &["--nodes", "30", "--native-gangs"]).await;
    tokio::join!(
        Box::pin(updates::the_scenarios_of_plain_gangs(&cluster)),
        Box::pin(updates::an_update_waits_for_capacity(&cluster)),
    );
    // Last, because pods of the others may be on the node.
    updates::an_update_survives_the_loss_of_a_node(&cluster).await;
    cluster.down().await;
}

/// The API server drops the fields of the `PodGroup` that concern preemption.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_are_bound_as_a_whole_without_workload_aware_preemption() {
    let cluster = start("native-gangs-without-preemption", "--native-gangs=without-preemption").await;
    let case = Case::create(&cluster, "without-preemption").await;
    case.add_node("a", 3).await;
    case.create_set(&set("llm", &[case.clique("a", (2, 2), "a"), case.clique("b", (2, 2), "a")])).await;
    let group = case.wait_until_unschedulable("llm-0", 4).await;
    assert_ne!(group.data["spec"]["disruptionMode"], "PodGroup");
    case.assert_never_bound(|_| true).await;
    case.add_node("a", 1).await;
    case.wait_until_bound("llm-0", 4).await;
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "WorkloadAwarePreemption").await;
    cluster.down().await;
}

/// The scheduler has no feature gate, so it binds three of four pods.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_ignores_pod_groups_is_reported() {
    let cluster = start("native-gangs-ignored", "--native-gangs=scheduler-without-gangs").await;
    let case = Case::create(&cluster, "ignored").await;
    case.add_node("a", 3).await;
    case.create_set(&set("llm", &[case.clique("a", (2, 2), "a"), case.clique("b", (2, 2), "a")])).await;
    let is_partly_bound = |state: &NamespaceState| {
        let pods = pods_of(state, "llm-0");
        pods.len() == 4 && pods.into_iter().filter(|pod| is_bound(pod)).count() == 3
    };
    case.ns.wait_for("three pods are bound", is_partly_bound).await;
    case.wait_for_condition("llm-0", "False", "SchedulerIgnoresPodGroups", "").await;
    cluster.down().await;
}

/// A set that exists before the services may use the workload API, and before the API server serves it, is scheduled pod by pod. Its
/// gang gets a `PodGroup` when it restarts. No service restarts.
/// It takes long because the API server restarts twice with other features.
#[tokio::test(flavor = "multi_thread")]
async fn gangs_get_pod_groups_after_the_workload_api_is_served() {
    let flags = ["--nodes", "1", "--native-gangs=off"];
    let mut cluster = TestCluster::with_own_control_plane("native-gangs-served-later", &flags).await;
    let processes = SERVICES.map(|service| cluster.pid(service));
    let case = Case::create(&cluster, "served-later").await;
    case.add_node("a", 4).await;
    case.create_set(&set("before", &[case.clique("a", (2, 2), "a")])).await;
    case.wait_for_condition("before-0", "False", INDIVIDUALLY, "deploy/components/default-scheduler").await;
    cluster.up_with(&["--nodes", "1", "--native-gangs=not-served"]).await;
    case.wait_for_condition("before-0", "False", INDIVIDUALLY, "does not serve").await;
    // After SIGTERM, the API server would wait for the ends of the open watches.
    cluster.kill("kube-apiserver").await;
    cluster.up_with(&["--nodes", "1", "--native-gangs"]).await;
    case.wait_for_condition("before-0", "False", INDIVIDUALLY, "restart").await;
    let what = "the pods of the earlier set are bound without a PodGroup";
    case.ns
        .wait_for(what, |state| {
            let pods = pods_of(state, "before-0");
            pods.len() == 2 && pods.into_iter().all(|pod| is_bound(pod) && pod_group(pod).is_none())
        })
        .await;

    // pcs-controller decides which gangs have PodGroups.
    poll_until(async || {
        let samples = metrics::scrape(&cluster, "pcs-controller").await;
        let is_list = |name: &str| name.starts_with("reflector_lists_total") && name.contains("kind=\"PodGroup\"");
        samples.iter().any(|(name, count)| is_list(name) && *count > 0.0).then_some(())
    })
    .await;
    case.create_set(&set("after", &[case.clique("a", (2, 2), "a")])).await;
    case.wait_until_bound("after-0", 2).await;
    let state = case.ns.wait_for("the earlier set exists", |state| state.gangs.contains_key("before-0")).await;
    assert_eq!(named_pod_group(&state, "before-0"), None);

    case.ns.delete_object::<PodClique>("before-0-a").await;
    case.wait_until_bound("before-0", 2).await;
    assert_eq!(SERVICES.map(|service| cluster.pid(service)), processes);
    cluster.down().await;
}

/// With `nativeGangs: off`, Grove creates the same objects as on the shared cluster, whose API server does not serve `PodGroup`s.
#[tokio::test(flavor = "multi_thread")]
async fn without_native_gangs_no_pod_groups_are_created() {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/configuration.yaml");
    let text = std::fs::read_to_string(shared).expect("the configuration of the shared cluster");
    assert!(text.contains("nativeGangs: auto"), "{text}");
    let configuration = concat!(env!("CARGO_TARGET_TMPDIR"), "/native-gangs-off.yaml");
    let text = text.replace("nativeGangs: auto", "nativeGangs: 'off'");
    std::fs::write(configuration, text).expect("the configuration is written");
    let cluster =
        TestCluster::with_own_services("native-gangs-off", &["--native-gangs", "--config", configuration]).await;
    let groups = ["get", "podgroups.v1alpha2.scheduling.k8s.io", "--all-namespaces", "--output=name"];
    assert_eq!(kubectl_on(&cluster, &groups, "").await.as_deref(), Ok(""), "the API server serves PodGroups");
    creates_exactly_these_objects(&Namespace::create(&cluster.client().await, NAMESPACE).await).await;
    assert_eq!(kubectl_on(&cluster, &groups, "").await.as_deref(), Ok(""), "there are no PodGroups");

    let case = Case::create(&cluster, "off").await;
    case.add_node("a", 2).await;
    case.create_set(&set("llm", &[case.clique("a", (2, 2), "a")])).await;
    case.wait_for_condition("llm-0", "False", INDIVIDUALLY, "nativeGangs").await;
    cluster.down().await;
}
