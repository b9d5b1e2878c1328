//! The `ComputeDomain`s of sets, with the CRD of NVIDIA's DRA driver and a stand-in for the driver.

use std::collections::BTreeSet;

use e2e::compute_domains::{CRD_FILE, DRIVER_FINALIZER, DomainHistory, Driver, GROVE_FINALIZER, install_channels};
use e2e::kubectl::kubectl_on;
use e2e::namespace_state::is_ready;
use e2e::poll::poll_until;
use e2e::standalone::run_to_exit;
use e2e::{Namespace, NamespaceState, TestCluster, events};
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

mod deletion;
mod kills;
mod lifecycle;

const SERVICE: &str = "mnnvl-controller";
/// The nodes of the dev cluster: each has one channel, so that it runs one pod with a claim.
const NODES: &str = "12";

/// A set with a clique that requests GPUs, one that requests none, and a scaling group that requests GPUs.
fn set(name: &str, replicas: i32) -> String {
    let clique = |name: &str, resources: &str| {
        format!(
            "{{name: {name}, spec: {{roleName: {name}, replicas: 1, podSpec: {{containers: [{{name: main, \
             image: registry.k8s.io/pause:3.10, resources: {{{resources}}}}}]}}}}}}"
        )
    };
    let gpu = "limits: {nvidia.com/gpu: 1}";
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  template:
    cliques:
    - {}
    - {}
    - {}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [member]}}
",
        clique("gpu", gpu),
        clique("cpu", "requests: {cpu: 10m}"),
        clique("member", gpu)
    )
}

/// A namespace with a driver.
struct Fixture {
    ns: Namespace,
    domains: Api<ComputeDomain>,
    history: DomainHistory,
    _driver: Driver,
}

impl Fixture {
    async fn create(cluster: &TestCluster, name: &str) -> Self {
        Self::of(Namespace::create(&cluster.client().await, name).await).await
    }

    async fn of(ns: Namespace) -> Self {
        let history = DomainHistory::start(&ns).await;
        Self { domains: ns.api::<ComputeDomain>(), history, _driver: Driver::start(&ns), ns }
    }

    /// Checks the invariants after each event in the namespace.
    async fn check_history(&self) {
        assert!(self.history.check().await > 0, "no pod had a claim");
    }

    /// Waits until exactly these domains exist, and returns them.
    async fn wait_for_domains(&self, names: &[&str]) -> Vec<ComputeDomain> {
        let found = poll_until(async || {
            let domains = self.domains.list(&ListParams::default()).await.ok()?.items;
            domains.iter().map(ResourceExt::name_any).eq(names.iter().copied()).then_some(domains)
        });
        found.await
    }

    /// Waits until the domain satisfies the predicate.
    async fn wait_for_domain(&self, name: &str, holds: impl Fn(&ComputeDomain) -> bool) -> ComputeDomain {
        poll_until(async || self.domains.get_opt(name).await.ok()?.filter(|domain| holds(domain))).await
    }

    /// Waits until this many pods of the set are ready.
    async fn wait_for_ready_pods(&self, set: &str, count: usize) -> NamespaceState {
        let what = format!("{count} pods of {set} are ready");
        let ready = |state: &NamespaceState| pods_of(state, set).filter(|pod| is_ready(pod)).count();
        self.ns.wait_for(&what, |state| ready(state) == count && pods_of(state, set).count() == count).await
    }

    /// Waits until the condition of the set has this reason and a message with this text.
    async fn wait_for_condition(&self, set: &str, type_: &str, reason: &str, text: &str) {
        let what = format!("{set} has {type_} with {reason}: {text}");
        let holds = |state: &NamespaceState| {
            let status = state.sets.get(set).and_then(|set| set.status.as_ref());
            let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| {
                condition.type_ == type_ && condition.reason == reason && condition.message.contains(text)
            })
        };
        self.ns.wait_for(&what, holds).await;
    }

    /// Waits until a `ComputeDomainFailed` event about the set contains this text.
    async fn wait_for_failed_event(&self, set: &str, text: &str) {
        poll_until(async || {
            let events = self.ns.api::<Event>().list(&ListParams::default()).await.ok()?.items;
            notes(&events, set, "ComputeDomainFailed").iter().any(|note| note.contains(text)).then_some(())
        })
        .await;
    }

    async fn patch(&self, domain: &str, patch: &Value) {
        let patched = self.domains.patch(domain, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the domain is patched");
    }

    async fn delete_domain(&self, name: &str) {
        self.domains.delete(name, &DeleteParams::default()).await.expect("the domain is deleted");
    }
}

fn pods_of<'s>(state: &'s NamespaceState, set: &'s str) -> impl Iterator<Item = &'s Pod> {
    state.pods.values().filter(move |pod| pod.labels().get("app.kubernetes.io/part-of").is_some_and(|of| of == set))
}

