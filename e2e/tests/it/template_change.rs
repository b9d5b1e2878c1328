//! A change of the template does not restart pods: they keep running, the set reports them as outdated, and new pods get the
//! new template.

use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_ready};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const NEW_IMAGE: &str = "registry.k8s.io/pause:3.9";

/// The message of the condition `PodsOutdated`, if it is true.
fn outdated_message(state: &NamespaceState) -> Option<String> {
    let status = state.sets.get("llm")?.status.as_ref()?;
    let condition =
        status.conditions.iter().find(|condition| condition.type_ == "PodsOutdated" && condition.status == "True");
    condition.map(|condition| condition.message.clone())
}

/// Whether `status.observedGeneration` of the set is its generation.
fn is_observed(state: &NamespaceState) -> bool {
    let set = &state.sets["llm"];
    set.status.as_ref().and_then(|status| status.observed_generation) == set.metadata.generation
}

/// The pods of the cliques whose names end with this.
fn pods_of<'a>(state: &'a NamespaceState, clique: &str) -> Vec<&'a Pod> {
    let is_of = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name.ends_with(clique));
    state.active_pods().filter(is_of).collect()
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers[0].image.as_deref()
}

/// Changes the image of the clique at this position of the template.
async fn change_image(ns: &Namespace, clique: usize) {
    let at = format!("/spec/template/cliques/{clique}/spec/podSpec/containers/0/image");
    let change = json!([{ "op": "replace", "path": at, "value": NEW_IMAGE }]);
    let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
    let patched = ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
    patched.expect("the template is patched");
}

/// Deletes the outdated pods, and waits until their successors are ready and the set has observed its generation.
async fn replace_pods(ns: &Namespace, state: &NamespaceState, clique: &str, count: usize) {
    for pod in pods_of(state, clique) {
        ns.delete_object::<Pod>(&pod.name_any()).await;
    }
    ns.wait_for("the new pods have the new template, and the set reports no outdated pods", |state| {
        let pods = pods_of(state, clique);
        let is_new = |pod: &&Pod| is_ready(pod) && image(pod) == Some(NEW_IMAGE);
        pods.len() == count && pods.iter().all(is_new) && outdated_message(state).is_none() && is_observed(state)
    })
    .await;
}

/// Changes a template, and deletes the outdated pods. `outdated` is the clique or the group that the set reports.
async fn a_change_keeps_pods_until_they_are_deleted(ns: &Namespace, (at, clique): (usize, &str), outdated: &str) {
    let is_available = |state: &NamespaceState| state.is_available("llm") && state.status_is_current();
    let before = ns.wait_for("the set is available", is_available).await;
    assert_eq!(outdated_message(&before), None);
    change_image(ns, at).await;
    let text = format!("pods of {outdated} were created from an older template");
    let is_outdated = |state: &NamespaceState| outdated_message(state).is_some_and(|message| message.contains(&text));
    let state = ns.wait_for("the set reports outdated pods", is_outdated).await;
    let (were, are): (Vec<_>, Vec<_>) = (before.pods.keys().collect(), state.pods.keys().collect());
    assert_eq!(were, are, "every pod keeps running");
    assert!(!is_observed(&state), "the work of this generation is not done");
    replace_pods(ns, &state, clique, pods_of(&before, clique).len()).await;
}

#[tokio::test]
async fn a_template_change_keeps_running_pods_and_reports_them_as_outdated() {
    in_namespace("e2e-outdated", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        a_change_keeps_pods_until_they_are_deleted(ns, (2, "-decode"), "llm-0-decode").await;
    })
    .await;
}

#[tokio::test]
async fn a_template_change_of_a_group_is_observed_after_its_pods_are_new() {
    in_namespace("e2e-outdated-group", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("llm", 1, "")).await;
        a_change_keeps_pods_until_they_are_deleted(ns, (1, "-p"), "llm-0-g").await;
    })
    .await;
}
