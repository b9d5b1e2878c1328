//! A running service loses something that it requires: its lease, a permission, a valid token, a CRD. It reports what is
//! missing, continues the work that does not need it, and recovers by itself.

mod lease;
mod tokens;

use grove_api_types::SYSTEM_NAMESPACE;
use std::time::Duration;

use e2e::fixtures::three_cliques_are_ready;
use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, TestCluster, fixtures, propagation};
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, CustomResourceExt, ResourceExt};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];

/// Long enough for a start on a slow machine, and short enough to wait for.
const TOKEN_LIFETIME: Duration = Duration::from_mins(1);

/// Takes minutes: four cases wait for the real renew deadline or duration of a lease, and one for the expiry of a token, which the API server
/// accepts for a minute longer. They wait in turn, because each disturbs a service that the others use.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_reports_a_missing_requirement_and_recovers() {
    let cluster = TestCluster::with_own_control_plane("degraded", &[]).await;
    let ns = Namespace::create(&cluster.client().await, "e2e-degraded").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", |state| three_cliques_are_ready(state, 1)).await;
    for service in ["pcs-controller", "webhook-server"] {
        lease::forbidden(&cluster, &ns, service).await;
    }
    lease::acquired_by_another(&cluster, &ns).await;
    lease::duplicate_identity(&cluster, &ns).await;
    without_permission(&cluster, &ns).await;
    without_permission_for_namespaces(&cluster, &ns).await;
    without_valid_token(&cluster, &ns).await;
    without_crd(&cluster, &ns).await;
    without_topology_crds(&cluster, &ns).await;
    cluster.down().await;
}

/// Pod creates are forbidden: the clique reports the message of the API server.
async fn without_permission(cluster: &TestCluster, ns: &Namespace) {
    let roles = Api::<ClusterRole>::all(ns.client.clone());
    let mut role = roles.get("pclq-controller").await.expect("the ClusterRole");
    for rule in role.rules.iter_mut().flatten().filter(|rule| rule.resources.as_deref() == Some(&["pods".to_owned()])) {
        rule.verbs.retain(|verb| verb != "create");
    }
    roles.replace("pclq-controller", &PostParams::default(), &role).await.expect("the ClusterRole is replaced");
    propagation::wait_for_permission(&ns.client, "pclq-controller", "create", ("", "pods"), false).await;
    ns.delete_object::<PodClique>("llm-0-frontend").await;
    ns.wait_for("the clique reports the forbidden create", |state| {
        let Some(status) = state.cliques.get("llm-0-frontend").and_then(|clique| clique.status.as_ref()) else {
            return false;
        };
        let forbidden = |text: &str| text.contains("pods is forbidden") && text.contains("cannot create resource");
        status.last_errors.iter().any(|error| forbidden(&error.description))
            && status.conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && forbidden(&c.message))
    })
    .await;
    cluster.up().await;
    ns.wait_for("the set is ready again and reports no error", |state| {
        let status = state.cliques.get("llm-0-frontend").and_then(|clique| clique.status.as_ref());
        three_cliques_are_ready(state, 1) && status.is_some_and(|status| status.last_errors.is_empty())
    })
    .await;
}

/// A controller that may not read namespaces starts and reconciles, as after an update of its image without its `ClusterRole`.
async fn without_permission_for_namespaces(cluster: &TestCluster, ns: &Namespace) {
    let roles = Api::<ClusterRole>::all(ns.client.clone());
    for (service, replicas) in [("pcs-controller", 2_u8), ("pclq-controller", 1)] {
        let mut role = roles.get(service).await.expect("the ClusterRole");
        let is_other = |rule: &PolicyRule| rule.resources.as_deref() != Some(&["namespaces".to_owned()]);
        role.rules = role.rules.map(|rules| rules.into_iter().filter(is_other).collect());
        roles.replace(service, &PostParams::default(), &role).await.expect("the ClusterRole is replaced");
        propagation::wait_for_permission(&ns.client, service, "list", ("", "namespaces"), false).await;
        let replica = ServiceReplica::take_over(cluster, service, &[]).await;
        cluster.wait_for_log(service, "the service works without the objects of this kind").await;
        ns.scale::<PodCliqueSet>("llm", replicas.into()).await;
        ns.wait_for("the scaled set is ready", |state| three_cliques_are_ready(state, replicas.into())).await;
        replica.stop().await;
        cluster.up().await;
    }
}

/// The token of one service expires while the service runs. The `ServiceAccount`s of the others are recreated, which
/// invalidates their tokens. No process restarts.
async fn without_valid_token(cluster: &TestCluster, ns: &Namespace) {
    let short_lived = tokens::short_lived(cluster, "pcs-controller", TOKEN_LIFETIME).await;
    tokens::replace(cluster, "pcs-controller", &short_lived);
    // Readiness shows that the API server accepted the token.
    let replica = ServiceReplica::take_over(cluster, "pcs-controller", &[]).await;

    for service in ["pclq-controller", "webhook-server"] {
        recreate_account(ns, service).await;
    }
    let before = ["pclq-controller", "webhook-server"].map(|service| cluster.command_line(service));

    for service in SERVICES {
        cluster.wait_for_log(service, "401 Unauthorized").await;
        cluster.wait_for_log(service, "the token of this service is not accepted").await;
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for service in SERVICES {
        tokens::replace(cluster, service, &tokens::issue(cluster, service).await);
    }
    ns.wait_for("two replicas are ready", |state| three_cliques_are_ready(state, 2)).await;
    assert_eq!(["pclq-controller", "webhook-server"].map(|service| cluster.command_line(service)), before);
    replica.stop().await;
    cluster.up().await;
}

async fn recreate_account(ns: &Namespace, service: &str) {
    let accounts = Api::<ServiceAccount>::namespaced(ns.client.clone(), SYSTEM_NAMESPACE);
    accounts.delete(service, &DeleteParams::default()).await.expect("the account is deleted");
    let metadata = ObjectMeta { name: Some(service.to_owned()), ..ObjectMeta::default() };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.expect("the account is created");
}

/// One of the watched kinds is not served: sets that do not need it are still reconciled.
async fn without_crd(cluster: &TestCluster, ns: &Namespace) {
    let groups = PodCliqueScalingGroup::crd().name_any();
    propagation::delete_crd(&ns.client, &groups).await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.wait_for("one replica is ready", |state| three_cliques_are_ready(state, 1)).await;
    cluster.up().await;
    propagation::wait_for_kinds(cluster, &[&groups]).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("moe", 1, "")).await;
    ns.wait_for("a set with a scaling group is available", |state| state.is_available("moe")).await;
}

/// A webhook server that starts without the CRDs of topologies reports that, and admits sets without a topology.
async fn without_topology_crds(cluster: &TestCluster, ns: &Namespace) {
    for crd in [ClusterTopology::crd(), ClusterTopologyBinding::crd()] {
        propagation::delete_crd(&ns.client, &crd.name_any()).await;
    }
    let server = ServiceReplica::take_over(cluster, "webhook-server", &[]).await;
    cluster.wait_for_log("webhook-server", "does not serve this kind; its definition has to be installed").await;
    ns.wait_until_admitted(&fixtures::three_cliques("more", 1)).await;
    server.stop().await;
    cluster.up().await;
}
