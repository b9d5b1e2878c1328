//! A change of the template does not restart pods: they keep running, the set reports them as outdated, and new pods get the
//! new template.

use e2e::{NamespaceState, fixtures, in_namespace, namespace_state::is_ready};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

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

fn decode_pods(state: &NamespaceState) -> Vec<&Pod> {
    let is_of = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|clique| clique == "llm-0-decode");
    state.active_pods().filter(is_of).collect()
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers[0].image.as_deref()
}

#[tokio::test]
async fn a_template_change_keeps_running_pods_and_reports_them_as_outdated() {
    in_namespace("e2e-outdated", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        let before =
            ns.wait_for("the set is available", |state| state.is_available("llm") && state.pods.len() == 5).await;
        assert_eq!(outdated_message(&before), None);
        let at = "/spec/template/cliques/2/spec/podSpec/containers/0/image";
        let change = json!([{ "op": "replace", "path": at, "value": "registry.k8s.io/pause:3.9" }]);
        let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
        let patched = ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
        patched.expect("the template is patched");
        let text = "pods of llm-0-decode were created from an older template";
        let state = ns
            .wait_for("the set reports outdated pods", |state| {
                outdated_message(state).is_some_and(|message| message.contains(text))
            })
            .await;
        let (were, are): (Vec<_>, Vec<_>) = (before.pods.keys().collect(), state.pods.keys().collect());
        assert_eq!(were, are, "every pod keeps running");
        assert!(!is_observed(&state), "the work of this generation is not done");
        for pod in decode_pods(&state) {
            ns.delete_object::<Pod>(&pod.name_any()).await;
        }
        ns.wait_for("the new pods have the new template, and the set reports no outdated pods", |state| {
            let decode = decode_pods(state);
            let is_new = |pod: &&Pod| is_ready(pod) && image(pod) == Some("registry.k8s.io/pause:3.9");
            decode.len() == 2 && decode.iter().all(is_new) && outdated_message(state).is_none() && is_observed(state)
        })
        .await;
    })
    .await;
}
