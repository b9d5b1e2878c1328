//! Sets above the limits of their size that were stored without validation: Grove creates no objects for them, reports the reason,
//! reconciles other sets, and reconciles them once they are smaller.

use e2e::kubectl::kubectl_on;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, schema};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};

/// The names of the sets, a text of a valid set, and its replacement with the largest number.
const OVERSIZED: [(&str, &str, &str); 3] = [
    ("wide", "  replicas: 1\n", "  replicas: 2147483647\n"),
    ("deep", "roleName: d, replicas: 3", "roleName: d, replicas: 2147483647"),
    ("long", "      replicas: 3\n", "      replicas: 2147483647\n"),
];

/// The same for the set that has too many startup dependencies. Its `minAvailable` is immutable.
const DEPENDENT: (&str, &str, &str) = (
    "chained",
    "      replicas: 3\n      minAvailable: 1\n",
    "      replicas: 2000\n      minAvailable: 2000\n    cliqueStartupType: CliqueStartupTypeInOrder\n",
);

fn valid_set(name: &str) -> String {
    let set = fixtures::with_scaling_group(name, 1, "");
    let (set, _) = set.split_once("      scaleConfig:").expect("the autoscaler, which would interfere");
    set.to_owned()
}

/// Removes the webhooks, and the maxima from the CRDs.
async fn disable_validation(cluster: &TestCluster, client: &Client) {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    kubectl_on(cluster, &["delete", kinds, "--all"], "").await.expect("the webhook configurations are deleted");
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    for kind in [PodCliqueSet::crd(), PodCliqueScalingGroup::crd(), PodClique::crd()] {
        let crd = crds.get(&kind.name_any()).await.expect("the CRD");
        let mut crd = serde_json::to_value(crd).expect("JSON");
        schema::remove_rules(&["maximum"], &mut crd["spec"]);
        let crd = serde_json::from_value(crd).expect("a CRD");
        crds.replace(&kind.name_any(), &PostParams::default(), &crd).await.expect("the CRD is replaced");
    }
}

/// Stores a set, as soon as the API server applies the new CRDs.
async fn store(ns: &Namespace, set: &str) {
    let set: PodCliqueSet = serde_saphyr::from_str(set).expect("a set");
    let sets = ns.api::<PodCliqueSet>();
    e2e::poll::poll_until(async || sets.create(&PostParams::default(), &set).await.ok()).await;
}

fn reports(state: &NamespaceState, set: &str, reason: &str) -> bool {
    let status = state.sets.get(set).and_then(|set| set.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && c.reason == reason)
}

fn is_ready(state: &NamespaceState, replicas: usize) -> bool {
    let of_llm = |name: &&String| name.starts_with("llm-");
    state.is_available("llm") && state.pods.keys().filter(of_llm).count() == replicas * 5
}

fn has_only_llm(state: &NamespaceState) -> bool {
    let names = [
        state.groups.keys().collect::<Vec<_>>(),
        state.cliques.keys().collect(),
        state.gangs.keys().collect(),
        state.services.keys().collect(),
        state.autoscalers.keys().collect(),
        state.pods.keys().collect(),
    ];
    names.iter().flatten().all(|name| name.starts_with("llm-"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_stored_above_the_object_limit_is_not_reconciled_until_it_is_smaller() {
    let cluster = TestCluster::with_own_services("oversized-sets", &[]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-oversized-sets").await;
    disable_validation(&cluster, &client).await;
    for (name, usual, oversized) in OVERSIZED.into_iter().chain([DEPENDENT]) {
        let set = valid_set(name);
        assert!(set.contains(usual), "{usual:?} is not in\n{set}");
        store(&ns, &set.replacen(usual, oversized, 1)).await;
    }
    let reported = ns
        .wait_for("each set reports the exceeded limit", |state| {
            OVERSIZED.iter().all(|(name, ..)| reports(state, name, "TooManyObjects"))
                && reports(state, DEPENDENT.0, "TooManyStartupDependencies")
        })
        .await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 3)).await;
    let state = ns.wait_for("another set is ready", |state| is_ready(state, 3)).await;
    assert!(has_only_llm(&state), "{state}");

    // The restarted controllers do the same, and `up` installs the CRDs and webhooks again.
    for service in ["pcs-controller", "pclq-controller", "topology-controller"] {
        cluster.stop(service).await;
    }
    cluster.up().await;
    // The API server may still call the webhooks that it knew before.
    ns.wait_until_admitted(&fixtures::three_cliques("probe", 1)).await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    let state = ns.wait_for("the other set has two replicas", |state| is_ready(state, 2)).await;
    assert!(has_only_llm(&state), "{state}");
    for (name, ..) in OVERSIZED.into_iter().chain([DEPENDENT]) {
        let versions = [&reported, &state].map(|state| state.sets[name].resource_version());
        assert_eq!(versions[0], versions[1], "the status of {name} is written once");
    }

    ns.delete_object::<PodCliqueSet>(DEPENDENT.0).await;
    for (name, ..) in OVERSIZED {
        let valid: Value = serde_saphyr::from_str(&valid_set(name)).expect("YAML");
        ns.patch::<PodCliqueSet>(name, json!({ "spec": valid["spec"] })).await;
    }
    ns.wait_for("all sets are available", |state| OVERSIZED.iter().all(|(name, ..)| state.is_available(name))).await;
    cluster.down().await;
}
