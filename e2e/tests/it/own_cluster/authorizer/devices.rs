//! Claims and domains are Grove's in part only: the scheduler, the controller of claims, the garbage collector and the driver
//! of fabrics do their work on those of a set.

use e2e::{Namespace, plane::until_said, world::LIMIT};
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

use super::is_refused;

/// By which the scheduler and the controller of claims hold a claim.
const ALLOCATED: &str = "resource.kubernetes.io/delete-protection";
const OF_THE_DRIVER: &str = "resource.nvidia.com/computeDomain";

/// A device on a node, and the kind of fabrics as far as it matters: a spec, and a status of its own.
pub(super) async fn define(client: &Client) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({ "name": "v1beta1", "served": true, "storage": true, "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": schema } });
    let names = json!({ "kind": "ComputeDomain", "plural": "computedomains", "singular": "computedomain" });
    let definition = json!({ "metadata": { "name": "computedomains.resource.nvidia.com" },
        "spec": { "group": "resource.nvidia.com", "scope": "Namespaced", "versions": [version], "names": names } });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let definition = create(&definitions, definition).await;
    let established = conditions::is_crd_established();
    await_condition(definitions, &definition.name_any(), established).await.expect("domains are served");
    let domains = Api::<DynamicObject>::all_with(client.clone(), &domain());
    until_said(async || domains.list(&ListParams::default()).await.ok()).await;

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

/// Metadata of an object of the set's.
fn of_set(name: &str, set: &PodCliqueSet) -> Value {
    let owner =
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": set.name_any(), "uid": set.uid() });
    json!({ "name": name, "ownerReferences": [owner],
        "labels": { "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": set.name_any() } })
}

/// The scheduler holds and allocates the claim of a pod, and the controller of claims takes that back.
pub(super) async fn claims_are_allocated_and_released(ns: &Namespace, set: &PodCliqueSet) {
    let request = json!({ "name": "gpu", "exactly": { "deviceClassName": "gpu.example.com" } });
    let claim = json!({ "metadata": of_set("gpus", set), "spec": { "devices": { "requests": [request] } } });
    let claims = ns.api::<ResourceClaim>();
    create(&claims, claim).await;
    let pod = json!({ "metadata": { "name": "user-of-gpus" }, "spec": {
        "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10", "resources": { "claims": [{ "name": "gpu" }] } }],
        "resourceClaims": [{ "name": "gpu", "resourceClaimName": "gpus" }] } });
    create(&ns.api::<Pod>(), pod).await;
    until(&claims, "gpus", |claim: Option<&ResourceClaim>| {
        claim.is_some_and(|claim| is_held(claim) && users(claim) == 1)
    })
    .await;
    let taken = claims.patch("gpus", &PatchParams::default(), &without_labels()).await;
    is_refused(taken, "creation/updation", "gpus", ns);
    ns.remove::<Pod>("user-of-gpus").await;
    until(&claims, "gpus", |claim: Option<&ResourceClaim>| {
        claim.is_some_and(|claim| !is_held(claim) && users(claim) == 0)
    })
    .await;
}

fn is_held(claim: &ResourceClaim) -> bool {
    let is_allocated = claim.status.as_ref().is_some_and(|status| status.allocation.is_some());
    is_allocated && claim.finalizers().iter().any(|finalizer| finalizer == ALLOCATED)
}

fn users(claim: &ResourceClaim) -> usize {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_ref()).map_or(0, Vec::len)
}

/// The driver writes status and finalizers, Grove's part stays, and a deletion is held by the finalizers alone.
pub(super) async fn domains_are_the_drivers_too(ns: &Namespace, set: &PodCliqueSet) {
    let domains = domains(ns);
    let mut metadata = of_set("fabric", set);
    metadata["finalizers"] = json!(["grove.io/computedomain-finalizer"]);
    let spec = json!({ "numNodes": 0, "channel": { "resourceClaimTemplate": { "name": "fabric" } } });
    let domain = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": metadata, "spec": spec });
    create(&domains, domain).await;
    let params = PatchParams::default();
    let held = json!(["grove.io/computedomain-finalizer", OF_THE_DRIVER]);
    let held = Patch::Merge(json!({ "metadata": { "finalizers": held } }));
    domains.patch("fabric", &params, &held).await.expect("the driver holds it");
    let status = Patch::Merge(json!({ "status": { "status": "Ready" } }));
    domains.patch_status("fabric", &params, &status).await.expect("the driver says how it is");
    let spec = Patch::Merge(json!({ "spec": { "numNodes": 4 } }));
    is_refused(domains.patch("fabric", &params, &spec).await, "creation/updation", "fabric", ns);
    let taken = domains.patch("fabric", &params, &without_labels()).await;
    is_refused(taken, "creation/updation", "fabric", ns);
    domains.delete("fabric", &DeleteParams::default()).await.expect("its deletion is admitted");
    let leaving = domains.get("fabric").await.expect("its finalizers hold it");
    assert!(is_terminating(&leaving), "{leaving:?}");
    let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    domains.patch("fabric", &params, &released).await.expect("finalizers go");
    until(&domains, "fabric", |domain: Option<&DynamicObject>| domain.is_none()).await;
}

/// With its owner, a claim was collected.
pub(super) async fn are_gone(ns: &Namespace) {
    until(&ns.api::<ResourceClaim>(), "gpus", |claim: Option<&ResourceClaim>| claim.is_none()).await;
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
    api.create(&PostParams::default(), &object).await.expect("it is created")
}

async fn until<K>(api: &Api<K>, name: &str, holds: impl Condition<K>)
where
    K: Resource + Clone + std::fmt::Debug + Send + DeserializeOwned + 'static,
{
    let waited = tokio::time::timeout(LIMIT, await_condition(api.clone(), name, holds)).await;
    waited.unwrap_or_else(|_| panic!("{name} does not become as expected")).expect("it is watched");
}
