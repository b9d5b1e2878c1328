//! Two replicas of each service: one leads, the standby takes over, and no write is lost or duplicated.

use e2e::{Namespace, NamespaceState, TestCluster, fixtures};
use futures::StreamExt;
use futures::stream::BoxStream;
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "topology-controller"];
/// `leader-election.yaml` sets the prefix.
const LEASES: [&str; 3] = ["prod-pcs-controller", "prod-pclq-controller", "prod-topology-controller"];

/// No service has a write left, which a later leader would do.
fn is_settled(replicas: usize) -> impl Fn(&NamespaceState) -> bool {
    move |state| fixtures::three_cliques_are_ready(state, replicas) && state.status_is_current()
}

/// A lease and its changes from a watch.
struct WatchedLease {
    lease: &'static str,
    changes: BoxStream<'static, LeaseSpec>,
}

impl WatchedLease {
    fn start(client: &Client, lease: &'static str) -> Self {
        let leases = Api::<Lease>::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let config = watcher::Config::default().fields(&format!("metadata.name={lease}"));
        let leases = watcher(leases, config).default_backoff().applied_objects();
        let changes = leases.map(|lease| lease.expect("a watch").spec.expect("a spec")).boxed();
        Self { lease, changes }
    }

    /// Waits until `holds` is true for a holder, and returns all holders until then. The holder of a released lease is
    /// empty.
    async fn wait_for_holder(&mut self, holds: impl Fn(&str) -> bool) -> Vec<(String, LeaseSpec)> {
        let mut seen = Vec::new();
        let waiting = async {
            while let Some(spec) = self.changes.next().await {
                let holder = spec.holder_identity.clone().unwrap_or_default();
                let is_last = holds(&holder);
                seen.push((holder, spec));
                if is_last {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(e2e::namespace_state::TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "no expected holder of the lease {}: {seen:#?}", self.lease);
        seen
    }
}

/// Stops the leader and returns its successor. The leader releases the lease, so the successor does not wait for it to
/// expire.
async fn after_stop(cluster: &TestCluster, lease: &mut WatchedLease, leader: &str) -> String {
    cluster.send_sigterm(leader);
    let mut seen = lease.wait_for_holder(|holder| !holder.is_empty() && holder != leader).await;
    let (successor, acquired) = seen.pop().expect("the last holder");
    let (holder, released) = seen.pop().expect("the holder before");
    assert_eq!(holder, "", "{} was acquired without a release", lease.lease);
    let (released, acquired) = (released.renew_time.expect("a time").0, acquired.acquire_time.expect("a time").0);
    assert!(acquired.duration_since(released).as_secs() < 15, "released at {released}, acquired at {acquired}");
    successor
}

/// Waits until another replica acquires the lease of a killed or suspended leader, and returns that replica.
async fn after_expiry(lease: &mut WatchedLease, leader: &str) -> String {
    let (successor, _) = lease.wait_for_holder(|holder| holder != leader).await.pop().expect("the last holder");
    assert_ne!(successor, "", "{} was released", lease.lease);
    successor
}

/// The new leaders complete pending work and a new request, which only they can do.
async fn new_leaders_reconcile(ns: &Namespace) {
    ns.wait_for("the pending work is done", |state| {
        state.sets.get("llm").is_some_and(|set| usize::try_from(set.spec.replicas).is_ok_and(|n| is_settled(n)(state)))
    })
    .await;
    ns.scale::<PodCliqueSet>("llm", 4).await;
    ns.wait_for("four replicas are ready", is_settled(4)).await;
}

/// Takes long: twice a lease has to expire, because a killed or suspended leader does not release it.
#[tokio::test(flavor = "multi_thread")]
async fn the_standby_replica_takes_over_the_lease() {
    let config = format!("{}/tests/it/own_cluster/leader-election.yaml", env!("CARGO_MANIFEST_DIR"));
    let cluster = TestCluster::with_own_services("leader-election", &["--replicas", "2", "--config", &config]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-leader-election").await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set is ready", is_settled(1)).await;
    let mut leases = LEASES.map(|lease| WatchedLease::start(&client, lease));
    let mut leaders: [Vec<String>; 3] = Default::default();
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.extend(lease.wait_for_holder(|holder| !holder.is_empty()).await.pop().map(|(holder, _)| holder));
    }

    ns.scale::<PodCliqueSet>("llm", 3).await;
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(after_stop(&cluster, lease, &leaders[0]).await);
    }
    new_leaders_reconcile(&ns).await;

    // A killed leader does not release its lease.
    cluster.start_again().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for leaders in &leaders {
        cluster.kill(&leaders[1]).await;
    }
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(after_expiry(lease, &leaders[1]).await);
    }
    new_leaders_reconcile(&ns).await;

