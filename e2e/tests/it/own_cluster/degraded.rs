//! What a service needs and is deprived of while it runs: its lease, a permission, a valid token, a definition. It says what
//! it lacks, does what it can without, and goes on by itself once it is given back.

mod lease;
mod tokens;

use std::time::Duration;

use e2e::replicas::Replica;
use e2e::sets::three_cliques_serve as serves;
use e2e::{Namespace, Plane, sets, taken_up};
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, CustomResourceExt, ResourceExt};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];

/// Long enough to start with on a slow machine, and over soon.
const LIFE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_service_reports_a_missing_requirement_and_recovers() {
    let plane = Plane::own("faults-deprived").await;
    let ns = Namespace::create(&plane.client().await, "e2e-deprived").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", |world| serves(world, 1)).await;
    for service in ["pcs-controller", "webhook-server"] {
        lease::forbidden(&plane, &ns, service).await;
    }
    lease::taken(&plane, &ns).await;
    lease::doubled(&plane, &ns).await;
    a_permission(&plane, &ns).await;
    a_valid_token(&plane, &ns).await;
    a_definition(&plane, &ns).await;
    definitions_of_topologies(&plane, &ns).await;
    plane.down().await;
}

/// Pods may not be created: the clique says so in the API server's words.
async fn a_permission(plane: &Plane, ns: &Namespace) {
    let roles = Api::<ClusterRole>::all(ns.client.clone());
    let mut role = roles.get("pclq-controller").await.expect("the service's rules");
    for rule in role.rules.iter_mut().flatten().filter(|rule| rule.resources.as_deref() == Some(&["pods".to_owned()])) {
        rule.verbs.retain(|verb| verb != "create");
    }
    roles.replace("pclq-controller", &PostParams::default(), &role).await.expect("the rules are changed");
    taken_up::rule(&ns.client, "pclq-controller", "create", ("", "pods"), false).await;
    ns.remove::<PodClique>("llm-0-frontend").await;
    ns.until("the clique says what is forbidden", |world| {
        let Some(status) = world.cliques.get("llm-0-frontend").and_then(|clique| clique.status.as_ref()) else {
            return false;
        };
        let forbidden = |text: &str| text.contains("pods is forbidden") && text.contains("cannot create resource");
        status.last_errors.iter().any(|error| forbidden(&error.description))
            && status.conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && forbidden(&c.message))
    })
    .await;
    plane.up().await;
    ns.until("the set serves again, and nothing is complained about", |world| {
        let status = world.cliques.get("llm-0-frontend").and_then(|clique| clique.status.as_ref());
        serves(world, 1) && status.is_some_and(|status| status.last_errors.is_empty())
    })
    .await;
}

/// The token of one service runs out while it works. The accounts of the others are made anew, so the tokens that these have
/// are none any more. None is restarted, and reviews are answered all the while.
async fn a_valid_token(plane: &Plane, ns: &Namespace) {
    let short = tokens::living(plane, "pcs-controller", LIFE).await;
    tokens::give(plane, "pcs-controller", &short);
    // Ready with a token that it reads when it starts: so that one is accepted.
    let short_of_time = Replica::take_over(plane, "pcs-controller", &[]).await;

    for service in ["pclq-controller", "webhook-server"] {
        make_account_anew(ns, service).await;
    }
    let before = ["pclq-controller", "webhook-server"].map(|service| plane.command_of(service));

    for service in SERVICES {
        plane.until_logged(service, "401 Unauthorized").await;
        plane.until_logged(service, "the token of this service is not accepted").await;
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for service in SERVICES {
        tokens::give(plane, service, &tokens::fresh(plane, service).await);
    }
    ns.until("two replicas serve", |world| serves(world, 2)).await;
    assert_eq!(["pclq-controller", "webhook-server"].map(|service| plane.command_of(service)), before);
    short_of_time.end().await;
    plane.up().await;
}

async fn make_account_anew(ns: &Namespace, service: &str) {
    let accounts = Api::<ServiceAccount>::namespaced(ns.client.clone(), "grove-system");
    accounts.delete(service, &DeleteParams::default()).await.expect("the account is deleted");
    let metadata = ObjectMeta { name: Some(service.to_owned()), ..ObjectMeta::default() };
    let fresh = ServiceAccount { metadata, ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &fresh).await.expect("the account is created");
}

/// Of the kinds that a service watches, one is not served: sets that do not need it are served all the same.
async fn a_definition(plane: &Plane, ns: &Namespace) {
    let groups = PodCliqueScalingGroup::crd().name_any();
    taken_up::undefine(&ns.client, &groups).await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.until("one replica serves", |world| serves(world, 1)).await;
    plane.up().await;
    taken_up::kinds(plane, &[&groups]).await;
    ns.create_yaml::<PodCliqueSet>(&sets::grouped("moe", 1, "")).await;
    ns.until("a set with groups serves", |world| world.is_available("moe")).await;
}

/// A webhook server that starts where no topologies are defined says so, and answers for sets that name none.
async fn definitions_of_topologies(plane: &Plane, ns: &Namespace) {
    for definition in [ClusterTopology::crd(), ClusterTopologyBinding::crd()] {
        taken_up::undefine(&ns.client, &definition.name_any()).await;
    }
    let server = Replica::take_over(plane, "webhook-server", &[]).await;
    plane.until_logged("webhook-server", "does not serve this kind; its definition has to be installed").await;
    ns.until_admitted(&sets::three_cliques("more", 1)).await;
    server.end().await;
    plane.up().await;
}
