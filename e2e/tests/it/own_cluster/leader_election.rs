//! Several replicas of each service: one acts, another takes over, and nothing is lost or done twice.

use e2e::{Namespace, Plane, World, audit, sets};
use futures::StreamExt;
use futures::stream::BoxStream;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];
/// With the prefix of `leader-election.yaml`.
const LEASES: [&str; 2] = ["prod-pcs-controller", "prod-pclq-controller"];

fn serves(replicas: usize) -> impl Fn(&World) -> bool {
    move |world| sets::three_cliques_serve(world, replicas)
}

/// One lease, as its watch tells it.
struct Watched {
    lease: &'static str,
    changes: BoxStream<'static, LeaseSpec>,
}

impl Watched {
    fn start(client: &Client, lease: &'static str) -> Self {
        let leases = Api::<Lease>::namespaced(client.clone(), "grove-system");
        let config = watcher::Config::default().fields(&format!("metadata.name={lease}"));
        let leases = watcher(leases, config).default_backoff().applied_objects();
        let changes = leases.map(|lease| lease.expect("a watch").spec.expect("a spec")).boxed();
        Self { lease, changes }
    }

    /// The holders from now on until one of them is as `holds` says; nobody is the empty name.
    async fn until(&mut self, holds: impl Fn(&str) -> bool) -> Vec<(String, LeaseSpec)> {
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
        let waited = tokio::time::timeout(e2e::world::LIMIT, waiting).await;
        assert!(waited.is_ok(), "nobody took the lease {}: {seen:#?}", self.lease);
        seen
    }
}

/// Asks the leader to stop, and returns who follows. The lease is released, so nobody waits for it to expire.
async fn stopped(plane: &Plane, lease: &mut Watched, leader: &str) -> String {
    plane.stop(leader).await;
    let mut seen = lease.until(|holder| !holder.is_empty() && holder != leader).await;
    let (follower, taken) = seen.pop().expect("the last one");
    let (holder, released) = seen.pop().expect("the one before");
    assert_eq!(holder, "", "{} was taken without a release", lease.lease);
    let (released, taken) = (released.renew_time.expect("a time").0, taken.acquire_time.expect("a time").0);
    assert!(taken.duration_since(released).as_secs() < 15, "released at {released}, taken at {taken}");
    follower
}

/// Waits until the lease of a leader that says nothing more is taken by another, and returns that.
async fn expired(lease: &mut Watched, leader: &str) -> String {
    let (follower, _) = lease.until(|holder| holder != leader).await.pop().expect("the last one");
    assert_ne!(follower, "", "{} was released", lease.lease);
    follower
}

/// What was begun is finished, and what is asked for now nobody else can have done.
async fn the_new_leaders_act(ns: &Namespace) {
    ns.until("what was begun is finished", |world| {
        world.sets.get("llm").is_some_and(|set| usize::try_from(set.spec.replicas).is_ok_and(|n| serves(n)(world)))
    })
    .await;
    ns.scale::<PodCliqueSet>("llm", 4).await;
    ns.until("four replicas serve", serves(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_replica_takes_over_the_lease() {
    let config = format!("{}/tests/it/own_cluster/leader-election.yaml", env!("CARGO_MANIFEST_DIR"));
    let plane = Plane::own_with("leaders", &["--replicas", "2", "--config", &config]).await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-leaders").await;
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("the set serves", serves(1)).await;
    let mut leases = LEASES.map(|lease| Watched::start(&client, lease));
    let mut leaders: [Vec<String>; 2] = Default::default();
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.extend(lease.until(|holder| !holder.is_empty()).await.pop().map(|(holder, _)| holder));
    }

    ns.scale::<PodCliqueSet>("llm", 3).await;
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(stopped(&plane, lease, &leaders[0]).await);
    }
    the_new_leaders_act(&ns).await;

    // Who is killed releases nothing; its lease expires.
    plane.up().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for leaders in &leaders {
        plane.kill(&leaders[1]).await;
    }
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(expired(lease, &leaders[1]).await);
    }
    the_new_leaders_act(&ns).await;

    // Who stood still while another took over hears of it before it writes.
    plane.up().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    for leaders in &leaders {
        plane.freeze(&leaders[2]).await;
    }
    for (lease, leaders) in leases.iter_mut().zip(&mut leaders) {
        leaders.push(expired(lease, &leaders[2]).await);
    }
    for leaders in &leaders {
        plane.thaw(&leaders[2]).await;
        plane.until_logged(&leaders[2], &format!("was acquired by {}", leaders[3])).await;
    }
    the_new_leaders_act(&ns).await;

    for (service, leaders) in SERVICES.iter().zip(leaders) {
        assert_eq!(audit::replicas_that_wrote(plane.dir(), service), leaders, "each wrote only while it led");
    }
    plane.down().await;
}

/// Takes from the API server whom it trusts, and waits until it is told again.
async fn trusted_again(client: &Client) {
    let name = "podcliqueset-validating-webhook";
    let all = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let bundle = |configuration: &ValidatingWebhookConfiguration| {
        let webhook = configuration.webhooks.as_ref().and_then(|webhooks| webhooks.first());
        webhook.and_then(|webhook| webhook.client_config.ca_bundle.clone())
    };
    let before = e2e::plane::until_said(async || bundle(&all.get(name).await.expect("a configuration"))).await;
    let change = serde_json::json!([{ "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" }]);
    let patch = Patch::Json::<()>(serde_json::from_value(change).expect("a patch"));
    all.patch(name, &PatchParams::default(), &patch).await.expect("it is forgotten");
    let is_back =
        move |found: Option<&ValidatingWebhookConfiguration>| found.and_then(bundle).as_ref() == Some(&before);
    let waited = tokio::time::timeout(e2e::world::LIMIT, await_condition(all, name, is_back)).await;
    waited.expect("somebody tells the API server").expect("a watch");
}

/// All of them answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_standby_webhook_server_takes_over_certificate_rotation() {
    const SERVICE: &str = "webhook-server";
    let plane = Plane::own_with("certificate-leaders", &["--replicas", "2"]).await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-certificate-leaders").await;
    let mut lease = Watched::start(&client, SERVICE);
    let mut leaders = Vec::from_iter(lease.until(|holder| !holder.is_empty()).await.pop().map(|(holder, _)| holder));
    trusted_again(&client).await;

    leaders.push(stopped(&plane, &mut lease, &leaders[0]).await);
    trusted_again(&client).await;

    plane.up().await;
    plane.kill(&leaders[1]).await;
    leaders.push(expired(&mut lease, &leaders[1]).await);
    trusted_again(&client).await;

    // Who stood still while another took over hears of it before it writes.
    plane.up().await;
    plane.freeze(&leaders[2]).await;
    leaders.push(expired(&mut lease, &leaders[2]).await);
    trusted_again(&client).await;
    plane.thaw(&leaders[2]).await;
    plane.until_logged(&leaders[2], &format!("was acquired by {}", leaders[3])).await;
    trusted_again(&client).await;

    ns.until_admitted(&sets::three_cliques("llm", 1)).await;
    assert_eq!(audit::replicas_that_wrote(plane.dir(), SERVICE), leaders, "each wrote only while it led");
    plane.down().await;
}
