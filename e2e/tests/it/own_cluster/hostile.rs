//! A normal tenant beside tenants that cause as much work as admission allows. The test measures how long a normal set needs
//! until it is available, alone and beside each of these tenants, and the memory and the lease renewals of the services.

use std::fmt::Write;
use std::time::{Duration, Instant};

use e2e::metrics::{self, Samples};
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, test_cluster};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::{live_objects, process_memory};

use self::tenants::{Sizes, Tenant};

mod tenants;

const SERVICES: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"];
/// The result is the median of this many measurements.
const MEASUREMENTS: usize = 5;
const NORMAL_REPLICAS: i32 = 10;

/// The thresholds. The delay is a bound of a bucket of the metric.
const MAX_RATIO: f64 = 2.0;
/// The limit of the containers in `deploy/` is 512 MiB.
const MAX_MEMORY_MB: f64 = 400.0;
const MAX_DELAY_SECONDS: f64 = 0.1;

/// The figures of one tenant.
struct Row {
    tenant: String,
    kubernetes: String,
    /// The times from the create of a normal set until it is available.
    alone: Duration,
    beside: Duration,
    rejected_creates_per_second: f64,
    services: Vec<Service>,
}

/// The figures of one service since its start.
struct Service {
    name: &'static str,
    peak_mb: f64,
    /// Bounds of the delay of lease renewals, in seconds.
    delay_p99: f64,
    max_delay: f64,
}

impl Row {
    /// Measures beside a tenant, on a cluster of their own.
    async fn measure(tenant: Tenant, sizes: &Sizes) -> Self {
        let cluster = TestCluster::with_own_services(&format!("hostile-{}", tenant.name()), &[]).await;
        let client = cluster.client().await;
        let kubernetes = client.apiserver_version().await.expect("a version").git_version;
        let normal = Namespace::create(&client, &format!("e2e-normal-beside-{}", tenant.name())).await;
        let alone = time_until_available(&normal).await;
        let hostile = Namespace::create(&client, &format!("e2e-{}", tenant.name())).await;
        tenant.prepare(&hostile, sizes).await;
        let (started, before) = (Instant::now(), rejected_creates(&cluster).await);
        let beside = Box::pin(time_beside(tenant, (&normal, &hostile), sizes)).await;
        let rejected = rejected_creates(&cluster).await - before;
        let rejected_creates_per_second = rejected / started.elapsed().as_secs_f64();
        let mut services = Vec::new();
        for name in SERVICES {
            services.push(Service::measure(&cluster, name).await);
        }
        cluster.down().await;
        let tenant = tenant.description(sizes);
        Self { tenant, kubernetes, alone, beside, rejected_creates_per_second, services }
    }

    fn ratio(&self) -> f64 {
        self.beside.as_secs_f64() / self.alone.as_secs_f64()
    }

    /// The thresholds that are not met.
    fn violations(&self) -> Vec<String> {
        let Self { tenant, .. } = self;
        let mut violations = Vec::new();
        if self.ratio() > MAX_RATIO {
            violations.push(format!("{tenant}: a normal set needs {:.1} times its time alone", self.ratio()));
        }
        for Service { name, peak_mb, max_delay, .. } in &self.services {
            if *peak_mb > MAX_MEMORY_MB {
                violations.push(format!("{tenant}: {name} needs {peak_mb:.0} MB"));
            }
            if *max_delay > MAX_DELAY_SECONDS {
                violations.push(format!("{tenant}: {name} renewed its lease more than 100 ms late"));
            }
        }
        violations
    }
}

impl Service {
    async fn measure(cluster: &TestCluster, name: &'static str) -> Self {
        let peak_mb = process_memory::of(cluster.pid(name)).map_or(0.0, |memory| memory.peak);
        // No process of a dev cluster starts again after its exit.
        assert!(peak_mb > 0.0, "{name} has exited");
        let samples = metrics::scrape(cluster, name).await;
        let delay = |quantile| quantile_bound(&samples, "leader_election_renewal_delay_seconds", quantile);
        let (delay_p99, max_delay) = (delay(0.99).expect("a renewal"), delay(1.0).expect("a renewal"));
        Self { name, peak_mb, delay_p99, max_delay }
    }
}

/// The median time of the normal set while the tenant disturbs it.
async fn time_beside(tenant: Tenant, (normal, hostile): (&Namespace, &Namespace), sizes: &Sizes) -> Duration {
    tokio::select! {
        beside = time_until_available(normal) => beside,
        never = tenant.disturb(hostile, sizes) => match never {},
    }
}

