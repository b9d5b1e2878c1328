//! What a service needs and is deprived of while it runs: a permission, a valid token, a definition. It says what it
//! lacks, does what it can without, and goes on by itself once it is given back.

mod tokens;

use std::time::Duration;

use e2e::replicas::Replica;
use e2e::{Namespace, Plane, World, sets, taken_up, world::is_ready};
use grove_api_types::core::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::{conditions, wait::await_condition};
use kube::{Api, CustomResourceExt, ResourceExt};

/// Long enough to start with on a slow machine, and over soon.
const LIFE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_service_says_what_it_lacks_and_goes_on_once_it_has_it() {
    let plane = Plane::own("faults-deprived").await;
    let ns = Namespace::create(&plane.client().await, "e2e-deprived").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", |world| serves(world, 1)).await;
    a_permission(&plane, &ns).await;
    a_valid_token(&plane, &ns).await;
    a_definition(&plane, &ns).await;
    plane.down().await;
}

fn serves(world: &World, replicas: usize) -> bool {
    world.is_available("llm")
        && world.cliques.len() == replicas * 3
        && world.pods.len() == replicas * 5
        && world.live_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
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

/// The token of one service runs out while it works. The account of another is made anew, so the token that this has is none
/// any more. Neither is restarted.
async fn a_valid_token(plane: &Plane, ns: &Namespace) {
    let short = tokens::living(plane, "pcs-controller", LIFE).await;
    tokens::give(plane, "pcs-controller", &short);
    // Ready with a token that it reads when it starts: so that one is accepted.
    let short_of_time = Replica::take_over(plane, "pcs-controller", &[]).await;

    made_anew(ns, "pclq-controller").await;
    let before = plane.command_of("pclq-controller");

    for service in ["pcs-controller", "pclq-controller"] {
        plane.until_logged(service, "401 Unauthorized").await;
        plane.until_logged(service, "the token of this service is not accepted").await;
    }
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for service in ["pcs-controller", "pclq-controller"] {
        tokens::give(plane, service, &tokens::fresh(plane, service).await);
    }
    ns.until("two replicas serve", |world| serves(world, 2)).await;
    assert_eq!(plane.command_of("pclq-controller"), before);
    short_of_time.end().await;
    plane.up().await;
}

async fn made_anew(ns: &Namespace, service: &str) {
    let accounts = Api::<ServiceAccount>::namespaced(ns.client.clone(), "grove-system");
    accounts.delete(service, &DeleteParams::default()).await.expect("the account is deleted");
    let fresh = ServiceAccount {
        metadata: kube::core::ObjectMeta { name: Some(service.to_owned()), ..Default::default() },
        ..Default::default()
    };
    accounts.create(&PostParams::default(), &fresh).await.expect("the account is created");
}

/// Of the kinds that a service watches, one is not served: sets that do not need it are served all the same.
async fn a_definition(plane: &Plane, ns: &Namespace) {
    let definitions = Api::<CustomResourceDefinition>::all(ns.client.clone());
    let groups = PodCliqueScalingGroup::crd().name_any();
    let uid = definitions.get(&groups).await.expect("the definition").uid().expect("a uid");
    definitions.delete(&groups, &DeleteParams::default()).await.expect("the definition is deleted");
    await_condition(definitions, &groups, conditions::is_deleted(&uid)).await.expect("the definition goes");
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.until("one replica serves", |world| serves(world, 1)).await;
    plane.up().await;
    taken_up::kinds(plane, &[&groups]).await;
    ns.create_yaml::<PodCliqueSet>(&sets::grouped("moe", 1, "")).await;
    ns.until("a set with groups serves", |world| world.is_available("moe")).await;
}
