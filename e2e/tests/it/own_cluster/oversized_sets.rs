//! Sets that were stored while nobody judged them, larger than any cluster: nothing is made for them, they say why, others are
//! served as ever, and once they are smaller so are they.

use e2e::kubectl::kubectl_on;
use e2e::{Namespace, Plane, World, schema, sets};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};

/// Names, what stands in a right set, and the largest number in its place.
const VAST: [(&str, &str, &str); 3] = [
    ("wide", "  replicas: 1\n", "  replicas: 2147483647\n"),
    ("deep", "roleName: d, replicas: 3", "roleName: d, replicas: 2147483647"),
    ("long", "      replicas: 3\n", "      replicas: 2147483647\n"),
];

fn right(name: &str) -> String {
    let set = sets::grouped(name, 1, "");
    let (set, _) = set.split_once("      scaleConfig:").expect("an autoscaler, which would interfere");
    set.to_owned()
}

/// As an API server has it that neither asks anybody nor knows a largest number.
async fn judged_by_nobody(plane: &Plane, client: &Client) {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    kubectl_on(plane, &["delete", kinds, "--all"], "").await.expect("nobody is asked any more");
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for kind in [PodCliqueSet::crd(), PodCliqueScalingGroup::crd(), PodClique::crd()] {
        let definition = definitions.get(&kind.name_any()).await.expect("the definition");
        let mut definition = serde_json::to_value(definition).expect("JSON");
        schema::without(&["maximum"], &mut definition["spec"]);
        let definition = serde_json::from_value(definition).expect("a definition");
        definitions.replace(&kind.name_any(), &PostParams::default(), &definition).await.expect("it is replaced");
    }
}

/// Stores the set, as soon as the API server has forgotten what it refused.
async fn store(ns: &Namespace, set: &str) {
    let set: PodCliqueSet = serde_saphyr::from_str(set).expect("a set");
    let sets = ns.api::<PodCliqueSet>();
    e2e::plane::until_said(async || sets.create(&PostParams::default(), &set).await.ok()).await;
}

fn says_why(world: &World, set: &str) -> bool {
    let status = world.sets.get(set).and_then(|set| set.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && c.reason == "TooManyObjects")
}

fn serves(world: &World, replicas: usize) -> bool {
    let of_llm = |name: &&String| name.starts_with("llm-");
    world.is_available("llm") && world.pods.keys().filter(of_llm).count() == replicas * 5
}

fn has_only_llm(world: &World) -> bool {
    let names = [
        world.groups.keys().collect::<Vec<_>>(),
        world.cliques.keys().collect(),
        world.gangs.keys().collect(),
        world.services.keys().collect(),
        world.autoscalers.keys().collect(),
        world.pods.keys().collect(),
    ];
    names.iter().flatten().all(|name| name.starts_with("llm-"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_stored_above_the_object_limit_is_not_reconciled_until_it_is_smaller() {
    let plane = Plane::own("unjudged").await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-unjudged").await;
    judged_by_nobody(&plane, &client).await;
    for (name, usual, vast) in VAST {
        let set = right(name);
        assert!(set.contains(usual), "{usual:?} is not in\n{set}");
        store(&ns, &set.replacen(usual, vast, 1)).await;
    }
    let said = ns.until("each says why", |world| VAST.iter().all(|(name, ..)| says_why(world, name))).await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 3)).await;
    let world = ns.until("another set serves", |world| serves(world, 3)).await;
    assert!(has_only_llm(&world), "{world}");

    // Who comes to know of them when it starts does the same, and the API server judges again.
    for service in ["pcs-controller", "pclq-controller"] {
        plane.kill(service).await;
    }
    plane.up().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    let world = ns.until("the other set is smaller", |world| serves(world, 2)).await;
    assert!(has_only_llm(&world), "{world}");
    for (name, ..) in VAST {
        let versions = [&said, &world].map(|world| world.sets[name].resource_version());
        assert_eq!(versions[0], versions[1], "{name} is told once");
    }

    for (name, ..) in VAST {
        let right: Value = serde_saphyr::from_str(&right(name)).expect("YAML");
        ns.patch::<PodCliqueSet>(name, json!({ "spec": right["spec"] })).await;
    }
    ns.until("all of them serve", |world| VAST.iter().all(|(name, ..)| world.is_available(name))).await;
    plane.down().await;
}
