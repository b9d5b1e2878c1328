//! The `ResourceClaimTemplate`s of other namespaces: a user without the permission to read one does not get its content through Grove.

use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, access, in_namespace};
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const USER: &str = "e2e-tenant";
const TEMPLATE: &str =
    "{metadata: {name: gpus}, spec: {spec: {devices: {requests: [{name: secret, exactly: {deviceClassName: gpu}}]}}}}";

/// Permits the user these verbs on these resources of a namespace.
async fn permit(ns: &Namespace, group: &str, resources: &[&str], verbs: &[&str]) {
    let rules = json!([{ "apiGroups": [group], "resources": resources, "verbs": verbs }]);
    let metadata = json!({ "name": "tenant" });
    ns.create_yaml::<Role>(&json!({ "metadata": metadata, "rules": rules }).to_string()).await;
    access::bind(ns, USER, ("Role", "tenant")).await;
}

fn set(name: &str, sharing: &Value) -> PodCliqueSet {
    let containers = json!([{ "name": "main", "image": "registry.k8s.io/pause:3.10" }]);
    let clique = json!({ "name": "work", "resourceSharing": sharing,
        "spec": { "roleName": "work", "replicas": 1, "podSpec": { "containers": containers } } });
    serde_json::from_value(
        json!({ "metadata": { "name": name }, "spec": { "replicas": 1, "template": { "cliques": [clique] } } }),
    )
    .expect("a set")
}

/// The claims of a clique as Grove would write them.
fn annotations(templates: &str) -> Value {
    let claims = json!({ "claims": [{ "template": "gpus", "namespace": templates, "scope": "AllReplicas" }] });
    json!({ RESOURCE_CLAIMS: claims.to_string() })
}

/// Creates the object; returns the error of the API server.
async fn create<K>(client: &Client, ns: &Namespace, object: &K) -> Option<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    let created = Api::<K>::namespaced(client.clone(), &ns.name).create(&PostParams::default(), object).await;
    created.err().map(|error| error.to_string())
}

#[tokio::test]
async fn a_user_refers_only_to_templates_that_the_user_may_read() {
    in_namespace("e2e-templates-of-others", async |owner: &Namespace| {
        in_namespace("e2e-template-user", async |ns| {
            owner.create_yaml::<ResourceClaimTemplate>(TEMPLATE).await;
            permit(ns, "grove.io", &["podcliquesets", "podcliques"], &["create", "get", "patch"]).await;
            let client = TestCluster::shared().client_as(USER, &[]).await;
            let denied = format!("user \"{USER}\" may not get ResourceClaimTemplate gpus in namespace {}", owner.name);
            let sharing = json!([{ "name": "gpus", "namespace": owner.name, "scope": "AllReplicas" }]);

            // The role takes effect a moment later.
            let is_denied = async || create(&client, ns, &set("denied", &sharing)).await?.contains(&denied).then_some(());
            poll_until(is_denied).await;
            let clique: PodClique = serde_json::from_value(json!({
                "metadata": { "name": "denied", "annotations": annotations(&owner.name) },
                "spec": { "roleName": "work", "replicas": 1, "podSpec": { "containers": [{ "name": "main", "image": "x" }] } },
            }))
            .expect("a clique");
            let error = create(&client, ns, &clique).await.expect("an error");
            assert!(error.contains(&denied), "{error}");

            assert_eq!(create(&client, ns, &set("own", &json!([]))).await, None);
            ns.wait_for_ready_pods("own", 1).await;
            let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations(&owner.name) } }));
            let cliques = Api::<PodClique>::namespaced(client.clone(), &ns.name);
            let error = cliques.patch("own-0-work", &PatchParams::default(), &patch).await.expect_err("a denial");
            assert!(error.to_string().contains(&denied), "{error}");

            permit(owner, "resource.k8s.io", &["resourceclaimtemplates"], &["get"]).await;
            poll_until(async || create(&client, ns, &set("shares", &sharing)).await.is_none().then_some(())).await;
            let claims = ns.api::<ResourceClaim>();
            let claim =
                poll_until(async || claims.get_opt("shares-0-work-all-gpus").await.expect("a response")).await;
            assert_eq!(claim.spec.and_then(|spec| Some(spec.devices?.requests?[0].name.clone())).as_deref(), Some("secret"));
            let others = claims.list(&ListParams::default()).await.expect("the claims").items.len();
            assert_eq!(others, 1, "no other claim has the content of the template");
        })
        .await;
    })
    .await;
}