/// The templates of the claims of a pod.
fn claim_templates(pod: &Pod) -> Vec<String> {
    let claims = pod.spec.as_ref().and_then(|spec| spec.resource_claims.clone()).unwrap_or_default();
    claims.into_iter().filter_map(|claim| claim.resource_claim_template_name).collect()
}

fn has_finalizer(domain: &ComputeDomain, finalizer: &str) -> bool {
    domain.finalizers().iter().any(|other| other == finalizer)
}

fn notes(events: &[Event], set: &str, reason: &str) -> Vec<String> {
    let about = events.iter().filter(|event| events::is_about(event, set, reason));
    about.filter_map(|event| event.note.clone()).collect()
}

/// The configuration of a dev cluster, outside of its folder, which does not exist yet. JSON is YAML.
fn configuration(name: &str, enabled: bool) -> String {
    let configuration = json!({ "apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration",
        "network": { "autoMNNVLEnabled": enabled } });
    let file = TestCluster::shared().dir().join(format!("{name}.yaml"));
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn compute_domains_follow_their_set() {
    let config = configuration("compute-domains", true);
    let flags = ["--config", &config, "--crd", CRD_FILE, "--nodes", NODES];
    let mut cluster = TestCluster::start_own_with("compute-domains", &flags).await;
    install_channels(&cluster.client().await).await;
    lifecycle::a_set_gets_its_domains_and_scales(&cluster).await;
    lifecycle::edits_are_restored(&cluster).await;
    lifecycle::a_foreign_object_and_a_quota_block_one_replica(&cluster).await;
    deletion::a_deleted_domain_stays_while_its_replica_uses_it(&cluster).await;
    deletion::deletions_of_a_set_release_its_domains(&cluster).await;
    an_unserved_kind_is_awaited(&cluster).await;
    // With the feature disabled, annotated sets are reconciled as before.
    let fixture = Fixture::create(&cluster, "e2e-domains-disabled").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set("old", 1)).await;
    fixture.wait_for_ready_pods("old", 3).await;
    let ns = fixture.ns.name.clone();
    drop(fixture);
    let config = configuration("compute-domains-disabled", false);
    cluster.up_with(&["--config", &config, "--crd", CRD_FILE, "--nodes", NODES]).await;
    a_disabled_feature_changes_no_annotated_set(&cluster, &ns).await;
    cluster.down().await;
}

/// The CRD is deleted while the service runs, and installed again.
async fn an_unserved_kind_is_awaited(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-unserved").await;
    kubectl_on(cluster, &["delete", "-f", CRD_FILE], "").await.expect("the CRD is deleted");
    fixture.ns.create_yaml::<PodCliqueSet>(&set("unserved", 1)).await;
    let crd = "computedomains.resource.nvidia.com";
    fixture.wait_for_condition("unserved", "ComputeDomainsCreated", "ComputeDomainsNotServed", crd).await;
    fixture.wait_for_condition("unserved", "Available", "ComputeDomainsPending", "unserved-0 does not exist").await;
    let state = fixture.ns.wait_for("the gang exists", |state| state.gangs.contains_key("unserved-0")).await;
    assert!(state.cliques.is_empty() && state.groups.is_empty(), "{state}");
    kubectl_on(cluster, &["apply", "-f", CRD_FILE], "").await.expect("the CRD is installed");
    fixture.wait_for_ready_pods("unserved", 3).await;
    fixture.ns.delete_object::<PodCliqueSet>("unserved").await;
    fixture.wait_for_domains(&[]).await;
}

async fn a_disabled_feature_changes_no_annotated_set(cluster: &TestCluster, namespace: &str) {
    let client = cluster.client().await;
    let fixture = Fixture::of(Namespace::attach(&client, namespace)).await;
    fixture.ns.scale::<PodCliqueSet>("old", 2).await;
    fixture.wait_for_ready_pods("old", 6).await;
    fixture.wait_for_domains(&["old-0", "old-1"]).await;
    fixture.patch("old-0", &json!({ "metadata": { "labels": { "app.kubernetes.io/name": "edited" } } })).await;
    fixture.wait_for_domain("old-0", |domain| domain.labels()["app.kubernetes.io/name"] == "old-0").await;
    // New sets get no annotation, and no domain.
    fixture.ns.create_yaml::<PodCliqueSet>(&set("new", 1)).await;
    let state = fixture.wait_for_ready_pods("new", 3).await;
    assert_eq!(state.sets["new"].annotations().get("grove.io/auto-mnnvl"), None);
    assert!(pods_of(&state, "new").all(|pod| claim_templates(pod).is_empty()), "{state}");
    fixture.ns.delete_object::<PodCliqueSet>("old").await;
    fixture.wait_for_domains(&[]).await;
    let cliques = fixture.ns.api::<PodClique>().list(&ListParams::default()).await.expect("the cliques").items;
    assert!(cliques.iter().all(|clique| clique.name_any().starts_with("new-")), "{cliques:?}");
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
