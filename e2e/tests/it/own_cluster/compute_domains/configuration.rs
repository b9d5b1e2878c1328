//! The feature is enabled or disabled, and the kind served or not.

use super::*;

/// The CRD is deleted while the service runs, and installed again.
pub(super) async fn an_unserved_kind_is_awaited(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-unserved").await;
    kubectl_on(cluster, &["delete", "-f", CRD_FILE], "").await.expect("the CRD is deleted");
    fixture.ns.create_yaml::<PodCliqueSet>(&set("unserved", 1)).await;
    let crd = "computedomains.resource.nvidia.com";
    fixture.ns.wait_for_condition("unserved", "ComputeDomainsCreated", "ComputeDomainsNotServed", crd).await;
    fixture.ns.wait_for_condition("unserved", "Available", "ComputeDomainsPending", "unserved-0 does not exist").await;
    let state = fixture.ns.wait_for("the gang exists", |state| state.gangs.contains_key("unserved-0")).await;
    assert!(state.cliques.is_empty() && state.groups.is_empty(), "{state}");
    kubectl_on(cluster, &["apply", "-f", CRD_FILE], "").await.expect("the CRD is installed");
    fixture.wait_for_ready_replicas("unserved", 1).await;
    fixture.ns.delete_object::<PodCliqueSet>("unserved").await;
    // The watch of the history missed the first events of the domain, because it started again after the CRD was installed.
    fixture.wait_for_domains(&[]).await;
}

/// With the feature disabled, sets with the annotation are reconciled as before, and new sets get no annotation. Enabled again, the feature
/// concerns new sets only.
pub(super) async fn a_disabled_feature_changes_no_annotated_set(cluster: &mut TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-disabled").await;
    fixture.create_set("old", 1).await;
    restart_with(cluster, "disabled", false).await;
    a_set_with_the_annotation_is_reconciled(&fixture).await;
    uses_no_domain(&fixture.create_set("new", 1).await, "new");
    fixture.ns.delete_object::<PodCliqueSet>("old").await;
    fixture.wait_for_domains(&[]).await;
    let are_of_new = |state: &NamespaceState| state.cliques.keys().all(|name| name.starts_with("new-"));
    fixture.ns.wait_for("the cliques of the deleted set are deleted", are_of_new).await;
    restart_with(cluster, "enabled-again", true).await;
    fixture.create_set("newer", 1).await;
    uses_no_domain(&fixture.scale_set("new", 2).await, "new");
    fixture.wait_for_domains(&["newer-0"]).await;
    fixture.delete_last_set("newer").await;
}

async fn restart_with(cluster: &mut TestCluster, name: &str, enabled: bool) {
    let config = configuration(&format!("compute-domains-{name}"), enabled);
    cluster.up_with(&["--config", &config, "--crd", CRD_FILE, "--nodes", NODES]).await;
}

/// It is scaled, and its domain restored.
async fn a_set_with_the_annotation_is_reconciled(fixture: &Fixture) {
    fixture.scale_set("old", 2).await;
    fixture.wait_for_domains(&["old-0", "old-1"]).await;
    fixture.patch("old-0", &json!({ "metadata": { "labels": { "app.kubernetes.io/name": "edited" } } })).await;
    fixture.wait_for_domain("old-0", |domain| domain.labels()["app.kubernetes.io/name"] == "old-0").await;
}

fn uses_no_domain(state: &NamespaceState, set: &str) {
    assert_eq!(state.sets[set].annotations().get("grove.io/auto-mnnvl"), None);
    assert!(state.pods_of(set).all(|pod| claim_templates(pod).is_empty()), "{state}");
}

