//! A template that is changed under running pods: they run on, the set says so, and what is made anew is of the new template.

use e2e::{World, in_namespace, sets, world::is_ready};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// What the set says of pods that were made from an older template.
fn told(world: &World) -> Option<String> {
    let status = world.sets.get("llm")?.status.as_ref()?;
    let told =
        status.conditions.iter().find(|condition| condition.type_ == "PodsOutdated" && condition.status == "True");
    told.map(|condition| condition.message.clone())
}

fn of_decode(world: &World) -> Vec<&Pod> {
    let is_of = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|clique| clique == "llm-0-decode");
    world.live_pods().filter(is_of).collect()
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers[0].image.as_deref()
}

#[tokio::test]
async fn a_template_change_keeps_running_pods_and_reports_them_as_outdated() {
    in_namespace("e2e-outdated", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        let before = ns.until("the set serves", |world| world.is_available("llm") && world.pods.len() == 5).await;
        assert_eq!(told(&before), None);
        let at = "/spec/template/cliques/2/spec/podSpec/containers/0/image";
        let change = json!([{ "op": "replace", "path": at, "value": "registry.k8s.io/pause:3.9" }]);
        let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
        let patched = ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
        patched.expect("the set is changed");
        let words = "pods of llm-0-decode were made from an older template";
        let world = ns.until("the set says so", |world| told(world).is_some_and(|told| told.contains(words))).await;
        let (were, are): (Vec<_>, Vec<_>) = (before.pods.keys().collect(), world.pods.keys().collect());
        assert_eq!(were, are, "every pod runs on");
        for pod in of_decode(&world) {
            ns.remove::<Pod>(&pod.name_any()).await;
        }
        ns.until("those made anew are of the new template, and nothing is told any more", |world| {
            let decode = of_decode(world);
            let is_new = |pod: &&Pod| is_ready(pod) && image(pod) == Some("registry.k8s.io/pause:3.9");
            decode.len() == 2 && decode.iter().all(is_new) && told(world).is_none()
        })
        .await;
    })
    .await;
}
