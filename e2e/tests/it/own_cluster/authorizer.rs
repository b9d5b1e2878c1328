//! The authorizer protects the objects that Grove manages: users change the set instead. Grove's services, Kubernetes'
//! controllers and its scheduler can still do their work on the protected objects.

mod devices;
mod managed_rows;
mod other_namespace;
mod webhook_outage;

use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, fixtures};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::dry_run::run_cases;

/// The `ServiceAccount` that the configuration exempts, as the rows require.
const EXEMPT: &str = "system:serviceaccount:kube-system:job-controller";

/// Takes long: hundreds of requests against objects of each kind, and the installation in another namespace.
#[tokio::test(flavor = "multi_thread")]
async fn the_authorizer_protects_managed_objects_and_admits_controllers() {
    let cluster = TestCluster::with_own_services("authorizer", &["--config", &configuration_file()]).await;
    let client = cluster.client().await;
    devices::install(&client).await;
    let ns = Namespace::create(&client, "e2e-authorizer").await;
    let set = ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("llm", 1, "")).await;
    ns.wait_for("the set is available", |state| state.is_available("llm")).await;
    set_scales_out_and_in(&ns).await;
    users_change_the_set_instead_of_its_children(&ns).await;
    devices::claims_are_allocated_and_released(&ns, &set).await;
    devices::driver_updates_compute_domains(&ns, &set).await;
    ns.delete_object::<PodCliqueSet>("llm").await;
    ns.wait_for("no objects exist", e2e::NamespaceState::is_empty).await;
    devices::wait_until_deleted(&ns).await;
    let denied = cluster.audit_log().denied_by("authorizer.webhooks.grove.io");
    assert!(denied.len() > 3 && denied.iter().all(|request| request.ends_with(" (admin)")), "{denied:#?}");

    // The test stores objects only for validation, so the controllers must not reconcile them.
    for controller in ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"] {
        cluster.stop(controller).await;
    }
    let (denied, accepted) = managed_rows::prepare(&client).await;
    let count = denied.len() + accepted.len();
    let mut failures = run_cases(&client, denied).await;
    // After these denials the webhook server knows which sets are unprotected.
    failures.extend(run_cases(&client, accepted).await);
    println!("{count} cases");
    assert!(
        failures.is_empty(),
        "{} of {count} results differ from the rows:\n{}",
        failures.len(),
        failures.join("\n")
    );
    webhook_outage::only_protected_changes_fail(&cluster).await;
    other_namespace::accounts_are_limited_and_exempt(&cluster).await;
    cluster.down().await;
}

/// The services write protected objects, and users with permission may use the scale subresources.
async fn set_scales_out_and_in(ns: &Namespace) {
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.wait_for("the set has two replicas", |state| state.is_available("llm") && state.services.len() == 2).await;
    ns.scale::<PodCliqueScalingGroup>("llm-0-g", 4).await;
    ns.wait_for("the group has four replicas", |state| {
        state.cliques.contains_key("llm-0-g-3-d") && state.is_available("llm")
    })
    .await;
    ns.scale::<PodClique>("llm-0-f", 4).await;
    ns.wait_for("the clique has four replicas", |state| state.ready_indices("llm-0-f") == [0, 1, 2, 3]).await;
    ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.wait_for("the set has one replica", |state| {
        state.is_available("llm") && state.services.len() == 1 && !state.cliques.contains_key("llm-0-g-3-d")
    })
    .await;
}

async fn users_change_the_set_instead_of_its_children(ns: &Namespace) {
    let label = Patch::Merge(json!({ "metadata": { "labels": { "grove.io/podgang": "other" } } }));
    let edited = ns.api::<PodClique>().patch("llm-0-f", &PatchParams::default(), &label).await;
    assert_denied(edited, "creation/updation", "llm-0-f", ns);
    let deleted = ns.api::<Service>().delete("llm-0", &DeleteParams::default()).await;
    assert_denied(deleted, "deletion", "llm-0", ns);

    let state = ns.wait_for("a pod of the clique is ready", |state| !state.ready_indices("llm-0-f").is_empty()).await;
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name == "llm-0-f");
    let deleted_pod = state.active_pods().find(of_clique).expect("a pod").name_any();
    ns.delete_object::<Pod>(&deleted_pod).await;
    ns.wait_for("the pod is replaced", |state| !state.pods.contains_key(&deleted_pod) && state.is_available("llm"))
        .await;

    let protection =
        |value| json!({ "metadata": { "annotations": { "grove.io/disable-managed-resource-protection": value } } });
    let before = state.services["llm-0"].uid();
    ns.patch::<PodCliqueSet>("llm", protection(json!("true"))).await;
    // The webhook server reads the annotation from a cache.
    while let Err(error) = ns.api::<Service>().delete("llm-0", &DeleteParams::default()).await {
        assert_denied::<()>(Err(error), "deletion", "llm-0", ns);
    }
    ns.wait_for("the Service is recreated", |state| {
        state.services.get("llm-0").is_some_and(|service| service.uid() != before)
    })
    .await;
    ns.patch::<PodCliqueSet>("llm", protection(json!(null))).await;
    // The webhook server reads the annotation from a cache.
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    poll_until(async || ns.api::<Service>().delete("llm-0", &dry).await.err()).await;
}

fn assert_denied<T>(result: Result<T, kube::Error>, what: &str, name: &str, ns: &Namespace) {
    let Err(kube::Error::Api(status)) = result else { panic!("{what} of {name} is admitted") };
    let text = format!("admission denied, {what} of resource: {}/{name} is not allowed", ns.name);
    assert!(status.code == 403 && status.message.contains(&text), "{status:?}");
}

/// Writes the configuration outside of the cluster's folder, which does not exist yet. JSON is YAML.
fn configuration_file() -> String {
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "authorizer": { "enabled": true, "exemptServiceAccountUserNames": [EXEMPT] },
    });
    let file = TestCluster::shared().dir().join("authorizer.yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
