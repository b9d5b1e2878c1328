//! A set with two standalone cliques and a scaling group creates exactly these objects. For each kind that Grove creates,
//! the test compares labels, annotations, owner, finalizers and spec; for pods only the spec fields that Grove decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use e2e::{Namespace, NamespaceState, in_namespace, namespace_state::is_ready, snapshot};
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

/// For one replica of the set: 1 pod of `router`, 2 of `cache`, and 1 + 3 in each of three replicas of the group.
const PODS: usize = 1 + 2 + 3 * (1 + 3);

/// The name of the namespace is part of the pods' environment variables.
pub(super) const NAMESPACE: &str = "e2e-composition";

/// A scheduling gate that Grove does not manage.
const HOLD: &str = "e2e.example/hold";

const CLIQUE: &str = "grove.io/podclique";
const INDEX: &str = "grove.io/podclique-pod-index";
const GROUP_INDEX: &str = "grove.io/podcliquescalinggroup-pod-index";

#[tokio::test]
async fn a_set_with_a_scaling_group_creates_exactly_these_objects() {
    in_namespace(NAMESPACE, creates_exactly_these_objects).await;
}

/// Creates the set in this namespace, and compares the objects that Grove creates.
pub(super) async fn creates_exactly_these_objects(ns: &Namespace) {
    // A foreign gate on `router` keeps the base gang from being scheduled at first.
    let mut set: Value =
        serde_saphyr::from_str(include_str!("expansion/two-standalone-and-a-group.yaml")).expect("YAML");
    set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulingGates"] = json!([{ "name": HOLD }]);
    ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
    let has_foreign_gate = |state: &NamespaceState| gates(state).contains(&format!("g2-0-router-0 {HOLD}\n"));
    let has_one_gate = |state: &NamespaceState| gates(state).matches("g2-0-router-0 ").count() == 1;
    let state = ns
        .wait_for("all pods of the base gang but router are ready, and only the foreign gate holds router", |state| {
            is_settled(state, 2 + 4) && has_foreign_gate(state) && has_one_gate(state)
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
    .assert_eq(&gates(&state));
    for pod in state.active_pods().filter(|pod| snapshot::hostname(pod).starts_with("g2-0-router-")) {
        ns.patch::<Pod>(&pod.name_any(), json!({ "spec": { "schedulingGates": null } })).await;
    }
    let state = ns
        .wait_for("all pods are ready", |state| {
            state.is_available("g2") && is_settled(state, PODS) && state.status_is_current()
        })
        .await;
    expect_file("services", &snapshots(&state.services, snapshot::object));
    expect_file("groups", &snapshots(&state.groups, snapshot::object));
    expect_file("cliques", &snapshots(&state.cliques, snapshot::object));
    expect_file(
        "gangs",
        &snapshots(&state.gangs, |gang, fields| snapshot::with_reference_counts(&snapshot::object(gang, fields))),
    );
    assert_pod_references(&state);
    expect_file("autoscalers", &snapshots(&state.autoscalers, snapshot::object));
    expect_file("pods", &pod_snapshots(&state));
    // Only sets with a startup order need ServiceAccounts and roles.
    assert_eq!(names::<ServiceAccount>(ns).await, ["default"]);
    assert!(names::<Role>(ns).await.is_empty() && names::<RoleBinding>(ns).await.is_empty());
    assert!(names::<Secret>(ns).await.is_empty() && names::<ResourceClaim>(ns).await.is_empty());
}

/// Whether all pods exist, their `PodGang`s reference them, and this many of them are ready.
fn is_settled(state: &NamespaceState, ready: usize) -> bool {
    state.pods.len() == PODS
        && state.reference_count() == PODS
        && state.active_pods().filter(|pod| is_ready(pod)).count() == ready
}

/// One line for each scheduling gate: the host name of the pod and the gate.
fn gates(state: &NamespaceState) -> String {
    let mut lines = BTreeSet::new();
    for pod in state.active_pods() {
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref()).into_iter().flatten();
        lines.extend(gates.map(|gate| format!("{} {}\n", snapshot::hostname(pod), gate.name)));
    }
    lines.into_iter().collect()
}

/// Each group of a `PodGang`, base or scaled, references every active pod of its clique exactly once.
pub(super) fn assert_pod_references(state: &NamespaceState) {
    for (gang, group) in state.gangs.iter().flat_map(|(name, gang)| gang.spec.podgroups.iter().map(move |g| (name, g)))
    {
        let mut referenced: Vec<_> = group.pod_references.iter().map(|pod| pod.name.clone()).collect();
        referenced.sort();
        let of_clique = |pod: &&Pod| pod.labels().get(CLIQUE) == Some(&group.name);
        let mut pods: Vec<_> = state.active_pods().filter(of_clique).map(ResourceExt::name_any).collect();
        pods.sort();
        assert_eq!(referenced, pods, "{} in {gang}", group.name);
    }
}

/// The snapshots of all objects of a kind, by name.
fn snapshots<K>(objects: &BTreeMap<String, K>, snapshot: impl Fn(&K, &[&str]) -> String) -> BTreeMap<String, Value> {
    objects.iter().map(|(name, object)| (name.clone(), parsed(&snapshot(object, &["spec"])))).collect()
}

/// One snapshot per clique: its pods differ only in their index.
fn pod_snapshots(state: &NamespaceState) -> BTreeMap<String, Value> {
    let mut by_clique: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for pod in state.active_pods() {
        let (clique, index) = (&pod.labels()[CLIQUE], &pod.labels()[INDEX]);
        let mut snapshot = parsed(&snapshot::object(pod, &[]));
        snapshot["spec"] = parsed(&snapshot::pod_spec(pod));
        assert_eq!(snapshot["spec"]["hostname"], format!("{clique}-{index}"));
        snapshot["spec"]["hostname"] = json!(format!("{clique}-INDEX"));
        for index in [INDEX, GROUP_INDEX].into_iter().filter(|index| pod.labels().contains_key(*index)) {
            snapshot["labels"][index] = json!("INDEX");
        }
        *by_clique.entry(clique.clone()).or_default().entry(snapshot.to_string()).or_default() += 1;
    }
    let only = |(clique, mut distinct): (String, BTreeMap<String, usize>)| {
        assert_eq!(distinct.len(), 1, "pods of {clique} differ: {distinct:#?}");
        let (snapshot, count) = distinct.pop_first().expect("one");
        (format!("{count} of {clique}"), parsed(&snapshot))
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
