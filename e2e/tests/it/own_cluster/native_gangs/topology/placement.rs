//! The nodes on which the pods of constrained gangs are bound.

use std::collections::BTreeSet;

use e2e::TestCluster;
use e2e::poll::poll_until;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::super::case::Case;
use super::super::incarnations::{change_labels, wait_until_updated};
use super::{
    MISSING_KEY, Nodes, by_label, clique, constrained_set, constraint, create_set, delete_set, key, packed,
    pod_group_key, with_group,
};

const REPLICA: &str = "grove.io/podcliquescalinggroup-replica-index";
const CLIQUE: &str = "grove.io/podclique";

/// Each replica needs all nodes of a rack, also after an update of one of its cliques.
pub(super) async fn each_replica_has_a_rack(cluster: &TestCluster) {
    let case = Case::create(cluster, "racks").await;
    let set = constrained_set(None, &[clique("leader", (1, 1), 8), clique("worker", (3, 3), 8)]);
    create_set(&case, &with_group(set, &["leader", "worker"], (2, 2))).await;
    let pods = case.wait_until_bound("llm-0", 8).await;
    let nodes = Nodes::list(&case.ns.client).await;
    assert_one_rack_each(&nodes, &pods);
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "llm-0-g-0 by topology.grove.io/rack").await;
    change_labels(&case).await;
    wait_until_updated(&case).await;
    let new = case.wait_until_bound("llm-0", 8).await;
    let (before, after) = (uids(&pods), uids(&new));
    assert!(before.is_disjoint(&after), "each replica is replaced as a whole");
    assert_one_rack_each(&nodes, &new);
    delete_set(&case).await;
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(ResourceExt::uid).collect()
}

fn assert_one_rack_each(nodes: &Nodes, pods: &[Pod]) {
    let replicas = by_label(pods, REPLICA);
    let racks: BTreeSet<_> = replicas.values().map(|pods| nodes.domains(pods.iter().copied(), "rack")).collect();
    assert_eq!(racks.len(), 2, "{racks:?}");
    assert!(racks.iter().all(|racks| racks.len() == 1), "{racks:?}");
}

/// Each clique fills one host.
pub(super) async fn cliques_are_packed_by_host_in_racks_in_a_block(cluster: &TestCluster) {
    let case = Case::create(cluster, "hosts").await;
    let cliques = ["p", "d"].map(|name| packed(clique(name, (2, 2), 4), "host"));
    let set = constrained_set(Some(constraint("required", "block")), &cliques);
    let with_replicas = |in_base_gang: i32| with_group(set.clone(), &["p", "d"], (2, in_base_gang));

    create_set(&case, &with_replicas(1)).await;
    let mut pods = case.wait_until_bound("llm-0", 4).await;
    let nodes = Nodes::list(&case.ns.client).await;
    assert_eq!(nodes.domains(&pods, "block").len(), 1, "the base gang");
    pods.extend(case.wait_until_bound("llm-0-g-0", 4).await);
    assert_packed(&nodes, &pods);
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "by kubernetes.io/hostname").await;
    delete_set(&case).await;

    create_set(&case, &with_replicas(2)).await;
    let pods = case.wait_until_bound("llm-0", 8).await;
    assert_eq!(nodes.domains(&pods, "block").len(), 1, "the base gang");
    assert_packed(&nodes, &pods);
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "is stricter than its constraints").await;
    delete_set(&case).await;
}

/// Checks that each replica is in one rack, and each clique on one host.
fn assert_packed(nodes: &Nodes, pods: &[Pod]) {
    for (replica, pods) in by_label(pods, REPLICA) {
        assert_eq!(nodes.domains(pods, "rack").len(), 1, "replica {replica}");
    }
    for (clique, pods) in by_label(pods, CLIQUE) {
        assert_eq!((pods.len(), nodes.domains(pods, "host").len()), (2, 1), "{clique}");
    }
}

/// A rack has four nodes, and each of the five pods needs a node.
pub(super) async fn pods_leave_a_full_preferred_domain(cluster: &TestCluster) {
    let case = Case::create(cluster, "preferred").await;
    create_set(&case, &constrained_set(Some(constraint("preferred", "rack")), &[clique("a", (5, 5), 8)])).await;
    let pods = case.wait_until_bound("llm-0", 5).await;
    let nodes = Nodes::list(&case.ns.client).await;
    let mut counts: Vec<usize> = nodes
        .domains(&pods, "rack")
        .iter()
        .map(|rack| pods.iter().filter(|pod| nodes.domain(pod, "rack") == *rack).count())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 4]);
    delete_set(&case).await;
}

