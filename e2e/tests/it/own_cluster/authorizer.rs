//! With the authorizer on, what Grove manages is Grove's: users change the set in place of it, and everybody whose work it is
//! to change parts of it goes on, Grove's services, Kubernetes' controllers and its scheduler among them.

mod devices;
mod managed_rows;
mod webhook_outage;

use e2e::plane::until_said;
use e2e::{Namespace, Plane, audit, sets};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::dry_run::play;

/// Who is exempt by configuration, as the rows take for granted.
const EXEMPT: &str = "system:serviceaccount:kube-system:job-controller";

#[tokio::test(flavor = "multi_thread")]
async fn the_authorizer_protects_managed_objects_and_admits_controllers() {
    let plane = Plane::own_with("authorizer", &["--config", &configuration_file()]).await;
    let client = plane.client().await;
    devices::define(&client).await;
    let ns = Namespace::create(&client, "e2e-authorizer").await;
    let set = ns.create_yaml::<PodCliqueSet>(&sets::grouped("llm", 1, "")).await;
    ns.until("the set is available", |world| world.is_available("llm")).await;
    a_set_grows_and_shrinks(&ns).await;
    users_change_the_set_in_place_of_its_children(&ns).await;
    devices::claims_are_allocated_and_released(&ns, &set).await;
    devices::domains_are_the_drivers_too(&ns, &set).await;
    ns.remove::<PodCliqueSet>("llm").await;
    ns.until("nothing is left", e2e::World::is_empty).await;
    devices::are_gone(&ns).await;
    let refused = audit::refused_by(plane.dir(), "authorizer.webhooks.grove.io");
    assert!(refused.len() > 3 && refused.iter().all(|request| request.ends_with(" (admin)")), "{refused:#?}");

    // What is stored from here on is to be judged, not to be made real.
    for controller in ["pcs-controller", "pclq-controller"] {
        plane.end(controller).await;
    }
    let (refused, accepted) = managed_rows::prepare(&client).await;
    let count = refused.len() + accepted.len();
    let mut wrong = play(&client, refused).await;
    // By now it is known which sets are open, so nobody passes by an old answer.
    wrong.extend(play(&client, accepted).await);
    println!("{count} questions");
    assert!(wrong.is_empty(), "{} of {count} answers differ from the table:\n{}", wrong.len(), wrong.join("\n"));
    webhook_outage::only_what_is_protected_waits(&plane).await;
    plane.down().await;
}

/// The services write what the authorizer protects, and the scale subresource is everybody's who may.
async fn a_set_grows_and_shrinks(ns: &Namespace) {
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.until("two replicas", |world| world.is_available("llm") && world.services.len() == 2).await;
    ns.scale::<PodCliqueScalingGroup>("llm-0-g", 4).await;
    ns.until("a group of four", |world| world.cliques.contains_key("llm-0-g-3-d") && world.is_available("llm")).await;
    ns.scale::<PodClique>("llm-0-f", 4).await;
    ns.until("a clique of four", |world| world.ready_indices("llm-0-f") == [0, 1, 2, 3]).await;
    ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.until("one replica", |world| {
        world.is_available("llm") && world.services.len() == 1 && !world.cliques.contains_key("llm-0-g-3-d")
    })
    .await;
}

async fn users_change_the_set_in_place_of_its_children(ns: &Namespace) {
    let label = Patch::Merge(json!({ "metadata": { "labels": { "grove.io/podgang": "other" } } }));
    let edited = ns.api::<PodClique>().patch("llm-0-f", &PatchParams::default(), &label).await;
    is_refused(edited, "creation/updation", "llm-0-f", ns);
    let deleted = ns.api::<Service>().delete("llm-0", &DeleteParams::default()).await;
    is_refused(deleted, "deletion", "llm-0", ns);

    let world = ns.until("pods of the clique", |world| !world.ready_indices("llm-0-f").is_empty()).await;
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name == "llm-0-f");
    let victim = world.live_pods().find(of_clique).expect("a pod").name_any();
    ns.remove::<Pod>(&victim).await;
    ns.until("another pod", |world| !world.pods.contains_key(&victim) && world.is_available("llm")).await;

    let open =
        |value| json!({ "metadata": { "annotations": { "grove.io/disable-managed-resource-protection": value } } });
    let before = world.services["llm-0"].uid();
    ns.patch::<PodCliqueSet>("llm", open(json!("true"))).await;
    // The webhook server hears of it a moment later.
    while let Err(error) = ns.api::<Service>().delete("llm-0", &DeleteParams::default()).await {
        is_refused::<()>(Err(error), "deletion", "llm-0", ns);
    }
    ns.until("the Service comes back", |world| {
        world.services.get("llm-0").is_some_and(|service| service.uid() != before)
    })
    .await;
    ns.patch::<PodCliqueSet>("llm", open(json!(null))).await;
    // The same.
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    until_said(async || ns.api::<Service>().delete("llm-0", &dry).await.err()).await;
}

fn is_refused<T>(answer: Result<T, kube::Error>, what: &str, name: &str, ns: &Namespace) {
    let Err(kube::Error::Api(status)) = answer else { panic!("{what} of {name} is let in") };
    let words = format!("admission denied, {what} of resource: {}/{name} is not allowed", ns.name);
    assert!(status.code == 403 && status.message.contains(&words), "{status:?}");
}

/// Outside of the plane's folder, which is not there yet. JSON is YAML.
fn configuration_file() -> String {
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "authorizer": { "enabled": true, "exemptServiceAccountUserNames": [EXEMPT] },
    });
    let file = Plane::shared().dir().join("authorizer.yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
