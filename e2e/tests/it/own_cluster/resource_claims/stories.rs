//! Both stories of the design of resource sharing, in the namespace of the examples.

use std::path::PathBuf;

use super::*;

const SHADOW_PODS: &str = "shadow-pods-example";
const TRAINING: &str = "pipeline";

/// The text that is written now, and the text that it replaces.
type Replacements = &'static [(&'static str, &'static str)];

/// Corrections of the examples: the file, what is written there now, the text of the design, and the error of the API server.
const CORRECTIONS: [(&str, Replacements, &str); 6] = [
    ("gpu-claim-template", VERSION, NO_KIND),
    (
        "gpu-claim-template",
        &[("exactly:\n            deviceClassName", "deviceClassName"), ("            count", "          count")],
        NO_FIELD,
    ),
    ("shared-gpu-template", VERSION, NO_KIND),
    (
        "shared-gpu-template",
        &[("exactly:\n            deviceClassName", "deviceClassName"), ("            count", "          count")],
        NO_FIELD,
    ),
    ("training-pipeline", &[("podCliqueScalingGroups", "scalingGroups")], "unknown field"),
    (
        "training-pipeline",
        &[
            ("name: pipeline\n", "name: training-pipeline\n"),
            ("name: experiment", "name: training-experiment"),
            ("name: prepare", "name: data-preprocessor"),
            ("- prepare", "- data-preprocessor"),
            ("name: train\n", "name: model-trainer\n"),
            ("- train\n", "- model-trainer\n"),
        ],
        "exceeds 45-character limit",
    ),
];
const VERSION: Replacements = &[("resource.k8s.io/v1", "resource.k8s.io/v1alpha3")];
const NO_KIND: &str = "no matches for kind \"ResourceClaimTemplate\" in version \"resource.k8s.io/v1alpha3\"";
const NO_FIELD: &str = "unknown field";

fn example(name: &str) -> String {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples"));
    std::fs::read_to_string(folder.join(name).with_extension("yaml")).expect("the example")
}

async fn apply(cluster: &TestCluster, name: &str) {
    kubectl_on(cluster, &["apply", "--filename=-"], &example(name)).await.expect("the example is applied");
}

pub(super) async fn both_stories_of_the_design_run(cluster: &TestCluster) {
    let fixture = Fixture::of(cluster, Namespace::attach(&cluster.client().await, "default")).await;
    let ((), shadows, untouched) = tokio::join!(
        each_correction_is_needed(cluster),
        shadow_pods_share_the_gpus_of_their_clique(cluster, &fixture),
        the_cliques_of_an_experiment_share_gpus(cluster, &fixture),
    );
    let allocations = fixture.history.allocations().await;
    for claim in shadows.into_iter().chain(untouched) {
        let count = claim.uid().and_then(|uid| allocations.get(&uid).copied());
        assert_eq!(count, Some(1), "allocations of {}", claim.name_any());
    }
    for set in [SHADOW_PODS, TRAINING] {
        fixture.ns.delete_object::<PodCliqueSet>(set).await;
    }
    for set in [SHADOW_PODS, TRAINING] {
        fixture.wait_for_claims::<&str>(set, &[]).await;
    }
    fixture.check_lifetime().await;
}

/// The API server rejects the text of the design.
async fn each_correction_is_needed(cluster: &TestCluster) {
    for (file, changes, error) in CORRECTIONS {
        let mut text = example(file);
        for (corrected, original) in changes {
            assert!(text.contains(corrected), "{file} lacks {corrected}");
            text = text.replace(corrected, original);
        }
        // For an unknown kind, kubectl would first read the OpenAPI document of all kinds, which takes a loaded API server a minute.
        let validate = if error == NO_KIND { "--validate=false" } else { "--validate=strict" };
        let rejected = kubectl_on(cluster, &["create", "--dry-run=server", validate, "--filename=-"], &text).await;
        let message = rejected.expect_err("the API server rejects the original");
        assert!(message.contains(error), "{file}: {message}");
    }
}

fn owners(claims: &[ResourceClaim]) -> Vec<(String, String)> {
    let owner =
        |claim: &ResourceClaim| controller_of(&claim.metadata).map(|owner| (owner.kind.clone(), owner.name.clone()));
    claims.iter().filter_map(owner).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
}

