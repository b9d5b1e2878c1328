//! The identity of sets: objects of others with its names, edits, deletions, and projected tokens.

use e2e::init_containers::{InitContainers, PENDING};
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{all_are_ready, clique, find, set, stored};

fn in_order(name: &str) -> String {
    set(name, "InOrder", &[clique("a", 1, PENDING, &[]), clique("b", 1, PENDING, &[])], &[])
}

fn with_group(name: &str) -> String {
    let cliques = [clique("a", 1, PENDING, &[]), clique("b", 1, PENDING, &["a"])];
    set(name, "Explicit", &cliques, &["{name: g, cliqueNames: [a, b], replicas: 1, minAvailable: 1}"])
}

#[tokio::test]
async fn an_identity_is_protected_and_restored() {
    let mut cluster = TestCluster::with_own_services("startup-identity", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-startup-identity").await;
    let _kubelets = InitContainers::start(&cluster, &ns, None).await;
    a_foreign_object_blocks_only_the_cliques_that_need_the_identity(&ns).await;
    cliques_are_created_when_the_name_is_free(&ns).await;
    edits_and_deletions_are_restored(&ns).await;
    an_identity_without_dependencies_is_removed(&ns).await;
    let config = format!("{}/tests/it/own_cluster/startup/projected.yaml", env!("CARGO_MANIFEST_DIR"));
    cluster.up_with(&["--config", &config]).await;
    pods_start_with_projected_tokens(&ns).await;
    cluster.down().await;
}

async fn a_foreign_object_blocks_only_the_cliques_that_need_the_identity(ns: &Namespace) {
    let foreign = ns.create_yaml::<ServiceAccount>("{metadata: {name: taken, labels: {team: x}}}").await;
    ns.create_yaml::<Secret>("{metadata: {name: taken-too-ic-sat}, stringData: {key: value}}").await;
    for set in [in_order("taken"), with_group("taken-too"), in_order("other")] {
        ns.create_yaml::<PodCliqueSet>(&set).await;
    }
    ns.wait_for("the other set is available", |state| state.is_available("other")).await;
    ns.wait_for_condition("taken", "Available", "NameConflict", "ServiceAccount taken exists").await;
    ns.wait_for_condition("taken-too-0-g", "Available", "NameConflict", "Secret taken-too-ic-sat exists").await;
    let is_blocked = |state: &NamespaceState| {
        let exists = |name: &str| state.cliques.contains_key(name);
        exists("taken-0-a") && exists("taken-too-0-g-0-a") && !exists("taken-0-b") && !exists("taken-too-0-g-0-b")
    };
    ns.wait_for("only the cliques without parents exist", is_blocked).await;
    assert_eq!(stored(&find::<ServiceAccount>(ns, "taken").await.expect("the account")), stored(&foreign));
    assert!(find::<RoleBinding>(ns, "grove.io:pcs:taken").await.is_none(), "the foreign account may not read pods");
    assert!(find::<Secret>(ns, "taken-ic-sat").await.is_none(), "nobody gets a token of the foreign account");
}

async fn cliques_are_created_when_the_name_is_free(ns: &Namespace) {
    ns.delete_object::<ServiceAccount>("taken").await;
    ns.delete_object::<Secret>("taken-too-ic-sat").await;
    ns.wait_for("all sets are available", |state| state.sets.len() == 3 && all_are_ready(state)).await;
}

/// The identity of a set, without what the API server sets.
async fn identity(ns: &Namespace, set: &str) -> Option<[Value; 4]> {
    let role = format!("grove.io:pcs:{set}");
    let mut secret = find::<Secret>(ns, &format!("{set}-ic-sat")).await?;
    secret.data.take()?;
    secret.annotations_mut().remove("kubernetes.io/service-account.uid");
    Some([
        stored(&find::<ServiceAccount>(ns, set).await?),
        stored(&find::<Role>(ns, &role).await?),
        stored(&find::<RoleBinding>(ns, &role).await?),
        stored(&secret),
    ])
}

async fn edits_and_deletions_are_restored(ns: &Namespace) {
    let (before, other) = (identity(ns, "other").await.expect("an identity"), find::<Secret>(ns, "taken-ic-sat").await);
    let is_restored = async || {
        poll_until(async || identity(ns, "other").await.filter(|now| *now == before)).await;
    };
    let role = "grove.io:pcs:other";
    edit(ns, role).await;
    is_restored().await;
    ns.delete_object::<Secret>("other-ic-sat").await;
    ns.delete_object::<Role>(role).await;
    ns.delete_object::<RoleBinding>(role).await;
    is_restored().await;
    // Kubernetes deletes its Secret, because it has the token of the deleted account.
    ns.delete_object::<ServiceAccount>("other").await;
    is_restored().await;
    assert_eq!(find::<Secret>(ns, "taken-ic-sat").await, other, "other sets are not affected");
}

async fn edit(ns: &Namespace, role: &str) {
    let all = json!({ "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] });
    let managed = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    ns.patch::<ServiceAccount>("other", json!({ "automountServiceAccountToken": false })).await;
    ns.patch::<Role>(role, all).await;
    ns.patch::<RoleBinding>(role, json!({ "subjects": [] })).await;
    ns.patch::<Secret>("other-ic-sat", managed).await;
}

/// A client may create an object that a set controls.
async fn an_identity_without_dependencies_is_removed(ns: &Namespace) {
    let created = ns.create_yaml::<PodCliqueSet>(&set("plain", "AnyOrder", &[clique("a", 1, PENDING, &[])], &[])).await;
    ns.wait_for("the set is available", |state| state.is_available("plain")).await;
    assert!(find::<Role>(ns, "grove.io:pcs:plain").await.is_none(), "a set without order has no identity");
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "plain",
        "uid": created.uid(), "controller": true });
    let metadata = json!({ "name": "plain", "ownerReferences": [owner] });
    ns.create_yaml::<ServiceAccount>(&json!({ "metadata": metadata }).to_string()).await;
    ns.create_yaml::<Role>(&json!({ "metadata": metadata, "rules": [] }).to_string()).await;
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "plain" });
    ns.create_yaml::<RoleBinding>(&json!({ "metadata": metadata, "roleRef": role }).to_string()).await;
    let mut of_default = metadata.clone();
    of_default["annotations"] = json!({ "kubernetes.io/service-account.name": "default" });
    let secret = json!({ "metadata": of_default, "type": "kubernetes.io/service-account-token" });
    ns.create_yaml::<Secret>(&secret.to_string()).await;
    poll_until(async || {
        let has_account = find::<ServiceAccount>(ns, "plain").await.is_some();
        let has_role = find::<Role>(ns, "plain").await.is_some() || find::<RoleBinding>(ns, "plain").await.is_some();
        (!has_account && !has_role && find::<Secret>(ns, "plain").await.is_none()).then_some(())
    })
    .await;
}

async fn pods_start_with_projected_tokens(ns: &Namespace) {
    ns.create_yaml::<PodCliqueSet>(&in_order("projected")).await;
    ns.wait_for("the set is available", |state| state.is_available("projected") && all_are_ready(state)).await;
    assert!(find::<ServiceAccount>(ns, "projected").await.is_none(), "the pods have their own account");
    assert!(find::<Secret>(ns, "projected-ic-sat").await.is_none(), "the kubelet creates the token");
    let binding = find::<RoleBinding>(ns, "grove.io:pcs:projected").await.expect("the RoleBinding");
    let subjects: Vec<_> = binding.subjects.into_iter().flatten().map(|subject| subject.name).collect();
    assert_eq!(subjects, ["default"]);
    // Their pods mount the Secrets of the other configuration.
    assert!(find::<Secret>(ns, "other-ic-sat").await.is_some());
}
