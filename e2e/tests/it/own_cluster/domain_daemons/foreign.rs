//! Domains that another manager writes, and objects that another client left.

use e2e::compute_domains::{DRIVER_FINALIZER, NODE_LABEL};
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, events};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::ComputeDomain;
use grove_dev_harness::compute_domain_channels::create_claim_template;
use grove_dev_harness::devices::create;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// The node of these tests. No pod needs it.
const NODE: &str = "node-20";
/// The UID of no domain.
const LOST_UID: &str = "00000000-0000-4000-8000-000000000001";

/// Creates a domain as this field manager.
///
/// Its claim template is `channel`.
async fn create_domain(cluster: &TestCluster, ns: &Namespace, metadata: Value, field_manager: &str) -> ComputeDomain {
    let spec = json!({ "numNodes": 0, "channel": { "resourceClaimTemplate": { "name": "channel" } } });
    let name = metadata["name"].as_str().expect("a name");
    let object = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": metadata, "spec": spec });
    let manager = format!("--field-manager={field_manager}");
    let create = ["create", "--namespace", &ns.name, &manager, "--filename=-"];
    kubectl_on(cluster, &create, &object.to_string()).await.expect("the domain is created");
    ns.api::<ComputeDomain>().get(name).await.expect("the domain")
}

/// A domain with the finalizer of NVIDIA's controller: Grove writes nothing to it, and another domain of the namespace gets its objects.
pub(super) async fn a_domain_of_another_manager_is_reported(cluster: &TestCluster) {
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-daemons-of-another-manager").await;
    let domains = ns.api::<ComputeDomain>();
    let metadata = json!({ "name": "other", "finalizers": [DRIVER_FINALIZER] });
    let other = create_domain(cluster, &ns, metadata, "compute-domain-controller").await;
    let text = "the field manager compute-domain-controller writes the state of this ComputeDomain too";
    events::wait_for_note(&ns, "other", "ComputeDomainNotSynchronized", text).await;
    create_domain(cluster, &ns, json!({ "name": "own" }), "kubectl").await;
    let has_finalizer = |domain: &ComputeDomain| domain.finalizers().iter().any(|it| it == DRIVER_FINALIZER);
    poll_until(async || domains.get("own").await.ok().filter(has_finalizer)).await;
    let live = domains.get("other").await.expect("the domain");
    assert_eq!(live.resource_version(), other.resource_version(), "Grove wrote nothing");
    release(&domains, "other").await;
    for name in ["other", "own"] {
        domains.delete(name, &DeleteParams::default()).await.expect("the domain is deleted");
    }
    poll_until(async || domains.get_opt("own").await.ok()?.is_none().then_some(())).await;
}

/// The CRD rejects a negative number of nodes.
pub(super) async fn a_negative_number_of_nodes_is_rejected(cluster: &TestCluster) {
    let spec = json!({ "numNodes": -1, "channel": { "resourceClaimTemplate": { "name": "channel" } } });
    let object = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
        "metadata": { "name": "negative" }, "spec": spec });
    let create = ["create", "--namespace", "default", "--dry-run=server", "--filename=-"];
    let error = kubectl_on(cluster, &create, &object.to_string()).await.expect_err("the domain is rejected");
    let expected = "spec.numNodes: Invalid value: -1: spec.numNodes in body should be greater than or equal to 0";
    assert!(error.contains(expected), "{error}");
}

/// A user has a claim template with the name that a domain names: it stays as it is, and the event names it.
pub(super) async fn a_claim_template_of_a_user_is_reported(cluster: &TestCluster) {
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-daemons-name-conflict").await;
    let templates = ns.api::<ResourceClaimTemplate>();
    create_claim_template(&client, &ns.name, "channel", None).await.expect("the template is created");
    let before = templates.get("channel").await.expect("the template");
    create_domain(cluster, &ns, json!({ "name": "own" }), "kubectl").await;
    events::wait_for_note(&ns, "own", "ComputeDomainFailed", "ResourceClaimTemplate channel").await;
    ns.delete_object::<ComputeDomain>("own").await;
    poll_until(async || ns.api::<ComputeDomain>().get_opt("own").await.ok()?.is_none().then_some(())).await;
    assert_eq!(templates.get("channel").await.expect("the template"), before);
}

/// Objects with the label of a domain that does not exist: the caches of an earlier mnnvl-controller were too old, or a user removed the
/// finalizer of the domain, or the kubelet plugin labelled the node late.
pub(super) async fn objects_without_domain_are_removed(cluster: &TestCluster) {
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-daemons-without-domain").await;
    let labels = json!({ NODE_LABEL: LOST_UID });
    let metadata = json!({ "name": "lost", "labels": labels, "finalizers": [DRIVER_FINALIZER] });
    let pod = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }], "nodeSelector": { "no": "node" } });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let templates = ns.api::<ResourceClaimTemplate>();
    let nodes = Api::<Node>::all(client);
    create(&daemon_sets, json!({ "metadata": metadata, "spec": spec })).await.expect("the DaemonSet is created");
    create(&templates, json!({ "metadata": metadata, "spec": { "spec": {} } })).await.expect("the template is created");
    let label = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    nodes.patch_metadata(NODE, &PatchParams::default(), &label).await.expect("the node is labelled");
    let are_removed = async || {
        let is_labelled = nodes.get_metadata(NODE).await.ok()?.labels().contains_key(NODE_LABEL);
        let exists =
            daemon_sets.get_opt("lost").await.ok()?.is_some() || templates.get_opt("lost").await.ok()?.is_some();
        (!is_labelled && !exists).then_some(())
    };
    poll_until(are_removed).await;
}

/// Removes all finalizers of the domain, if it still exists.
async fn release(domains: &Api<ComputeDomain>, name: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    drop(domains.patch_metadata(name, &PatchParams::default(), &patch).await);
}
