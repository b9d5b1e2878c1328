//! Domains that another manager writes, and objects that another client left.

use e2e::compute_domains::{DRIVER_FINALIZER, NODE_LABEL};
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, events};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::names::DomainDaemonSetName;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// The node of these tests. No pod needs it.
const NODE: &str = "node-20";

/// Creates a domain as this field manager.
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

/// A user removes the finalizer of a domain and deletes it; its objects have finalizers, too.
pub(super) async fn objects_without_domain_are_removed(cluster: &TestCluster) {
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-daemons-without-domain").await;
    let domains = ns.api::<ComputeDomain>();
    let created = create_domain(cluster, &ns, json!({ "name": "lost" }), "kubectl").await;
    let uid = created.uid().expect("a UID");
    let name = DomainDaemonSetName::of_domain(&uid);
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let daemon_templates = Api::<ResourceClaimTemplate>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let templates = ns.api::<ResourceClaimTemplate>();
    let nodes = Api::<Node>::all(client);
    let objects = async || {
        let node = nodes.get_metadata(NODE).await.ok()?;
        Some([
            daemon_sets.get_opt(name.as_str()).await.ok()?.is_some(),
            daemon_templates.get_opt(name.as_str()).await.ok()?.is_some(),
            templates.get_opt("channel").await.ok()?.is_some(),
            node.labels().get(NODE_LABEL) == Some(&uid),
        ])
    };
    let label = Patch::Merge(json!({ "metadata": { "labels": { NODE_LABEL: uid } } }));
    nodes.patch_metadata(NODE, &PatchParams::default(), &label).await.expect("the node is labelled");
    poll_until(async || (objects().await? == [true; 4]).then_some(())).await;
    // The deletion comes first, because Grove adds a missing finalizer again. It may be complete before the finalizer is removed by the user.
    domains.delete("lost", &DeleteParams::default()).await.expect("the domain is deleted");
    release(&domains, "lost").await;
    poll_until(async || (objects().await? == [false; 4]).then_some(())).await;
    assert!(domains.get_opt("lost").await.expect("a response").is_none());
}

/// Removes all finalizers of the domain, if it still exists.
async fn release(domains: &Api<ComputeDomain>, name: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    drop(domains.patch_metadata(name, &PatchParams::default(), &patch).await);
}
