//! RBAC limits what a compromised service can do: the accounts of the services lack these permissions.

use e2e::{TestCluster, access};
use grove_api_types::{SERVICE_USER_PREFIX, SYSTEM_NAMESPACE};
use kube::api::PostParams;
use kube::{Api, Client};

const SERVICES: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"];
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// The empty namespace means all namespaces.
const NAMESPACES: [&str; 3] = ["", "default", SYSTEM_NAMESPACE];

/// The group of a resource, and its plural with the subresource.
type Resource = (&'static str, &'static str);

const PODS: [Resource; 4] = [("", "pods"), ("", "pods/exec"), ("", "pods/status"), ("", "pods/ephemeralcontainers")];

/// A permission as text, and whether the API server grants it to the account of the service.
async fn review(client: &Client, service: &str, namespace: &str, verb: &str, resource: Resource) -> (String, bool) {
    let (group, plural) = resource;
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let user = format!("{SERVICE_USER_PREFIX}{service}");
    let review = access::review(user, &groups, Some(namespace), (verb, group, plural));
    let reviewed = Api::all(client.clone()).create(&PostParams::default(), &review).await.expect("a review");
    let is_granted = reviewed.status.is_some_and(|status| status.allowed);
    (format!("{service}: {verb} {plural} in {namespace:?}"), is_granted)
}

/// Those of the permissions that the API server grants to the service.
async fn granted(client: &Client, service: &str, resources: &[Resource]) -> Vec<String> {
    let mut granted = Vec::new();
    for resource in resources {
        for namespace in NAMESPACES {
            for verb in VERBS {
                let (permission, is_granted) = review(client, service, namespace, verb, *resource).await;
                granted.extend(Some(permission).filter(|_| is_granted));
            }
        }
    }
    granted
}

#[tokio::test]
async fn only_pclq_controller_can_write_pods() {
    let client = TestCluster::shared().client().await;
    for service in ["webhook-server", "topology-controller"] {
        assert_eq!(granted(&client, service, &PODS).await, Vec::<String>::new());
    }
    // It grants the init containers of sets to read pods.
    let reads = ["get", "list", "watch"];
    let of_resource = |resource: Resource| {
        let in_namespaces = NAMESPACES.iter().flat_map(move |namespace| reads.map(|verb| (*namespace, verb)));
        in_namespaces.map(move |(namespace, verb)| format!("pcs-controller: {verb} {} in {namespace:?}", resource.1))
    };
    let expected: Vec<_> = of_resource(PODS[0]).chain(of_resource(PODS[2])).collect();
    assert_eq!(granted(&client, "pcs-controller", &PODS).await, expected);
    let (permission, is_granted) = review(&client, "pclq-controller", "default", "create", PODS[0]).await;
    assert!(is_granted, "the reviews find no permission, not even {permission}");
}

#[tokio::test]
async fn mnnvl_controller_can_only_read_pods() {
    let client = TestCluster::shared().client().await;
    let granted = granted(&client, "mnnvl-controller", &PODS).await;
    let expected = NAMESPACES
        .iter()
        .flat_map(|namespace| ["list", "watch"].map(|verb| format!("mnnvl-controller: {verb} pods in {namespace:?}")));
    assert_eq!(granted, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn no_service_can_allocate_devices() {
    let client = TestCluster::shared().client().await;
    let claims = [("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceclaimtemplates")];
    for service in ["webhook-server", "topology-controller", "mnnvl-controller"] {
        assert_eq!(granted(&client, service, &claims).await, Vec::<String>::new());
    }
    let devices = ["resourceclaims/status", "resourceclaims/binding", "resourceslices", "deviceclasses"];
    let devices = devices.map(|resource| ("resource.k8s.io", resource));
    for service in ["pcs-controller", "pclq-controller"] {
        assert_eq!(granted(&client, service, &devices).await, Vec::<String>::new());
        let (permission, is_granted) = review(&client, service, "default", "create", claims[0]).await;
        assert!(is_granted, "the reviews find no permission, not even {permission}");
    }
}

#[tokio::test]
async fn only_pcs_controller_can_access_secrets_and_rbac() {
    let client = TestCluster::shared().client().await;
    let of_identities =
        [("", "secrets"), ("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings")];
    let others = [
        ("", "serviceaccounts/token"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ];
    for service in ["pcs-controller", "topology-controller", "mnnvl-controller"] {
        assert_eq!(granted(&client, service, &others).await, Vec::<String>::new());
    }
    for service in ["topology-controller", "mnnvl-controller"] {
        assert_eq!(granted(&client, service, &of_identities).await, Vec::<String>::new());
    }
    let of_pcs_controller = granted(&client, "pcs-controller", &of_identities).await;
    let verbs = ["get", "list", "watch", "create", "patch", "delete"];
    assert_eq!(of_pcs_controller.len(), of_identities.len() * NAMESPACES.len() * verbs.len(), "{of_pcs_controller:?}");
}

#[tokio::test]
async fn services_can_take_leases_only_in_their_own_namespace() {
    let client = TestCluster::shared().client().await;
    for service in SERVICES {
        let leases = granted(&client, service, &[("coordination.k8s.io", "leases")]).await;
        let expected = ["get", "watch", "create", "update"];
        let expected = expected.map(|verb| format!("{service}: {verb} leases in {SYSTEM_NAMESPACE:?}"));
        assert_eq!(leases, expected);
    }
}