    // A suspended leader finds out that it lost the lease before it writes.
    cluster.start_again().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for leaders in &leaders {
        cluster.suspend(&leaders[2]);
    }
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(after_expiry(lease, &leaders[2]).await);
    }
    for leaders in &leaders {
        cluster.resume(&leaders[2]);
        cluster.wait_for_log(&leaders[2], &format!("was acquired by {}", leaders[3])).await;
    }
    new_leaders_reconcile(&ns).await;

    for (service, leaders) in SERVICES.iter().zip(leaders) {
        assert_eq!(cluster.audit_log().replicas_that_wrote(service), leaders, "each replica wrote only while it led");
    }
    cluster.down().await;
}

/// Removes the CA bundle from a webhook configuration, and waits until the leader restores it.
async fn ca_bundle_is_restored(client: &Client) {
    let name = "podcliqueset-validating-webhook";
    let all = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let bundle = |configuration: &ValidatingWebhookConfiguration| {
        let webhook = configuration.webhooks.as_ref().and_then(|webhooks| webhooks.first());
        webhook.and_then(|webhook| webhook.client_config.ca_bundle.clone())
    };
    let before = e2e::poll::poll_until(async || bundle(&all.get(name).await.expect("a configuration"))).await;
    let change = serde_json::json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
    all.patch(name, &PatchParams::default(), &patch).await.expect("the CA bundle is removed");
    let is_restored =
        move |found: Option<&ValidatingWebhookConfiguration>| found.and_then(bundle).as_ref() == Some(&before);
    let waited = tokio::time::timeout(e2e::namespace_state::TIMEOUT, await_condition(all, name, is_restored)).await;
    waited.expect("the CA bundle is restored").expect("a watch");
}

/// Both replicas serve reviews; only the leader writes.
/// It takes long because twice a lease has to expire.
#[tokio::test(flavor = "multi_thread")]
async fn the_standby_webhook_server_takes_over_certificate_rotation() {
    const SERVICE: &str = "webhook-server";
    let cluster = TestCluster::with_own_services("certificate-leader-election", &["--replicas", "2"]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-certificate-leader-election").await;
    let mut lease = WatchedLease::start(&client, SERVICE);
    let mut leaders =
        Vec::from_iter(lease.wait_for_holder(|holder| !holder.is_empty()).await.pop().map(|(holder, _)| holder));
    ca_bundle_is_restored(&client).await;

    leaders.push(after_stop(&cluster, &mut lease, &leaders[0]).await);
    ca_bundle_is_restored(&client).await;

    cluster.start_again().await;
    cluster.kill(&leaders[1]).await;
    leaders.push(after_expiry(&mut lease, &leaders[1]).await);
    ca_bundle_is_restored(&client).await;

    // A suspended leader finds out that it lost the lease before it writes.
    cluster.start_again().await;
    cluster.suspend(&leaders[2]);
    leaders.push(after_expiry(&mut lease, &leaders[2]).await);
    ca_bundle_is_restored(&client).await;
    cluster.resume(&leaders[2]);
    cluster.wait_for_log(&leaders[2], &format!("was acquired by {}", leaders[3])).await;
    ca_bundle_is_restored(&client).await;

    ns.wait_until_admitted(&fixtures::three_cliques("llm", 1)).await;
    assert_eq!(cluster.audit_log().replicas_that_wrote(SERVICE), leaders, "each replica wrote only while it led");
    cluster.down().await;
}
