//! The wall clocks of the services jump forward and backward, each by itself. No replica loses or acquires a lease because
//! of it, and reconciliation continues. The times that the services write follow their clocks.

use grove_api_types::SYSTEM_NAMESPACE;
use std::os::unix::fs::FileExt;

use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, namespace_state::is_ready};
use futures::future::join_all;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];
const HOUR: i64 = 3600;
/// Lease renewals that the test awaits after a jump.
const RENEWALS: usize = 8;

/// A replica with an adjustable wall clock.
struct ReplicaWithClock {
    name: String,
    /// The process is killed with this value.
    _replica: ServiceReplica,
    clock: std::fs::File,
}

impl ReplicaWithClock {
    async fn take_over(cluster: &TestCluster, name: String, library: &str) -> Self {
        let path = cluster.dir().join(format!("{name}.clock"));
        std::fs::write(&path, 0_i64.to_ne_bytes()).expect("the clock file");
        let (preload, clock_file) = (format!("LD_PRELOAD={library}"), format!("WALL_CLOCK={}", path.display()));
        let replica = ServiceReplica::take_over_with_wrapper(cluster, &name, &["env", &preload, &clock_file]).await;
        let clock = std::fs::File::options().write(true).open(path).expect("the clock file");
        Self { name, _replica: replica, clock }
    }

    /// Sets the offset of the clock from the machine's clock, in seconds.
    fn set_offset(&self, seconds: i64) {
        self.clock.write_all_at(&seconds.to_ne_bytes(), 0).expect("the clock is set");
    }
}

/// Compiles `clock.c`. The cryptography library of the services needs a C compiler, too.
async fn compile_clock(cluster: &TestCluster) -> String {
    let (source, library) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/own_cluster/clock_skew/clock.c"), "clock.so");
    let library = cluster.dir().join(library).display().to_string();
    let mut compiler = tokio::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", &library, source]).kill_on_drop(true);
    let output = compiler.output().await.expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), SYSTEM_NAMESPACE)
}

async fn lease(client: &Client, service: &str) -> LeaseSpec {
    leases(client).get(service).await.expect("a lease").spec.expect("a spec")
}

fn seconds(spec: &LeaseSpec) -> i64 {
    spec.renew_time.as_ref().expect("a time").0.as_second()
}

fn holder(spec: &LeaseSpec) -> (Option<&str>, Option<i32>) {
    (spec.holder_identity.as_deref(), spec.lease_transitions)
}

/// The lease after [`RENEWALS`] renewals. Fails if the holder changes.
async fn after_renewals(client: &Client, service: &str) -> LeaseSpec {
    let mut last = lease(client, service).await;
    for _ in 0..RENEWALS {
        let seen = last.renew_time.clone();
        let is_renewed = |lease: Option<&Lease>| {
            lease.and_then(|lease| lease.spec.as_ref()).is_some_and(|spec| spec.renew_time != seen)
        };
        let waited = await_condition(leases(client), service, is_renewed);
        let found =
            tokio::time::timeout(e2e::namespace_state::TIMEOUT, waited).await.expect("a renewal").expect("a watch");
        let spec = found.and_then(|lease| lease.spec).expect("a spec");
        assert_eq!(holder(&spec), holder(&last), "the holder of the lease {service} changed");
        last = spec;
    }
    last
}

/// The leader and the standby replica of a service.
async fn roles<'a>(
    client: &Client,
    service: &str,
    all: &'a [ReplicaWithClock],
) -> (&'a ReplicaWithClock, &'a ReplicaWithClock) {
    let is_held =
        |lease: Option<&Lease>| lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_ref()).is_some();
    let waited =
        tokio::time::timeout(e2e::namespace_state::TIMEOUT, await_condition(leases(client), service, is_held)).await;
    waited.expect("a leader").expect("a watch");
    let holder = lease(client, service).await.holder_identity.expect("a holder");
    let of_service = all.iter().filter(|one| one.name.trim_end_matches("-1") == service);
    let (leader, standby): (Vec<_>, Vec<_>) = of_service.partition(|one| one.name == holder);
    (leader[0], standby[0])
}

