//! The component `controller-policy`: the accounts of the controllers may write only the objects of sets. `cargo xtask test` applies it to
//! the shared cluster, so every test there shows that the policies allow the writes that the controllers need.

use std::fmt::Debug;

use e2e::{Namespace, NamespaceState, TestCluster, fixtures, in_namespace};
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_api_types::{SERVICE_USER_PREFIX, SYSTEM_NAMESPACE};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::account_policy::wait_until_denied;

/// The API of one kind for the account of a service.
async fn api_of<K>(service: &str, ns: &Namespace) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = TestCluster::shared().client_as(&format!("{SERVICE_USER_PREFIX}{service}"), &[]).await;
    Api::namespaced(client, &ns.name)
}

fn reference(api_version: &str, kind: &str, uid: &str, is_controller: bool) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": "owner", "uid": uid, "controller": is_controller })
}

fn managed_labels() -> Value {
    json!({ MANAGED_BY: GROVE_OPERATOR })
}

fn object<K: DeserializeOwned>(spec: &Value, name: &str, metadata: &Value) -> K {
    let mut metadata = metadata.clone();
    metadata["name"] = json!(name);
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("an object of the kind")
}

/// Creates an object in a dry run, so that neither the garbage collector nor a controller sees it.
async fn create<K>(api: &Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry, object).await
}

/// Patches an object in a dry run.
async fn patch<K>(api: &Api<K>, name: &str, change: &Value) -> Result<K, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    api.patch(name, &dry, &Patch::Merge(change)).await
}

/// Deletes an object in a dry run.
async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default().dry_run()).await.map(drop)
}

/// Checks that the account of a service may write an object of kind `K` only if it is a managed object.
async fn may_write_only_managed_objects<K>(ns: &Namespace, service: &str, spec: &Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api = api_of::<K>(service, ns).await;
    let owner = |api_version: &str, is_controller| reference(api_version, "Owner", "owner-uid", is_controller);
    let grove = owner("grove.io/v1alpha1", true);
    let denied = format!("{service} may create only managed objects with a controller of the API group grove.io");
    for metadata in [
        json!({}),
        json!({ "labels": managed_labels() }),
        json!({ "ownerReferences": [grove] }),
        json!({ "labels": { MANAGED_BY: "Helm" }, "ownerReferences": [grove] }),
        json!({ "labels": managed_labels(), "ownerReferences": [owner("apps/v1", true)] }),
        json!({ "labels": managed_labels(), "ownerReferences": [owner("grove.io/v1alpha1", false)] }),
        json!({ "labels": managed_labels(), "ownerReferences": [owner("grove.io.example.com/v1", true)] }),
    ] {
        let object = object::<K>(spec, "created", &metadata);
        wait_until_denied(&denied, async || create(&api, &object).await).await;
    }
    let managed = json!({ "labels": managed_labels(), "ownerReferences": [grove] });
    create(&api, &object(spec, "created", &managed)).await.expect("a managed object may be created");

    let foreign_owner = ns.create_yaml::<ConfigMap>("{metadata: {name: owner}}").await.uid().expect("a uid");
    let foreign_owner = reference("v1", "ConfigMap", &foreign_owner, true);
    for (name, metadata) in [
        ("foreign", json!({})),
        ("of-other-controller", json!({ "labels": managed_labels(), "ownerReferences": [foreign_owner] })),
        ("orphan", json!({ "labels": managed_labels() })),
    ] {
        let object = object::<K>(spec, name, &metadata);
        ns.api::<K>().create(&PostParams::default(), &object).await.expect("an administrator creates the object");
    }
    let denied = format!(
        "{service} may change only objects with a controller of the API group grove.io, and managed objects without controller"
    );
    let annotation = json!({ "metadata": { "annotations": { "a": "b" } } });
    let adoption = json!({ "metadata": managed });
    for (name, change) in [("foreign", &annotation), ("foreign", &adoption), ("of-other-controller", &annotation)] {
        wait_until_denied(&denied, async || patch(&api, name, change).await).await;
        wait_until_denied(&denied, async || delete(&api, name).await).await;
    }
    patch(&api, "orphan", &adoption).await.expect("an orphan may be adopted");
}

#[tokio::test]
async fn pclq_controller_may_write_only_managed_pods() {
    in_namespace("e2e-policy-pclq", async |ns| {
        let gate = json!({ "name": "e2e.example/hold" });
        let spec = json!({ "containers": [{ "name": "c", "image": "i" }], "schedulingGates": [gate] });
        may_write_only_managed_objects::<Pod>(ns, "pclq-controller", &spec).await;
    })
    .await;
}

#[tokio::test]
async fn pcs_controller_may_write_only_managed_services() {
    in_namespace("e2e-policy-pcs", async |ns| {
        let spec = json!({ "clusterIP": "None", "selector": { "a": "b" } });
        may_write_only_managed_objects::<Service>(ns, "pcs-controller", &spec).await;
    })
    .await;
}

