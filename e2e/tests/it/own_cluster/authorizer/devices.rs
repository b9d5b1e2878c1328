//! Kubernetes and the driver write parts of `ResourceClaim`s and `ComputeDomain`s: the scheduler, the `ResourceClaim`
//! controller, the garbage collector and the driver update those of a set.

use e2e::{Namespace, namespace_state::TIMEOUT, poll::poll_until};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::assert_denied;

/// The finalizer by which the scheduler and the `ResourceClaim` controller protect an allocated claim.
const ALLOCATED: &str = "resource.kubernetes.io/delete-protection";
const DRIVER_FINALIZER: &str = "resource.nvidia.com/computeDomain";

/// Creates a device on a node, and a CRD of `ComputeDomain`s with the fields that matter here: a spec and a status
/// subresource.
pub(super) async fn install(client: &Client) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({ "name": "v1beta1", "served": true, "storage": true, "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": schema } });
    let names = json!({ "kind": "ComputeDomain", "plural": "computedomains", "singular": "computedomain" });
    let definition = json!({ "metadata": { "name": "computedomains.resource.nvidia.com" },
        "spec": { "group": "resource.nvidia.com", "scope": "Namespaced", "versions": [version], "names": names } });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = create(&definitions, definition).await;
    let established = conditions::is_crd_established();
    await_condition(definitions, &definition.name_any(), established).await.expect("the CRD is established");
    let domains = Api::<DynamicObject>::all_with(client.clone(), &domain());
    poll_until(async || domains.list(&ListParams::default()).await.ok()).await;

    let selector = json!({ "cel": { "expression": "device.driver == 'gpu.example.com'" } });
    let class = json!({ "metadata": { "name": "gpu.example.com" }, "spec": { "selectors": [selector] } });
    create(&Api::<DeviceClass>::all(client.clone()), class).await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default().limit(1)).await.expect("the nodes");
    let node = nodes.items.first().expect("a node").name_any();
    let pool = json!({ "name": node, "generation": 1, "resourceSliceCount": 1 });
    let slice = json!({ "metadata": { "name": "gpus" }, "spec": { "driver": "gpu.example.com", "nodeName": node, "pool": pool,
        "devices": [{ "name": "gpu-0" }] } });
    create(&Api::<ResourceSlice>::all(client.clone()), slice).await;
}

/// Metadata of an object of the set.
fn metadata_of_set(name: &str, set: &PodCliqueSet) -> Value {
    let owner =
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": set.name_any(), "uid": set.uid() });
    json!({ "name": name, "ownerReferences": [owner],
        "labels": { "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": set.name_any() } })
}

/// The scheduler allocates the claim of a pod, and the `ResourceClaim` controller releases it.
pub(super) async fn claims_are_allocated_and_released(ns: &Namespace, set: &PodCliqueSet) {
    let request = json!({ "name": "gpu", "exactly": { "deviceClassName": "gpu.example.com" } });
    let claim = json!({ "metadata": metadata_of_set("gpus", set), "spec": { "devices": { "requests": [request] } } });
    let claims = ns.api::<ResourceClaim>();
    create(&claims, claim).await;
    let pod = json!({ "metadata": { "name": "gpu-user" }, "spec": {
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": { "claims": [{ "name": "gpu" }] } }],
        "resourceClaims": [{ "name": "gpu", "resourceClaimName": "gpus" }] } });
    create(&ns.api::<Pod>(), pod).await;
    wait_for(&claims, "gpus", |claim: Option<&ResourceClaim>| {
        claim.is_some_and(|claim| is_allocated(claim) && users(claim) == 1)
    })
    .await;
    let unlabelled = claims.patch("gpus", &PatchParams::default(), &without_labels()).await;
    assert_denied(unlabelled, "creation/updation", "gpus", ns);
    ns.delete_object::<Pod>("gpu-user").await;
    wait_for(&claims, "gpus", |claim: Option<&ResourceClaim>| {
        claim.is_some_and(|claim| !is_allocated(claim) && users(claim) == 0)
    })
    .await;
}

fn is_allocated(claim: &ResourceClaim) -> bool {
    let has_allocation = claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
    has_allocation && claim.finalizers().iter().any(|finalizer| finalizer == ALLOCATED)
}

fn users(claim: &ResourceClaim) -> usize {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_ref()).map_or(0, Vec::len)
}

/// The driver writes status and finalizers but not Grove's fields, and a deletion waits for the finalizers only.
pub(super) async fn driver_updates_compute_domains(ns: &Namespace, set: &PodCliqueSet) {
    let domains = domains(ns);
    let mut metadata = metadata_of_set("fabric", set);
    metadata["finalizers"] = json!(["grove.io/computedomain-finalizer"]);
    let spec = json!({ "numNodes": 0, "channel": { "resourceClaimTemplate": { "name": "fabric" } } });
    let domain = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": metadata, "spec": spec });
    create(&domains, domain).await;
    let params = PatchParams::default();
    let finalizers = json!(["grove.io/computedomain-finalizer", DRIVER_FINALIZER]);
    let finalizers = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    domains.patch("fabric", &params, &finalizers).await.expect("the driver adds its finalizer");
    let status = Patch::Merge(json!({ "status": { "status": "Ready" } }));
    domains.patch_status("fabric", &params, &status).await.expect("the driver writes the status");
    let spec = Patch::Merge(json!({ "spec": { "numNodes": 4 } }));
    assert_denied(domains.patch("fabric", &params, &spec).await, "creation/updation", "fabric", ns);
    let unlabelled = domains.patch("fabric", &params, &without_labels()).await;
    assert_denied(unlabelled, "creation/updation", "fabric", ns);
    domains.delete("fabric", &DeleteParams::default()).await.expect("the deletion is admitted");
    let deleted = domains.get("fabric").await.expect("the finalizers keep the object");
    assert!(is_terminating(&deleted), "{deleted:?}");
    let without_finalizers = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    domains.patch("fabric", &params, &without_finalizers).await.expect("the finalizers are removed");
    wait_for(&domains, "fabric", |domain: Option<&DynamicObject>| domain.is_none()).await;
}

/// The garbage collector deletes the claim of a deleted set.
pub(super) async fn wait_until_deleted(ns: &Namespace) {
    wait_for(&ns.api::<ResourceClaim>(), "gpus", |claim: Option<&ResourceClaim>| claim.is_none()).await;
}

fn without_labels() -> Patch<Value> {
    Patch::Merge(json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": null } } }))
}

fn domains(ns: &Namespace) -> Api<DynamicObject> {
    Api::namespaced_with(ns.client.clone(), &ns.name, &domain())
}

fn domain() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("resource.nvidia.com", "v1beta1", "ComputeDomain"))
}

async fn create<K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned>(
    api: &Api<K>,
    object: Value,
) -> K {
    let object = serde_json::from_value(object).expect("an object of the kind");
    api.create(&PostParams::default(), &object).await.expect("the object is created")
}

async fn wait_for<K>(api: &Api<K>, name: &str, holds: impl Condition<K>)
where
    K: Resource + Clone + std::fmt::Debug + Send + DeserializeOwned + 'static,
{
    let waited = tokio::time::timeout(TIMEOUT, await_condition(api.clone(), name, holds)).await;
    waited.unwrap_or_else(|_| panic!("timed out waiting for {name}")).expect("a watch");
}
