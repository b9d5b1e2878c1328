//! Gangs that do not fit: no pod is bound until the whole gang fits.

use std::collections::BTreeSet;

use e2e::binding_log::{PodEvent, is_bound};
use e2e::{NamespaceState, TestCluster};
use grove_api_types::labels::GENERATION_HASH;
use grove_api_types::scheduler_v1alpha1::PodGang;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::case::{Case, is_gated, pods_of, set};

/// Eight pods, and seven GPUs.
pub(super) async fn a_gang_is_bound_when_all_its_pods_fit(cluster: &TestCluster) {
    let case = Case::create(cluster, "capacity").await;
    case.add_node("a", 4).await;
    case.add_node("a", 3).await;
    case.create_set(&set("llm", &[case.clique("a", (4, 4), "a"), case.clique("b", (4, 4), "a")])).await;
    let group = case.wait_until_unschedulable("llm-0", 8).await;
    case.assert_never_bound(|_| true).await;
    // The message quotes what the scheduler reports.
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "Unschedulable").await;

    let spec = &group.data["spec"];
    assert_eq!(spec["schedulingPolicy"], json!({ "gang": { "minCount": 8 } }));
    assert_eq!(spec["disruptionMode"], "PodGroup");
    let gang = case.ns.api::<PodGang>().get("llm-0").await.expect("the gang");
    let owners: Vec<_> = group.owner_references().iter().map(|owner| (&*owner.kind, owner.uid.clone())).collect();
    assert_eq!(owners, [("PodGang", gang.uid().expect("a uid"))]);
    let has_label = |(key, value): (&String, &String)| group.labels().get(key) == Some(value);
    let mut copied = gang.labels().iter().filter(|(key, _)| *key != GENERATION_HASH);
    assert!(copied.all(has_label) && group.annotations().is_empty(), "{:?}", group.metadata);

    case.add_node("a", 1).await;
    case.wait_until_bound("llm-0", 8).await;
}

/// All pods of one clique fit, and none of the other clique. The pods above `minAvailable` are gated until the gang is scheduled.
pub(super) async fn pods_above_the_minimum_do_not_replace_those_of_another_clique(cluster: &TestCluster) {
    let case = Case::create(cluster, "minimum").await;
    case.add_node("a", 4).await;
    case.create_set(&set("llm", &[case.clique("a", (4, 1), "a"), case.clique("b", (4, 1), "b")])).await;
    let group = case.wait_until_unschedulable("llm-0", 8).await;
    case.assert_never_bound(|_| true).await;
    assert_eq!(group.data["spec"]["schedulingPolicy"]["gang"]["minCount"], 2);
    case.ns.wait_for("six pods are gated", |state| count_gated(state, "llm-0") == 6).await;

    case.add_node("b", 4).await;
    case.wait_until_bound("llm-0", 8).await;
}

fn count_gated(state: &NamespaceState, gang: &str) -> usize {
    pods_of(state, gang).into_iter().filter(|pod| is_gated(pod)).count()
}

/// The `PodGroup` of a scaled gang is created when the base gang is scheduled.
pub(super) async fn the_base_gang_is_bound_before_its_scaled_gangs(cluster: &TestCluster) {
    const SCALED: [&str; 2] = ["llm-0-g-0", "llm-0-g-1"];
    let case = Case::create(cluster, "base").await;
    let mut set = set("llm", &[case.clique("w", (2, 2), "a")]);
    set["spec"]["template"]["podCliqueScalingGroups"] =
        json!([{ "name": "g", "cliqueNames": ["w"], "replicas": 3, "minAvailable": 1 }]);
    case.create_set(&set).await;
    case.wait_until_unschedulable("llm-0", 2).await;
    for gang in SCALED {
        case.wait_for_condition(gang, "False", "BaseGangNotScheduled", "").await;
    }
    let groups = case.pod_groups.list(&ListParams::default()).await.expect("the PodGroups").items;
    assert_eq!(groups.len(), 1, "{groups:?}");

    case.add_node("a", 6).await;
    for gang in ["llm-0"].into_iter().chain(SCALED) {
        case.wait_until_bound(gang, 2).await;
    }
    let events = case.events().await;
    let base = binding_events(&events, &["llm-0"]);
    let scaled = binding_events(&events, &SCALED);
    assert_eq!((base.len(), scaled.len()), (2, 4), "{events:#?}");
    assert!(base.last() < scaled.first(), "{events:#?}");
}

/// The positions of the events that first reported each bound pod of these gangs.
fn binding_events(events: &[PodEvent], gangs: &[&str]) -> Vec<usize> {
    let mut bound = BTreeSet::new();
    let of_gangs = events.iter().enumerate().filter(|(_, event)| gangs.contains(&event.gang.as_str()));
    let first = of_gangs.filter(|(_, event)| event.is_bound && bound.insert(event.uid.as_str()));
    first.map(|(at, _)| at).collect()
}

/// Five GPUs, and two gangs of three pods.
pub(super) async fn one_of_two_gangs_is_bound(cluster: &TestCluster) {
    const GANGS: [&str; 2] = ["llm-0", "llm-1"];
    let case = Case::create(cluster, "competition").await;
    case.add_node("a", 5).await;
    let mut set = set("llm", &[case.clique("a", (3, 3), "a")]);
    set["spec"]["replicas"] = json!(GANGS.len());
    case.create_set(&set).await;
    let state = case.ns.wait_for("a pod is bound", |state| GANGS.iter().any(|gang| has_bound_pod(state, gang))).await;
    let (bound, other): (Vec<&str>, Vec<&str>) = GANGS.into_iter().partition(|gang| has_bound_pod(&state, gang));
    assert_eq!((bound.len(), other.len()), (1, 1), "both gangs have bound pods:\n{state}");
    case.wait_until_bound(bound[0], 3).await;
    case.wait_until_unschedulable(other[0], 3).await;
    case.assert_never_bound(|event| event.gang == other[0]).await;
}

fn has_bound_pod(state: &NamespaceState, gang: &str) -> bool {
    pods_of(state, gang).into_iter().any(is_bound)
}

/// The pods have scheduling gates of the user, which the test removes.
pub(super) async fn a_gang_with_scheduling_gates_waits_for_their_removal(cluster: &TestCluster) {
    let case = Case::create(cluster, "gates").await;
    case.add_node("a", 4).await;
    let mut cliques = [case.clique("a", (2, 2), "a"), case.clique("b", (2, 2), "a")];
    for clique in &mut cliques {
        clique["spec"]["podSpec"]["schedulingGates"] = json!([{ "name": "e2e.example/hold" }]);
    }
    case.create_set(&set("llm", &cliques)).await;
    case.pod_group("llm-0").await;
    let state = case.ns.wait_for("all pods are gated", |state| count_gated(state, "llm-0") == 4).await;
    case.assert_never_bound(|_| true).await;

    let names: Vec<String> = pods_of(&state, "llm-0").into_iter().map(ResourceExt::name_any).collect();
    let (last, others) = names.split_last().expect("pods");
    for pod in others {
        case.ns.patch::<Pod>(pod, json!({ "spec": { "schedulingGates": null } })).await;
    }
    case.ns.wait_for("one pod is gated", |state| count_gated(state, "llm-0") == 1).await;
    case.wait_until_unschedulable("llm-0", 4).await;
    case.assert_never_bound(|_| true).await;

    case.ns.patch::<Pod>(last, json!({ "spec": { "schedulingGates": null } })).await;
    case.wait_until_bound("llm-0", 4).await;
}