/// Returns the claims of the shadow pods.
async fn shadow_pods_share_the_gpus_of_their_clique(cluster: &TestCluster, fixture: &Fixture) -> Vec<ResourceClaim> {
    apply(cluster, "gpu-claim-template").await;
    apply(cluster, "shadow-pods").await;
    let cliques = ["shadow-pods-example-0-inference-with-shadows", "shadow-pods-example-1-inference-with-shadows"];
    let names = cliques.map(|clique| format!("{clique}-all-gpu-claim-template"));
    let before = fixture.ns.wait_for_ready_pods(SHADOW_PODS, 8).await;
    let claims = fixture.wait_for_claims(SHADOW_PODS, &names).await;
    assert_eq!(owners(&claims), pairs(&cliques.map(|clique| ("PodClique", clique))));
    assert_allocated(&claims, before.pods_of(SHADOW_PODS), 2);
    for pod in before.pods_of(SHADOW_PODS) {
        let expected =
            names.iter().find(|name| pod_key(pod).split('/').next().is_some_and(|clique| name.starts_with(clique)));
        assert_eq!(claim_names(pod), expected.cloned().into_iter().collect::<Vec<_>>(), "{}", pod.name_any());
    }
    let active = format!("{}/0", cliques[0]);
    let after = the_active_pod_is_replaced(fixture, &before, &active).await;
    let claims_after = fixture.wait_for_claims(SHADOW_PODS, &names).await;
    assert_eq!(uids(&claims_after), uids(&claims));
    assert_eq!(claims_after.iter().map(devices).collect::<Vec<_>>(), claims.iter().map(devices).collect::<Vec<_>>());
    assert_allocated(&claims_after, after.pods_of(SHADOW_PODS), 2);
    claims_after
}

/// The shadow pods are the same as before.
async fn the_active_pod_is_replaced(fixture: &Fixture, before: &NamespaceState, active: &str) -> NamespaceState {
    let pods = pod_uids(before.pods_of(SHADOW_PODS));
    let pod = before.pods_of(SHADOW_PODS).find(|pod| pod_key(pod) == active).expect("the active pod").name_any();
    fixture
        .ns
        .patch::<Pod>(&pod, json!({ "metadata": { "annotations": { "test.grove.io/behaviour": "fail" } } }))
        .await;
    let is_replaced = |state: &NamespaceState| {
        let after = pod_uids(state.pods_of(SHADOW_PODS).filter(|pod| is_ready(pod)));
        after.len() == pods.len() && after[active] != pods[active]
    };
    let after = fixture.ns.wait_for("the failed pod is replaced", is_replaced).await;
    let shadows =
        |pods: BTreeMap<String, String>| pods.into_iter().filter(|(key, _)| key != active).collect::<Vec<_>>();
    assert_eq!(shadows(pod_uids(after.pods_of(SHADOW_PODS).filter(|pod| is_ready(pod)))), shadows(pods));
    after
}

/// Returns the claims of the experiments without deleted cliques. Kubernetes allocates the claim of the other one again when its pods return.
async fn the_cliques_of_an_experiment_share_gpus(cluster: &TestCluster, fixture: &Fixture) -> Vec<ResourceClaim> {
    apply(cluster, "shared-gpu-template").await;
    apply(cluster, "training-pipeline").await;
    let names = ["0", "1", "2"].map(|replica| format!("pipeline-0-experiment-{replica}-shared-gpu-template"));
    let before = fixture.ns.wait_for_ready_pods(TRAINING, 15).await;
    let claims = fixture.wait_for_claims(TRAINING, &names).await;
    assert_eq!(owners(&claims), pairs(&[("PodCliqueScalingGroup", "pipeline-0-experiment"); 3]));
    are_shared_by_experiment(&claims, &before);
    let deleted = ["pipeline-0-experiment-1-prepare", "pipeline-0-experiment-1-train"];
    for clique in deleted {
        fixture.ns.delete_object::<PodClique>(clique).await;
    }
    let is_new = |state: &NamespaceState, name: &str| {
        state.cliques.get(name).is_some_and(|clique| clique.uid() != before.cliques[name].uid())
    };
    let is_back = |state: &NamespaceState| {
        let ready = state.pods_of(TRAINING).filter(|pod| is_ready(pod)).count();
        deleted.iter().all(|name| is_new(state, name)) && (ready, state.pods_of(TRAINING).count()) == (15, 15)
    };
    let after = fixture.ns.wait_for("the deleted cliques and their pods return", is_back).await;
    let claims_after = fixture.wait_for_claims(TRAINING, &names).await;
    assert_eq!(uids(&claims_after), uids(&claims), "the claims of the scaling group stay");
    are_shared_by_experiment(&claims_after, &after);
    claims_after.into_iter().filter(|claim| claim.name_any() != names[1]).collect()
}

/// Five pods of two cliques share a claim.
fn are_shared_by_experiment(claims: &[ResourceClaim], state: &NamespaceState) {
    assert_allocated(claims, state.pods_of(TRAINING), 4);
    let mut pods: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for pod in state.pods_of(TRAINING) {
        *pods.entry(claim_names(pod)).or_default() += 1;
    }
    let expected = claims.iter().map(|claim| (vec![claim.name_any()], 5)).collect();
    assert_eq!(pods, expected);
}