/// The service issues a new certificate with its skewed clock, and the API server accepts it with its own clock.
async fn certificate_is_reissued(ns: &Namespace) {
    let secrets = Api::<Secret>::namespaced(ns.client.clone(), SYSTEM_NAMESPACE);
    let name = "grove-webhook-server-cert";
    let before = secrets.get(name).await.expect("the Secret");
    secrets.delete(name, &DeleteParams::default()).await.expect("the Secret is deleted");
    let is_new = move |secret: Option<&Secret>| secret.is_some_and(|now| now.metadata.uid != before.metadata.uid);
    let waited = tokio::time::timeout(e2e::namespace_state::TIMEOUT, await_condition(secrets, name, is_new)).await;
    let data = waited.expect("a new Secret").expect("a watch").and_then(|secret| secret.data).expect("data");
    let bundle = data["ca.crt"].clone();
    let has_bundle = move |configuration: Option<&ValidatingWebhookConfiguration>| {
        let webhook = configuration.and_then(|configuration| configuration.webhooks.as_ref()?.first());
        webhook.is_some_and(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle))
    };
    let configurations = Api::<ValidatingWebhookConfiguration>::all(ns.client.clone());
    let written = await_condition(configurations, "podcliqueset-validating-webhook", has_bundle);
    tokio::time::timeout(e2e::namespace_state::TIMEOUT, written)
        .await
        .expect("the CA bundle is written")
        .expect("a watch");
    ns.wait_until_admitted(&fixtures::three_cliques("dry", 1)).await;
}

/// The standbys take over in time from killed leaders whose last renewals have times in the future.
async fn standbys_follow_leaders_with_future_clocks(client: &Client, all: &mut Vec<ReplicaWithClock>) {
    let mut successors = Vec::new();
    for service in SERVICES {
        let (leader, standby) = roles(client, service, all).await;
        leader.set_offset(HOUR);
        standby.set_offset(-HOUR);
        successors.push((service, leader.name.clone(), standby.name.clone()));
    }
    join_all(SERVICES.map(|service| after_renewals(client, service))).await;
    all.retain(|one| successors.iter().all(|(_, leader, _)| *leader != one.name));
    for (service, _, standby) in successors {
        let is_taken_over = move |lease: Option<&Lease>| {
            let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_ref());
            holder == Some(&standby)
        };
        let taken_over = await_condition(leases(client), service, is_taken_over);
        let waited = tokio::time::timeout(e2e::namespace_state::TIMEOUT, taken_over).await;
        waited.expect("the standby leads").expect("a watch");
    }
}

fn is_settled(replicas: usize) -> impl Fn(&NamespaceState) -> bool {
    move |state| {
        state.is_available("llm")
            && state.cliques.len() == replicas * 3
            && state.pods.len() == replicas * 5
            && state.active_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
    }
}

/// Takes long: it waits for renewals of leases before and after each jump, and for a lease that expires.
#[tokio::test(flavor = "multi_thread")]
async fn wall_clock_jumps_disturb_neither_leases_nor_certificates() {
    let config = format!("{}/tests/it/own_cluster/leader-kills.yaml", env!("CARGO_MANIFEST_DIR"));
    let cluster = TestCluster::with_own_control_plane("clock-skew", &["--replicas", "2", "--config", &config]).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-clock-skew").await;
    let library = compile_clock(&cluster).await;
    let mut all = Vec::new();
    for name in SERVICES.into_iter().flat_map(|service| [service.to_owned(), format!("{service}-1")]) {
        all.push(ReplicaWithClock::take_over(&cluster, name, &library).await);
    }
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    ns.wait_for("the set has one complete replica", is_settled(1)).await;

    for (ahead, replicas) in [(HOUR, 3), (-HOUR, 2)] {
        let before = join_all(SERVICES.map(|service| after_renewals(&client, service))).await;
        for service in SERVICES {
            let (leader, standby) = roles(&client, service, &all).await;
            leader.set_offset(ahead);
            standby.set_offset(-ahead);
        }
        ns.scale_when_admitted::<PodCliqueSet>("llm", i32::try_from(replicas).expect("few")).await;
        ns.wait_for("the set has the new number of complete replicas", is_settled(replicas)).await;
        let after = join_all(SERVICES.map(|service| after_renewals(&client, service))).await;
        for ((service, before), after) in SERVICES.iter().zip(&before).zip(after) {
            assert_eq!(holder(&after), holder(before), "the holder of the lease {service} changed");
            let jumped = seconds(&after) - seconds(before);
            assert!(
                jumped * ahead.signum() > HOUR / 2,
                "{service} renewed {jumped} s after the previous renewal by its clock"
            );
        }
        certificate_is_reissued(&ns).await;
    }

    standbys_follow_leaders_with_future_clocks(&client, &mut all).await;
    ns.scale_when_admitted::<PodCliqueSet>("llm", 4).await;
    ns.wait_for("the set has four complete replicas", is_settled(4)).await;
    drop(all);
    cluster.down().await;
}
