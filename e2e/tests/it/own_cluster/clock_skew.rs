//! The wall clocks of the services jump, forth and back, each for itself: nobody loses a lease by it, nobody takes one too
//! early or too late, and everything goes on. What they write is dated as their clocks say.

use std::os::unix::fs::FileExt;

use e2e::replicas::Replica;
use e2e::{Namespace, Plane, World, sets, world::is_ready};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];
const HOUR: i64 = 3600;
/// Renewals that are looked at after a jump.
const RENEWALS: usize = 8;

/// A replica with a wall clock that can be set.
struct Clocked {
    name: String,
    /// Ends with it.
    _replica: Replica,
    clock: std::fs::File,
}

impl Clocked {
    async fn take_over(plane: &Plane, name: String, library: &str) -> Self {
        let path = plane.dir().join(format!("{name}.clock"));
        std::fs::write(&path, 0_i64.to_ne_bytes()).expect("the file of its clock");
        let (preload, of) = (format!("LD_PRELOAD={library}"), format!("WALL_CLOCK={}", path.display()));
        let replica = Replica::take_over_by(plane, &name, &["env", &preload, &of]).await;
        let clock = std::fs::File::options().write(true).open(path).expect("the file of its clock");
        Self { name, _replica: replica, clock }
    }

    /// From now on its clock goes so many seconds ahead of the machine's.
    fn set(&self, ahead: i64) {
        self.clock.write_all_at(&ahead.to_ne_bytes(), 0).expect("its clock is set");
    }
}

/// What the compiler makes of `clock.c`. Whoever builds the services has it: their cryptography needs one.
async fn library(plane: &Plane) -> String {
    let (source, library) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/own_cluster/clock_skew/clock.c"), "clock.so");
    let library = plane.dir().join(library).display().to_string();
    let mut compiler = tokio::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", &library, source]).kill_on_drop(true);
    let output = compiler.output().await.expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), "grove-system")
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

/// The lease as it is after so many renewals more. Fails when anybody else takes it meanwhile.
async fn renewed(client: &Client, service: &str) -> LeaseSpec {
    let mut last = lease(client, service).await;
    for _ in 0..RENEWALS {
        let seen = last.renew_time.clone();
        let is_another = |lease: Option<&Lease>| {
            lease.and_then(|lease| lease.spec.as_ref()).is_some_and(|spec| spec.renew_time != seen)
        };
        let waited = await_condition(leases(client), service, is_another);
        let found = tokio::time::timeout(e2e::world::LIMIT, waited).await.expect("a renewal").expect("a watch");
        let spec = found.and_then(|lease| lease.spec).expect("a spec");
        assert_eq!(holder(&spec), holder(&last), "the lease {service} changed hands");
        last = spec;
    }
    last
}

/// Who leads and who stands by, of one service.
async fn roles<'a>(client: &Client, service: &str, all: &'a [Clocked]) -> (&'a Clocked, &'a Clocked) {
    let held = |lease: Option<&Lease>| lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_ref()).is_some();
    let waited = tokio::time::timeout(e2e::world::LIMIT, await_condition(leases(client), service, held)).await;
    waited.expect("somebody leads").expect("a watch");
    let holder = lease(client, service).await.holder_identity.expect("a holder");
    let of_service = all.iter().filter(|one| one.name.trim_end_matches("-1") == service);
    let (leading, standing): (Vec<_>, Vec<_>) = of_service.partition(|one| one.name == holder);
    (leading[0], standing[0])
}