/// The median time from the create of a normal set until all its replicas are available.
async fn time_until_available(ns: &Namespace) -> Duration {
    let mut times = Vec::new();
    for _ in 0..MEASUREMENTS {
        let started = Instant::now();
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", NORMAL_REPLICAS)).await;
        ns.wait_for("the normal set is available", |state| {
            state.sets.get("llm").is_some_and(live_objects::is_available)
        })
        .await;
        times.push(started.elapsed());
        ns.delete_object::<PodCliqueSet>("llm").await;
        ns.wait_for("the normal set is deleted", NamespaceState::is_empty).await;
    }
    times.sort_unstable();
    times[MEASUREMENTS / 2]
}

/// The creates that the API server has rejected, by the counters of the controllers.
async fn rejected_creates(cluster: &TestCluster) -> f64 {
    let is_rejected = |name: &str| {
        let labels = ["grove_writes_total{", "result=\"403\"", "verb=\"create\""];
        labels.iter().all(|label| name.contains(label))
    };
    let mut rejected = 0.0;
    for service in SERVICES {
        let samples = metrics::scrape(cluster, service).await;
        rejected += samples.iter().filter(|(name, _)| is_rejected(name)).map(|(_, count)| count).sum::<f64>();
    }
    rejected
}

/// The upper bound of the bucket that contains this quantile of a histogram. `None` if the histogram is empty.
fn quantile_bound(samples: &Samples, histogram: &str, quantile: f64) -> Option<f64> {
    let prefix = format!("{histogram}_bucket{{");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (name, count) in samples.iter().filter(|(name, _)| name.starts_with(&prefix)) {
        let (bound, _) = name.split_once("le=\"")?.1.split_once('"')?;
        buckets.push((bound.parse().ok()?, *count));
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = buckets.last()?.1;
    let (bound, _) = buckets.into_iter().find(|(_, count)| *count > 0.0 && *count >= quantile * total)?;
    Some(bound)
}

/// The figures of all tenants in Markdown.
fn report(rows: &[Row]) -> String {
    let columns = [
        "tenant".to_owned(),
        "alone s".to_owned(),
        "beside it s".to_owned(),
        "ratio".to_owned(),
        format!("memory MB of {}", SERVICES.join(", ")),
        "p99 of renewal delays, at most ms".to_owned(),
        "rejected creates per s".to_owned(),
    ];
    let kubernetes = rows.first().map_or("", |row| row.kubernetes.as_str());
    let mut text = format!("- Kubernetes: {kubernetes}; etcd does not wait for the disk\n\n");
    _ = writeln!(text, "| {} |\n|---|{}", columns.join(" | "), "---:|".repeat(columns.len() - 1));
    for row in rows {
        let all = |figure: fn(&Service) -> f64| {
            row.services.iter().map(|service| format!("{:.0}", figure(service))).collect::<Vec<_>>().join(", ")
        };
        let cells = [
            row.tenant.clone(),
            format!("{:.2}", row.alone.as_secs_f64()),
            format!("{:.2}", row.beside.as_secs_f64()),
            format!("{:.2}", row.ratio()),
            all(|service| service.peak_mb),
            all(|service| service.delay_p99 * 1000.0),
            format!("{:.1}", row.rejected_creates_per_second),
        ];
        _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures times; run by `cargo xtask soak hostile`"]
async fn a_normal_set_becomes_available_beside_hostile_tenants() {
    let sizes = Sizes::from_env();
    let mut rows = Vec::new();
    let only = test_cluster::required_env("GROVE_SOAK_OF");
    let of = |tenant: &Tenant| only.is_empty() || only.split(',').any(|name| name == tenant.name());
    for tenant in Tenant::ALL.into_iter().filter(of) {
        println!("{}", tenant.description(&sizes));
        rows.push(Box::pin(Row::measure(tenant, &sizes)).await);
        std::fs::write(test_cluster::required_env("GROVE_SOAK_REPORT"), report(&rows)).expect("the report is written");
    }
    println!("{}", report(&rows));
    let violations: Vec<_> = rows.iter().flat_map(Row::violations).collect();
    assert!(violations.is_empty(), "thresholds that are not met:\n{}", violations.join("\n"));
}

#[test]
fn the_bound_of_a_quantile_is_the_first_bucket_with_enough_values() {
    let bucket = |bound: &str, count| (format!("delay_seconds_bucket{{name=\"a\",le=\"{bound}\"}}"), count);
    let samples = Samples::from([bucket("0.1", 99.0), bucket("10", 99.0), bucket("0.02", 60.0), bucket("+Inf", 100.0)]);
    let bound = |quantile| quantile_bound(&samples, "delay_seconds", quantile);
    assert_eq!((bound(0.5), bound(0.99), bound(1.0)), (Some(0.02), Some(0.1), Some(f64::INFINITY)));
    let empty = Samples::from([bucket("0.1", 0.0), bucket("+Inf", 0.0)]);
    assert_eq!(quantile_bound(&empty, "delay_seconds", 0.99), None);
}
