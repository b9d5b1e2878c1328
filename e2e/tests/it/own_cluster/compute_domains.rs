//! The `ComputeDomain`s of sets, with the CRD of NVIDIA's DRA driver and a stand-in for the driver.

use std::collections::BTreeSet;

use e2e::compute_domains::{CRD_FILE, DRIVER_FINALIZER, DomainHistory, Driver, GROVE_FINALIZER, install_channels};
use e2e::kubectl::kubectl_on;
use e2e::metrics;
use e2e::namespace_state::is_ready;
use e2e::poll::poll_until;
use e2e::standalone::run_to_exit;
use e2e::{Namespace, NamespaceState, TestCluster, events, propagation};
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{POD_CLIQUE, SET_REPLICA};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::devices::GPUS;
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

mod configuration;
mod deletion;
mod example;
mod groups;
mod kills;
mod lifecycle;
mod shared_claims;
mod stops;

const SERVICE: &str = "mnnvl-controller";
/// The nodes of the dev cluster: each has one channel, so that it runs one pod with a claim.
const NODES: &str = "64";

/// A set with a clique that requests GPUs, one that requests none, and a scaling group that requests GPUs. Its pods take two seconds to end.
pub(super) fn set(name: &str, replicas: i32) -> String {
    let clique = |name: &str, resources: &str| {
        format!(
            "{{name: {name}, annotations: {{test.grove.io/behaviour: graceful-stop}}, spec: {{roleName: {name}, replicas: 1, \
             podSpec: {{terminationGracePeriodSeconds: 2, containers: [{{name: main, image: registry.k8s.io/pause:3.10, \
             resources: {{{resources}}}}}]}}}}}}"
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

    /// Creates a set as of [`set`], and waits until its pods are ready.
    async fn create_set(&self, name: &str, replicas: i32) -> NamespaceState {
        self.ns.create_yaml::<PodCliqueSet>(&set(name, replicas)).await;
        self.wait_for_ready_replicas(name, replicas).await
    }

    /// Scales a set as of [`set`], and waits until its pods are ready.
    async fn scale_set(&self, name: &str, replicas: i32) -> NamespaceState {
        self.ns.scale::<PodCliqueSet>(name, replicas).await;
        self.wait_for_ready_replicas(name, replicas).await
    }

    async fn wait_for_ready_replicas(&self, set: &str, replicas: i32) -> NamespaceState {
        self.ns.wait_for_ready_pods(set, 3 * usize::try_from(replicas).expect("a small number")).await
    }

    /// Deletes the last set of the namespace, waits until it has no domain, and checks the invariants.
    async fn delete_last_set(&self, name: &str) {
        self.ns.delete_object::<PodCliqueSet>(name).await;
        self.wait_for_domains(&[]).await;
        self.check_history().await;
    }

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

    async fn patch(&self, domain: &str, patch: &Value) {
        let patched = self.domains.patch(domain, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the domain is patched");
    }

    /// Deletes a domain as a user does.
    async fn delete_domain(&self, name: &str) {
        self.history.expect_deletion(name);
        self.domains.delete(name, &DeleteParams::default()).await.expect("the domain is deleted");
    }
}

/// The templates of the claims of a pod.
fn claim_templates(pod: &Pod) -> Vec<String> {
    let claims = pod.spec.as_ref().and_then(|spec| spec.resource_claims.clone()).unwrap_or_default();
    claims.into_iter().filter_map(|claim| claim.resource_claim_template_name).collect()
}

fn has_finalizer(domain: &ComputeDomain, finalizer: &str) -> bool {
    domain.finalizers().iter().any(|other| other == finalizer)
}

async fn uids(fixture: &Fixture) -> BTreeSet<String> {
    let domains = fixture.domains.list(&ListParams::default()).await.expect("the domains").items;
    domains.iter().filter_map(ResourceExt::uid).collect()
}

/// Each pod with a claim has a node of its own, because a node has one channel.
fn no_two_domains_share_a_node<'s>(states: impl IntoIterator<Item = &'s NamespaceState>) {
    let pods = states.into_iter().flat_map(|state| state.pods.values());
    let with_claim = pods.filter(|pod| !claim_templates(pod).is_empty());
    let nodes: Vec<_> = with_claim.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    let distinct: BTreeSet<_> = nodes.iter().collect();
    assert!(!nodes.is_empty() && distinct.len() == nodes.len(), "{nodes:?}");
}

/// The file of a configuration that enables or disables the feature.
pub(super) fn configuration(name: &str, enabled: bool) -> String {
    configuration_with(name, json!({ "network": { "autoMNNVLEnabled": enabled } }))
}

/// Writes the configuration of a dev cluster with these fields. The file is beside the folders of the dev clusters, because neither that of
/// this cluster nor, in a soak test, that of the shared one exists yet. JSON is YAML.
pub(super) fn configuration_with(name: &str, mut fields: Value) -> String {
    fields["apiVersion"] = json!("operator.config.grove.io/v1alpha1");
    fields["kind"] = json!("OperatorConfiguration");
    let file = TestCluster::shared().dir().with_extension(format!("{name}.yaml"));
    std::fs::write(&file, fields.to_string()).expect("the configuration is written");
    file.display().to_string()
}

/// Takes minutes: 18 cases share the services, instead of a start for each. The second half stops services or changes their configuration, so
/// its cases run in turn, and in all of them pods take seconds to end, as with the driver.
#[tokio::test(flavor = "multi_thread")]
async fn compute_domains_follow_their_set() {
    let config = configuration("compute-domains", true);
    let flags = ["--config", &config, "--crd", CRD_FILE, "--nodes", NODES];
    let mut cluster = TestCluster::with_own_services("compute-domains", &flags).await;
    let client = cluster.client().await;
    install_channels(&client).await;
    GPUS.install(&client, 2).await.expect("the devices are created");
    // These share the services, and each has a namespace of its own.
    tokio::join!(
        lifecycle::a_set_gets_its_domains_and_scales(&cluster),
        lifecycle::a_replica_returns_while_its_pods_terminate(&cluster),
        lifecycle::two_sets_share_no_node(&cluster),
        lifecycle::a_foreign_object_and_a_quota_block_one_replica(&cluster),
        groups::each_mnnvl_group_has_a_domain(&cluster),
        example::the_workers_of_the_example_share_a_domain(&cluster),
        shared_claims::three_kinds_of_claims_coexist(&cluster),
        deletion::deletions_in_each_order_leave_no_domain(&cluster),
        deletion::deletions_of_a_set_delete_its_domains(&cluster),
        deletion::the_pods_of_a_deleted_domain_wait_for_the_next_one(&cluster),
    );
    // These stop services, or change their configuration.
    deletion::a_deleted_domain_is_followed_before_the_next_cliques(&cluster).await;
    stops::edits_are_restored(&cluster).await;
    stops::a_finalizer_of_a_later_version_protects_no_domain(&cluster).await;
    stops::a_replica_that_returns_keeps_its_domain(&cluster).await;
    stops::each_step_completes_after_a_stop(&cluster).await;
    configuration::an_unserved_kind_is_awaited(&cluster).await;
    configuration::a_disabled_feature_changes_no_annotated_set(&mut cluster).await;
    configuration::small_pods_share_a_node(&mut cluster).await;
    cluster.down().await;
}