/// Three pods with one GPU each share the only node that they may use: for a set that does not span nodes, the configuration enables no domain.
/// With a domain only one of them runs, and the condition of the clique names the cause.
pub(super) async fn small_pods_share_a_node(cluster: &mut TestCluster) {
    let fields = json!({ "network": { "autoMNNVLEnabled": true, "autoMNNVLScope": "multiNode" } });
    let config = configuration_with("compute-domains-multi-node", fields);
    cluster.up_with(&["--config", &config, "--crd", CRD_FILE, "--nodes", NODES]).await;
    let fixture = Fixture::create(cluster, "e2e-domains-small").await;
    let node = Api::<Node>::all(fixture.ns.client.clone()).list(&ListParams::default().limit(1)).await.expect("a node");
    let node = node.items[0].name_any();
    let set = |metadata: Value, replicas: i32, placement: Value| {
        let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10",
            "resources": { "limits": { "nvidia.com/gpu": 1 } } });
        let mut pod = json!({ "containers": [container] });
        json_patch::merge(&mut pod, &placement);
        let spec = json!({ "roleName": "w", "replicas": replicas, "minAvailable": 1, "podSpec": pod });
        let clique = json!({ "name": "w", "spec": spec });
        json!({ "metadata": metadata, "spec": { "replicas": 1, "template": { "cliques": [clique] } } }).to_string()
    };
    let on_node = json!({ "nodeSelector": { "kubernetes.io/hostname": node } });
    fixture.ns.create_yaml::<PodCliqueSet>(&set(json!({ "name": "small" }), 3, on_node.clone())).await;
    uses_no_domain(&fixture.ns.wait_for_ready_pods("small", 3).await, "small");
    let metadata = json!({ "name": "opted-in", "annotations": { "grove.io/auto-mnnvl": "enabled" } });
    fixture.ns.create_yaml::<PodCliqueSet>(&set(metadata, 3, on_node)).await;
    let channel = "a node has one IMEX channel, so it runs one pod with the claim mnnvl-claim";
    let names_channel = |state: &NamespaceState| {
        let conditions = state.cliques.get("opted-in-0-w").and_then(|clique| clique.status.as_ref());
        let mut messages =
            conditions.into_iter().flat_map(|status| &status.conditions).map(|condition| &condition.message);
        messages.any(|text| text.starts_with("1 of 3 pods ready, 2 not scheduled") && text.contains(channel))
    };
    fixture.ns.wait_for("the condition names the channel", names_channel).await;
    fixture.delete_last_set("opted-in").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set(json!({ "name": "large" }), 9, json!({}))).await;
    let state = fixture.ns.wait_for_ready_pods("large", 9).await;
    assert!(state.pods_of("large").all(|pod| claim_templates(pod) == ["large-0"]), "{state}");
    fixture.delete_last_set("large").await;
}

/// Without the feature and without the kind, the same set runs without domains, and mnnvl-controller does not read the pods.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_gpus_runs_without_the_feature_and_without_the_kind() {
    e2e::in_namespace("e2e-domains-off", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&set("llm", 1)).await;
        let are_ready = |state: &NamespaceState| state.pods.len() == 3 && state.pods.values().all(is_ready);
        uses_no_domain(&ns.wait_for("all pods are ready", are_ready).await, "llm");
        let samples = metrics::scrape(&TestCluster::shared(), SERVICE).await;
        let is_listed = |kind: &str| samples.contains_key(&format!("reflector_lists_total{{kind=\"{kind}\"}}"));
        assert_eq!(["PodCliqueSet", "PodClique", "Pod"].map(is_listed), [true, false, false], "{samples:?}");
    })
    .await;
}

/// Without the kind, only the enabled feature ends the process.
#[tokio::test(flavor = "multi_thread")]
async fn an_enabled_feature_needs_the_kind_at_the_start() {
    let kubeconfig = TestCluster::shared().dir().join("admin.kubeconfig").display().to_string();
    let config = configuration("compute-domains-without-kind", true);
    let flags = ["--kubeconfig", &kubeconfig, "--config", &config].map(str::to_owned);
    let ports = ["--probe-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"].map(str::to_owned);
    let output = run_to_exit(SERVICE, &[flags.as_slice(), &ports].concat()).await;
    let log = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{log}");
    for text in ["computedomains.resource.nvidia.com", "install NVIDIA's DRA driver", "network.autoMNNVLEnabled"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}
