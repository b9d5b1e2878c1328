//! A set that was stored without webhook-server: a change of `replicas` in its template leaves the default minima of existing
//! cliques, gangs and autoscalers, because it does not change their replicas either.

use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

/// A set without minima.
const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: m}
spec:
  replicas: 1
  template:
    cliques:
    - name: f
      spec:
        roleName: f
        replicas: 3
        autoScalingConfig: {maxReplicas: 9}
        podSpec: {containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 10m}}}]}
    - name: p
      spec:
        roleName: p
        replicas: 2
        podSpec: {containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: 10m}}}]}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [p], replicas: 2, minAvailable: 1}
";

/// The minima of the first replica of the set: those of its cliques, of its gangs, and of its autoscalers.
fn minima(state: &NamespaceState) -> Vec<(String, Option<i32>)> {
    let cliques = state.cliques.iter().map(|(name, clique)| (format!("clique {name}"), clique.spec.min_available));
    let groups = state.gangs.iter().flat_map(|(gang, object)| {
        let group = move |group: &grove_api_types::scheduler_v1alpha1::GangPodGroup| {
            (format!("{gang}: {}", group.name), Some(group.min_replicas))
        };
        object.spec.podgroups.iter().map(group)
    });
    let autoscalers =
        state.autoscalers.iter().map(|(name, autoscaler)| (format!("autoscaler {name}"), autoscaler.spec.min_replicas));
    let all = cliques.chain(groups).chain(autoscalers);
    all.filter(|(name, _)| name.contains("m-0")).collect()
}

/// Waits until the API server no longer calls the webhook that sets defaults.
async fn wait_until_not_defaulted(ns: &Namespace) {
    let set: PodCliqueSet = serde_saphyr::from_str(SET).expect("a set");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    poll_until(async || {
        let set = ns.api().create(&dry, &set).await.expect("an accepted dry run");
        set.spec.template.cliques[0].spec.min_available.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_replicas_of_a_template_leave_the_default_minima_of_existing_objects() {
    let cluster = TestCluster::with_own_services("default-minima", &[]).await;
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    kubectl_on(&cluster, &["delete", kinds, "--all"], "").await.expect("the webhook configurations are deleted");
    let ns = Namespace::create(&cluster.client().await, "e2e-default-minima").await;
    wait_until_not_defaulted(&ns).await;
    ns.create_yaml::<PodCliqueSet>(SET).await;
    let before =
        minima(&ns.wait_for("the set is available", |state| state.is_available("m") && state.pods.len() == 7).await);
    assert!(before.contains(&("clique m-0-f".to_owned(), Some(3))), "{before:?}");
    assert!(before.contains(&("m-0: m-0-g-0-p".to_owned(), Some(2))), "{before:?}");
    for (f, p) in [(5, 4), (2, 1)] {
        let replicas = |clique: usize, replicas: i32| {
            let path = format!("/spec/template/cliques/{clique}/spec/replicas");
            json!({ "op": "replace", "path": path, "value": replicas })
        };
        let change = serde_json::from_value(json!([replicas(0, f), replicas(1, p)])).expect("a patch");
        let patched = ns.api::<PodCliqueSet>().patch("m", &PatchParams::default(), &Patch::Json::<()>(change)).await;
        patched.expect("the template is patched");
        let state = ns.wait_for("the set is reconciled", |state| state.is_available("m")).await;
        assert_eq!(minima(&state), before, "{state}");
        assert_eq!(state.pods.len(), 7, "{state}");
    }
    // New cliques follow the template.
    ns.scale::<PodCliqueSet>("m", 2).await;
    let state =
        ns.wait_for("two replicas are available", |state| state.is_available("m") && state.pods.len() == 11).await;
    assert_eq!(state.cliques["m-1-f"].spec.min_available, Some(2));
    assert_eq!(minima(&state), before, "{state}");
    cluster.down().await;
}