/// Tokens, accounts and permissions need stricter rules than other children.
#[tokio::test]
async fn pcs_controller_may_write_only_identities_of_sets() {
    in_namespace("e2e-policy-identity", async |ns| {
        let mut owner = reference("grove.io/v1alpha1", "PodCliqueSet", "set-uid", true);
        owner["name"] = json!("llm");
        let metadata = |name: &str| json!({ "name": name, "labels": managed_labels(), "ownerReferences": [owner] });
        let token = "kubernetes.io/service-account-token";
        let secret = |name: &str, kind: &str, account: &str| {
            let mut metadata = metadata(name);
            metadata["annotations"] = json!({ "kubernetes.io/service-account.name": account });
            json!({ "metadata": metadata, "type": kind })
        };
        let denied =
            "pcs-controller may create and change only identities of PodCliqueSets, and tokens of their accounts";
        let secrets = api_of::<Secret>("pcs-controller", ns).await;
        for (name, kind, account) in [
            ("llm-ic-sat", token, "pclq-controller"),
            ("llm-ic-sat", "Opaque", "llm"),
            ("other-ic-sat", token, "other"),
            ("llm", token, "llm"),
        ] {
            let object = from_json::<Secret>(secret(name, kind, account));
            wait_until_denied(denied, async || create(&secrets, &object).await).await;
        }
        create(&secrets, &from_json(secret("llm-ic-sat", token, "llm"))).await.expect("the token of the set");
        let client = TestCluster::shared().client_as(&format!("{SERVICE_USER_PREFIX}pcs-controller"), &[]).await;
        let object = from_json::<Secret>(secret("llm-ic-sat", token, "llm"));
        for namespace in [SYSTEM_NAMESPACE, "kube-system"] {
            let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
            wait_until_denied(denied, async || create(&secrets, &object).await).await;
        }
        let accounts = api_of::<ServiceAccount>("pcs-controller", ns).await;
        let account = |name: &str| from_json::<ServiceAccount>(json!({ "metadata": metadata(name) }));
        wait_until_denied(denied, async || create(&accounts, &account("other")).await).await;
        create(&accounts, &account("llm")).await.expect("the account of the set");
        let roles = api_of::<Role>("pcs-controller", ns).await;
        let reads =
            |resource: &str, verbs: &[&str]| json!([{ "apiGroups": [""], "resources": [resource], "verbs": verbs }]);
        let role = |name: &str, rules: Value| from_json::<Role>(json!({ "metadata": metadata(name), "rules": rules }));
        for (name, rules) in
            [("grove.io:pcs:other", reads("pods", &["get"])), ("grove.io:pcs:llm", reads("secrets", &["get"]))]
        {
            wait_until_denied(denied, async || create(&roles, &role(name, rules.clone())).await).await;
        }
        let own = role("grove.io:pcs:llm", reads("pods", &["get", "list", "watch"]));
        create(&roles, &own).await.expect("the Role of the set");
        let bindings = api_of::<RoleBinding>("pcs-controller", ns).await;
        let binding = |kind: &str, role: &str, subject: &str| {
            let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role });
            let subjects = json!([{ "kind": "ServiceAccount", "name": "llm", "namespace": subject }]);
            from_json::<RoleBinding>(json!({ "metadata": metadata("grove.io:pcs:llm"), "roleRef": role,
                "subjects": subjects }))
        };
        for name in ["grove.io:pcs:llm", "grove.io:pcs:other"] {
            let empty = from_json(json!({ "metadata": { "name": name } }));
            ns.api::<Role>().create(&PostParams::default(), &empty).await.expect("an administrator creates the Role");
        }
        for (kind, role, subject) in [
            ("Role", "grove.io:pcs:other", ns.name.as_str()),
            // Each user has its permissions, so RBAC allows the binding.
            ("ClusterRole", "system:basic-user", ns.name.as_str()),
            ("Role", "grove.io:pcs:llm", "kube-system"),
        ] {
            wait_until_denied(denied, async || create(&bindings, &binding(kind, role, subject)).await).await;
        }
        create(&bindings, &binding("Role", "grove.io:pcs:llm", &ns.name)).await.expect("the RoleBinding of the set");
    })
    .await;
}

fn from_json<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("an object of the kind")
}

#[tokio::test]
async fn controllers_create_scale_and_delete_a_set_under_their_policies() {
    in_namespace("e2e-policy-set", async |ns| {
        let is_settled = |state: &NamespaceState, pods: usize| {
            state.is_available("m") && state.pods.len() == pods && state.autoscalers.len() == 2
        };
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("the set is available", |state| is_settled(state, 14)).await;

        let change = json!({ "metadata": { "finalizers": ["e2e.example/hold"] } });
        let sets = api_of::<PodCliqueSet>("pcs-controller", ns).await;
        let denied = "pcs-controller may change PodCliqueSets only while they are terminating";
        wait_until_denied(denied, async || patch(&sets, "m", &change).await).await;
        let cliques = api_of::<PodClique>("pclq-controller", ns).await;
        let denied = "pclq-controller may change PodCliques only while they are terminating";
        wait_until_denied(denied, async || patch(&cliques, "m-0-f", &change).await).await;

        ns.scale::<PodCliqueScalingGroup>("m-0-g", 4).await;
        ns.wait_for("the group has four replicas", |state| is_settled(state, 18)).await;
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 2).await;
        ns.wait_for("the group has two replicas", |state| is_settled(state, 10)).await;
        ns.delete_object::<PodCliqueSet>("m").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    })
    .await;
}
