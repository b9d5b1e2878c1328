//! Pods with claims of three kinds: that of a domain, one of the user, and one that Grove shares.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};

use super::*;

/// The class of the other devices, of which each node has some.
const REQUEST: &str = "{devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}";

fn set_with_claims() -> String {
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm}}
spec:
  replicas: 1
  template:
    resourceClaimTemplates:
    - {{name: gpus, templateSpec: {{spec: {REQUEST}}}}}
    resourceSharing:
    - {{name: gpus, scope: AllReplicas}}
    cliques:
    - name: gpu
      spec:
        roleName: gpu
        replicas: 1
        podSpec:
          resourceClaims:
          - {{name: mine, resourceClaimTemplateName: mine}}
          containers:
          - {{name: main, image: registry.k8s.io/pause:3.10, resources: {{limits: {{nvidia.com/gpu: 1}}, claims: [{{name: mine}}]}}}}
          - {{name: sidecar, image: registry.k8s.io/pause:3.10}}
    - name: cpu
      spec: {{roleName: cpu, replicas: 1, podSpec: {{containers: [{{name: main, image: registry.k8s.io/pause:3.10}}]}}}}
"
    )
}

/// The claims of a pod, and then those of each container, by name.
fn claims(pod: &Pod) -> Vec<Vec<String>> {
    let spec = pod.spec.clone().unwrap_or_default();
    let of_pod = spec.resource_claims.into_iter().flatten().map(|claim| claim.name).collect();
    let of_container = |claims: Option<Vec<_>>| {
        claims.into_iter().flatten().map(|claim: k8s_openapi::api::core::v1::ResourceClaim| claim.name).collect()
    };
    let of_containers =
        spec.containers.into_iter().map(|container| of_container(container.resources.and_then(|it| it.claims)));
    std::iter::once(of_pod).chain(of_containers).collect()
}

pub(super) async fn three_kinds_of_claims_coexist(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-shared-claims").await;
    let template = format!("{{metadata: {{name: mine}}, spec: {{spec: {REQUEST}}}}}");
    fixture.ns.create_yaml::<ResourceClaimTemplate>(&template).await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set_with_claims()).await;
    let state = fixture.ns.wait_for_ready_pods("llm", 2).await;
    let pod = |clique: &str| {
        let of_clique = |pod: &&Pod| pod.labels()["grove.io/podclique"] == clique;
        state.pods_of("llm").find(of_clique).unwrap_or_else(|| panic!("no pod of {clique}"))
    };
    let (gpu, cpu) = (pod("llm-0-gpu"), pod("llm-0-cpu"));
    let all = ["mine", "mnnvl-claim", "llm-all-gpus"];
    assert_eq!(claims(gpu), [&all[..], &all, &all[2..]]);
    assert_eq!(claims(cpu), [&all[2..], &all[2..]]);
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    assert_eq!(node(gpu), node(cpu), "the pods share a device of one node");
    fixture.wait_for_domains(&["llm-0"]).await;
    an_update_keeps_domains_and_shared_claims(&fixture, &state).await;
    fixture.delete_last_set("llm").await;
}

/// The pods are new. The domain and the claim that they share stay, and each pod with a claim of its own has a new one.
async fn an_update_keeps_domains_and_shared_claims(fixture: &Fixture, before: &NamespaceState) {
    let domains = uids(fixture).await;
    let claims = fixture.ns.api::<ResourceClaim>();
    let shared = async || claims.get("llm-all-gpus").await.expect("the claim").uid();
    let claim = shared().await;
    let labels = |clique: usize| json!({ "op": "add", "path": format!("/spec/template/cliques/{clique}/labels"), "value": { "version": "new" } });
    let patch = Patch::Json::<()>(serde_json::from_value(json!([labels(0), labels(1)])).expect("a patch"));
    let patched = fixture.ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
    patched.expect("the template is patched");
    let has_ended = |state: &NamespaceState| {
        let progress = state.sets["llm"].status.as_ref().and_then(|status| status.update_progress.as_ref());
        progress.is_some_and(|progress| progress.update_ended_at.is_some()) && state.pods_of("llm").count() == 2
    };
    let after = fixture.ns.wait_for("the update has ended", has_ended).await;
    for pod in after.pods_of("llm") {
        assert_eq!(pod.labels()["version"], "new", "{}", pod.name_any());
        assert!(before.pods.values().all(|old| old.uid() != pod.uid()));
    }
    assert_eq!((uids(fixture).await, shared().await), (domains, claim), "the domain and the shared claim stay");
    let gpu = after.pods_of("llm").find(|pod| pod.labels()["grove.io/podclique"] == "llm-0-gpu").expect("the pod");
    let own = claims.list(&ListParams::default()).await.expect("the claims").items;
    let is_of_new =
        |claim: &ResourceClaim| claim.owner_references().iter().any(|owner| Some(&owner.uid) == gpu.uid().as_ref());
    assert!(own.iter().any(is_of_new), "the new pod has a claim of its own");
}
