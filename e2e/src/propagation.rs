//! Waits for changes that the API server applies a moment after they are stored, because a component of it learns about them
//! by a watch: RBAC rules, quotas, admission policies and CRDs. Each function polls that component.

use std::time::Duration;

use grove_api_types::SERVICE_USER_PREFIX;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::access;
use crate::kubectl::kubectl_on;
use crate::namespace::Namespace;
use crate::poll::{poll_until, poll_until_contains};
use crate::test_cluster::TestCluster;

/// How long the quota controller may take to count the objects of a kind that it knows.
const QUOTA_TIMEOUT: Duration = Duration::from_secs(15);
/// The result of an accepted dry run.
const ACCEPTED: &str = "the dry run succeeded";
/// The result of a list of served kinds.
const SERVED: &str = "all kinds are served";

/// Waits until RBAC allows or forbids a verb on a resource, in all namespaces, to the `ServiceAccount` of a service.
///
/// # Panics
/// If the answer does not change in time.
pub async fn wait_for_permission(
    client: &Client,
    service: &str,
    verb: &str,
    (group, resource): (&str, &str),
    allowed: bool,
) {
    let user = format!("{SERVICE_USER_PREFIX}{service}");
    let review = access::review(user, &[], None, (verb, group, resource));
    poll_until_contains("the API server", &format!("allowed: {allowed}"), async || {
        match Api::all(client.clone()).create(&PostParams::default(), &review).await {
            Ok(review) => format!("{service} {verb} {resource} allowed: {}", review.status.is_some_and(|s| s.allowed)),
            Err(error) => error.to_string(),
        }
    })
    .await;
}

/// Waits until a dry-run create of the object succeeds, or fails with this text if `rejection` is set.
///
/// # Panics
/// If the answer does not change in time.
pub async fn wait_for_dry_run_create(ns: &Namespace, yaml: &str, rejection: Option<&str>) {
    let object: DynamicObject = serde_saphyr::from_str(yaml).expect("an object");
    let types = object.types.as_ref().expect("a kind");
    let kind = GroupVersionKind::try_from(types).expect("a kind and its version");
    let api = Api::<DynamicObject>::namespaced_with(ns.client.clone(), &ns.name, &ApiResource::from_gvk(&kind));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    poll_until_contains("the API server", rejection.unwrap_or(ACCEPTED), async || {
        let created = api.create(&dry, &object).await;
        created.map_or_else(|error| error.to_string(), |_| ACCEPTED.to_owned())
    })
    .await;
}

/// The name of the quota that tests create.
pub const QUOTA: &str = "small";

/// Creates a quota of this many objects of a resource, of which as many exist, and waits until the API server rejects `object`, a further
/// one. The quota controller ignores a quota that was created before it knew the kind, which it looks for every 30 s; the function then
/// creates the quota again.
///
/// # Panics
/// If the API server does not reject the object in time.
pub async fn create_exhausted_quota(ns: &Namespace, (resource, used): (&str, usize), object: &str) {
    let quota = format!("{{metadata: {{name: {QUOTA}}}, spec: {{hard: {{{resource}: '{used}'}}}}}}");
    let has_usage = |quota: Option<&ResourceQuota>| {
        let counts = quota.and_then(|quota| quota.status.as_ref()?.used.as_ref());
        counts.is_some_and(|counts| counts.values().any(|count| count.0 == used.to_string()))
    };
    loop {
        ns.create_yaml::<ResourceQuota>(&quota).await;
        let counted = await_condition(ns.api::<ResourceQuota>(), QUOTA, has_usage);
        if timeout(QUOTA_TIMEOUT, counted).await.is_ok() {
            break;
        }
        ns.delete_object::<ResourceQuota>(QUOTA).await;
    }
    wait_for_dry_run_create(ns, object, Some(&format!("limited: {resource}={used}"))).await;
}

/// The error of the webhook server about a topology that its cache lacks. The cache may lack a topology that was just
/// stored.
pub const TOPOLOGY_NOT_CACHED: &str = "not found; create it or choose another topology";

/// Runs kubectl until it succeeds. `input` is its standard input.
///
/// # Panics
/// If it fails with an error without the text `transient`.
pub async fn kubectl_until_success(cluster: &TestCluster, arguments: &[&str], input: &str, transient: &str) {
    while let Err(error) = kubectl_on(cluster, arguments, input).await {
        assert!(error.contains(transient), "kubectl {arguments:?}: {error}\n{input}");
    }
}

/// Waits until kubectl discovers these resources and the API server serves them.
///
/// # Panics
/// If the API server does not serve them in time.
pub async fn wait_for_kinds(cluster: &TestCluster, resources: &[&str]) {
    let get = ["get", &resources.join(","), "--all-namespaces"];
    poll_until_contains("kubectl", SERVED, async || {
        kubectl_on(cluster, &get, "").await.map_or_else(|error| error, |_| SERVED.to_owned())
    })
    .await;
}

/// Waits until the garbage collector knows the kind of this object, which the function creates. The collector looks for new kinds every
/// 30 s. Until then, it does not orphan objects of the kind, and deletes them later.
///
/// # Panics
/// If the collector does not know it in time.
pub async fn wait_for_garbage_collection(ns: &Namespace, yaml: &str) {
    let mut object: DynamicObject = serde_saphyr::from_str(yaml).expect("an object");
    // It deletes an object whose owner does not exist.
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "deleted-owner", "uid": "deleted-owner" }]);
    object.metadata.owner_references = serde_json::from_value(owner).expect("an owner reference");
    let types = object.types.as_ref().expect("a kind");
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types).expect("a group and version"));
    let objects = Api::<DynamicObject>::namespaced_with(ns.client.clone(), &ns.name, &kind);
    objects.create(&PostParams::default(), &object).await.expect("the object is created");
    let name = object.name_any();
    poll_until(async || objects.get_opt(&name).await.ok()?.is_none().then_some(())).await;
}

/// Deletes a CRD, and waits until it and all objects of the kind are deleted.
///
/// # Panics
/// If the API server does not delete it.
pub async fn delete_crd(client: &Client, name: &str) {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let uid = crds.get(name).await.expect("the CRD").uid().expect("a uid");
    crds.delete(name, &DeleteParams::default()).await.expect("the delete request");
    await_condition(crds, name, conditions::is_deleted(&uid)).await.expect("the CRD is deleted");
}