/// The certificate is made by a clock that is wrong, and the API server trusts it by its own.
async fn certified_anew(ns: &Namespace) {
    let secrets = Api::<Secret>::namespaced(ns.client.clone(), "grove-system");
    let name = "grove-webhook-server-cert";
    let before = secrets.get(name).await.expect("the Secret");
    secrets.delete(name, &DeleteParams::default()).await.expect("the Secret is deleted");
    let is_new = move |secret: Option<&Secret>| secret.is_some_and(|now| now.metadata.uid != before.metadata.uid);
    let waited = tokio::time::timeout(e2e::world::LIMIT, await_condition(secrets, name, is_new)).await;
    let made = waited.expect("it is made again").expect("a watch").and_then(|secret| secret.data).expect("data");
    let bundle = made["ca.crt"].clone();
    let is_told = move |told: Option<&ValidatingWebhookConfiguration>| {
        let webhook = told.and_then(|told| told.webhooks.as_ref()?.first());
        webhook.is_some_and(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle))
    };
    let configurations = Api::<ValidatingWebhookConfiguration>::all(ns.client.clone());
    let telling = await_condition(configurations, "podcliqueset-validating-webhook", is_told);
    tokio::time::timeout(e2e::world::LIMIT, telling).await.expect("the API server is told").expect("a watch");
    ns.until_admitted(&sets::three_cliques("dry", 1)).await;
}

/// Who renewed in the future and is no more is followed as soon as it is missed.
async fn a_leader_of_tomorrow_is_followed(client: &Client, service: &str, all: &mut Vec<Clocked>) {
    let (leading, standing) = roles(client, service, all).await;
    leading.set(HOUR);
    standing.set(-HOUR);
    renewed(client, service).await;
    let (leader, follower) = (leading.name.clone(), standing.name.clone());
    all.retain(|one| one.name != leader);
    let follows = move |lease: Option<&Lease>| {
        lease.and_then(|lease| lease.spec.as_ref()).is_some_and(|spec| spec.holder_identity.as_ref() == Some(&follower))
    };
    let waited = tokio::time::timeout(e2e::world::LIMIT, await_condition(leases(client), service, follows)).await;
    waited.expect("somebody follows").expect("a watch");
}

fn serves(replicas: usize) -> impl Fn(&World) -> bool {
    move |world| {
        world.is_available("llm")
            && world.cliques.len() == replicas * 3
            && world.pods.len() == replicas * 5
            && world.live_pods().filter(|pod| is_ready(pod)).count() == replicas * 5
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clock_jumps_disturb_neither_leases_nor_certificates() {
    let config = format!("{}/tests/it/own_cluster/leader-kills.yaml", env!("CARGO_MANIFEST_DIR"));
    let plane = Plane::own_with("faults-clocks", &["--replicas", "2", "--config", &config]).await;
    let client = plane.client().await;
    let ns = Namespace::create(&client, "e2e-clocks").await;
    let library = library(&plane).await;
    let mut all = Vec::new();
    for name in SERVICES.into_iter().flat_map(|service| [service.to_owned(), format!("{service}-1")]) {
        all.push(Clocked::take_over(&plane, name, &library).await);
    }
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    ns.until("one replica serves", serves(1)).await;

    for (ahead, replicas) in [(HOUR, 3), (-HOUR, 2)] {
        let mut before = Vec::new();
        for service in SERVICES {
            let (leading, standing) = roles(&client, service, &all).await;
            before.push(renewed(&client, service).await);
            leading.set(ahead);
            standing.set(-ahead);
        }
        ns.scale::<PodCliqueSet>("llm", i32::try_from(replicas).expect("few")).await;
        ns.until("it is as large as it should be", serves(replicas)).await;
        for (service, before) in SERVICES.iter().zip(&before) {
            let after = renewed(&client, service).await;
            assert_eq!(holder(&after), holder(before), "the lease {service} changed hands");
            let jumped = seconds(&after) - seconds(before);
            assert!(jumped * ahead.signum() > HOUR / 2, "{service} renewed {jumped} s later by its clock");
        }
        certified_anew(&ns).await;
    }

    for service in SERVICES {
        a_leader_of_tomorrow_is_followed(&client, service, &mut all).await;
    }
    ns.scale::<PodCliqueSet>("llm", 4).await;
    ns.until("four replicas serve", serves(4)).await;
    drop(all);
    plane.down().await;
}