/// Two racks have seven GPUs each, and the gang needs eight.
pub(super) async fn a_rack_that_is_too_small_by_one_gpu_gets_no_pod(cluster: &TestCluster) {
    let case = Case::create(cluster, "too-small").await;
    for rack in ["small-a", "small-b"] {
        for gpus in [4, 3] {
            case.add_node_in("p", gpus, &[(key("rack"), rack)]).await;
        }
    }
    let cliques = [case.clique("a", (4, 4), "p"), case.clique("b", (4, 4), "p")];
    create_set(&case, &constrained_set(Some(constraint("required", "rack")), &cliques)).await;
    let group = case.wait_until_unschedulable("llm-0", 8).await;
    assert_eq!(pod_group_key(&group), Some(key("rack")));
    case.assert_never_bound(|_| true).await;
    case.add_node_in("p", 1, &[(key("rack"), "small-b")]).await;
    let pods = case.wait_until_bound("llm-0", 8).await;
    let nodes = Nodes::list(&case.ns.client).await;
    assert_eq!(nodes.domains(&pods, "rack"), BTreeSet::from(["small-b".to_owned()]));
    delete_set(&case).await;
}

/// The `PodGroup` of each gang has the key of the scaling group, because one replica is the whole gang.
pub(super) async fn scaled_replicas_have_a_rack_each(cluster: &TestCluster) {
    let case = Case::create(cluster, "scaled").await;
    let set = constrained_set(None, &[clique("w", (4, 4), 8)]);
    create_set(&case, &with_group(set, &["w"], (3, 1))).await;
    let mut racks = BTreeSet::new();
    for gang in ["llm-0", "llm-0-g-0", "llm-0-g-1"] {
        let pods = case.wait_until_bound(gang, 4).await;
        let of_gang = Nodes::list(&case.ns.client).await.domains(&pods, "rack");
        assert_eq!(of_gang.len(), 1, "{gang}: {of_gang:?}");
        racks.extend(of_gang);
        assert_eq!(pod_group_key(&case.pod_group(gang).await), Some(key("rack")), "{gang}");
    }
    assert_eq!(racks.len(), 3, "{racks:?}");
    delete_set(&case).await;
}

/// The constraint of the whole gang, and that of one of two cliques.
pub(super) async fn a_key_that_no_node_has_leaves_pods_pending(cluster: &TestCluster) {
    let case = Case::create(cluster, "missing-key").await;
    let cliques = || [clique("a", (2, 2), 1), clique("b", (1, 1), 1)];
    let of_gang = constrained_set(Some(constraint("required", "numa")), &cliques());
    let [a, b] = cliques();
    let of_clique = constrained_set(None, &[packed(a, "numa"), b]);
    for (set, is_of_gang) in [(of_gang, true), (of_clique, false)] {
        create_set(&case, &set).await;
        let group = case.wait_until_unschedulable("llm-0", 3).await;
        assert_eq!(pod_group_key(&group), is_of_gang.then_some(MISSING_KEY));
        let message = poll_until(async || {
            let group = case.pod_groups.get(&group.name_any()).await.ok()?;
            group.data["status"]["conditions"][0]["message"].as_str().map(str::to_owned)
        })
        .await;
        assert!(!message.is_empty());
        case.wait_for_condition("llm-0", "True", "DefaultScheduler", &message).await;
        case.assert_never_bound(|_| true).await;
        delete_set(&case).await;
    }
}

/// Each clique of the group needs a rack of its own, and the block has only one rack that is large enough for the whole gang.
pub(super) async fn all_constraints_are_expressed_by_affinity(cluster: &TestCluster) {
    let case = Case::create(cluster, "affinity").await;
    for gpus in [2, 1] {
        case.add_node_in("p", gpus, &[(key("block"), "only"), (key("rack"), "only")]).await;
    }
    let cliques = [case.clique("a", (1, 1), "p"), case.clique("b", (1, 1), "p")];
    let set = constrained_set(Some(constraint("required", "block")), &cliques);
    create_set(&case, &with_group(set, &["a", "b"], (2, 2))).await;
    let group = case.wait_until_unschedulable("llm-0", 4).await;
    assert_eq!(pod_group_key(&group), None);
    assert_eq!(group.data["spec"]["schedulingPolicy"], json!({ "gang": { "minCount": 4 } }));
    case.assert_never_bound(|_| true).await;
    case.add_node_in("p", 1, &[(key("block"), "only"), (key("rack"), "only")]).await;
    let pods = case.wait_until_bound("llm-0", 4).await;
    let nodes = Nodes::list(&case.ns.client).await;
    assert_eq!((nodes.domains(&pods, "block").len(), nodes.domains(&pods, "rack").len()), (1, 1));
    case.wait_for_condition("llm-0", "True", "DefaultScheduler", "TopologyAwareWorkloadScheduling").await;
    delete_set(&case).await;
}
