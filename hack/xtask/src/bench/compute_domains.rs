//! `bench compute-domains`: how long the services take to create the PodCliques of many sets, with a ComputeDomain for each replica, and
//! without the feature; and which writes the domains cause.

use super::object_counts::{Counts, ObjectCounts, wait_until_none};
use super::workload::{self, NAMESPACE, Workload};
use super::writes::{self, QUIET_PERIOD, WriteLog, check_steady_state};
use super::{machine, report, samples};
use crate::args::{ComputeDomains, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::{proc, workspace};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::compute_domain_channels::{self, CHANNELS};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

const CONFIGURATION: &str = "hack/xtask/src/bench/compute_domains.yaml";
const CRD: &str = "deploy/components/compute-domains/computedomain.yaml";
/// A node has eight GPUs, and in this benchmark as many channels, so that the nodes never limit the pods.
const PER_NODE: u32 = 8;
/// The domains do not delay the creation of the PodCliques by more than this factor, compared with each of the other variants.
const MAX_RATIO: f64 = 1.25;

/// How the pods get a channel. In all variants they become Ready, so the driver takes no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// The feature is disabled, and the pods have no channel.
    NoClaims,
    /// The feature is disabled, and the user's pod spec has the same claim. Kubernetes creates and allocates as many claims as with
    /// domains.
    OwnClaims,
    /// The feature is enabled.
    Domains,
}

impl Variant {
    const ALL: [Self; 3] = [Self::NoClaims, Self::OwnClaims, Self::Domains];
    const WITHOUT_DOMAINS: [Self; 2] = [Self::NoClaims, Self::OwnClaims];

    fn name(self) -> &'static str {
        match self {
            Self::NoClaims => "without domains",
            Self::OwnClaims => "without domains, with the user's claims",
            Self::Domains => "with domains",
        }
    }
}

/// The times and writes of one round.
struct Measurement {
    variant: Variant,
    cliques_seconds: f64,
    ready_seconds: f64,
    domain_writes: BTreeMap<String, u32>,
}

/// Measures, writes the report, and fails if a threshold is not met.
pub(crate) async fn run(source: &Source, args: &ComputeDomains) -> Result<()> {
    let dir = super::prepare(source, args.folders.dir.clone())?;
    let up = UpArgs {
        dir: Some(dir),
        nodes: Some((args.sets * args.replicas).div_ceil(PER_NODE) + 1),
        config: Some(workspace::root().join(CONFIGURATION)),
        crds: vec![workspace::root().join(CRD)],
        ..UpArgs::default()
    };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let bench = Bench::prepare(cluster, args).await?;
        let measuring = async {
            let mut measurements = Vec::new();
            // The first round is not reported: it warms up the API server.
            for round in 0..=args.repeat {
                let mut variants = Variant::ALL;
                variants.rotate_left(usize::try_from(round)? % Variant::ALL.len());
                for variant in variants {
                    println!("round {round}, {}: load {:.1}", variant.name(), proc::load());
                    let is_last = round == args.repeat && variant == Variant::Domains;
                    let measurement = bench.round(variant, is_last).await?;
                    measurements.extend((round > 0).then_some(measurement));
                }
            }
            Ok(measurements)
        };
        let measurements = cluster.while_alive(measuring).await?;
        let text = text(args, &measurements, &machine::describe(cluster).await?);
        println!("{text}");
        report::update_page(&report::folder(args.folders.out.as_ref())?, "compute-domains", &text)?;
        check_thresholds(args, &measurements)
    })
    .await
}

struct Bench<'a> {
    cluster: &'a DevCluster,
    args: &'a ComputeDomains,
    counts: ObjectCounts,
    sets: Api<PodCliqueSet>,
    domains: Api<ComputeDomain>,
}

impl<'a> Bench<'a> {
    /// The templates exist from the beginning, so that the pods become Ready without the driver.
    async fn prepare(cluster: &'a DevCluster, args: &'a ComputeDomains) -> Result<Self> {
        let client = super::client(cluster).await?;
        workload::create_namespace(&cluster.kubectl, NAMESPACE).await?;
        CHANNELS.install(&client, PER_NODE.try_into()?).await?;
        for (set, replica) in (0..args.sets).flat_map(|set| (0..args.replicas).map(move |replica| (set, replica))) {
            let name = format!("s{set}-{replica}");
            compute_domain_channels::create_claim_template(&client, NAMESPACE, &name, None).await?;
        }
        let counts = ObjectCounts::start(&client, Workload::Individual).await;
        let (sets, domains) = (Api::namespaced(client.clone(), NAMESPACE), Api::namespaced(client, NAMESPACE));
        Ok(Self { cluster, args, counts, sets, domains })
    }

    /// Creates the sets, waits until they are settled, and deletes them.
    async fn round(&self, variant: Variant, is_last: bool) -> Result<Measurement> {
        let replicas = self.args.sets * self.args.replicas;
        self.counts.wait_until_empty().await?;
        wait_until_none(&self.domains).await?;
        self.counts.take_timeline();
        writes::wait_until_quiet(&self.cluster.dir).await?;
        let mut log = WriteLog::start(&self.cluster.dir)?;
        let started = Instant::now();
        let requests = (0..self.args.sets).map(|index| async move {
            let set = self.set(index, variant)?;
            self.sets.create(&PostParams::default(), &set).await.context("cannot create a set")
        });
        try_join_all(requests).await?;
        let created = self.counts.wait_for("all PodCliques exist", |counts| counts.cliques == replicas).await?;
        let ready = self.counts.wait_for("all pods are Ready", |counts| counts.pods_ready == replicas).await?;
        let is_available = |counts: &Counts| counts.sets_available == self.args.sets;
        self.counts.wait_for("all sets are Available", is_available).await?;
        log.wait_until_quiet(QUIET_PERIOD).await?;
        let domain_writes = log.of_services("computedomains");
        if is_last {
            check_steady_state(&self.cluster.dir).await?;
        }
        self.sets.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        let seconds = |at: Instant| at.duration_since(started).as_secs_f64();
        let (cliques_seconds, ready_seconds) = (seconds(created), seconds(ready));
        Ok(Measurement { variant, cliques_seconds, ready_seconds, domain_writes })
    }

    fn set(&self, index: u32, variant: Variant) -> Result<PodCliqueSet> {
        let mut container = json!({ "name": "main", "image": "registry.example/pause:1",
            "resources": { "limits": { "nvidia.com/gpu": 1 } } });
        let mut pod_spec = json!({});
        if variant == Variant::OwnClaims {
            // The template of the first replica serves all replicas.
            pod_spec["resourceClaims"] =
                json!([{ "name": "channel", "resourceClaimTemplateName": format!("s{index}-0") }]);
            container["resources"]["claims"] = json!([{ "name": "channel" }]);
        }
        pod_spec["containers"] = json!([container]);
        let clique = json!({ "name": "w", "spec": { "roleName": "w", "replicas": 1, "podSpec": pod_spec } });
        let mnnvl = if variant == Variant::Domains { "enabled" } else { "disabled" };
        let set = json!({
            "metadata": { "name": format!("s{index}"), "annotations": { "grove.io/auto-mnnvl": mnnvl } },
            "spec": { "replicas": self.args.replicas, "template": { "cliques": [clique] } },
        });
        serde_json::from_value(set).context("the set of the benchmark is not valid")
    }
}

fn text(args: &ComputeDomains, measurements: &[Measurement], conditions: &[String]) -> String {
    let mut text = report::list(conditions);
    let (sets, replicas) = (args.sets, args.replicas);
    _ = writeln!(text, "- {sets} sets with {replicas} replicas of one PodClique of one pod\n");
    text += "| | PodCliques created after s | pods Ready after s | writes of ComputeDomains |\n|---|---:|---:|---|\n";
    for Measurement { variant, cliques_seconds, ready_seconds, domain_writes } in measurements {
        let (name, writes) = (variant.name(), writes::join(domain_writes));
        _ = writeln!(text, "| {name} | {cliques_seconds:.2} | {ready_seconds:.2} | {writes} |");
    }
    text += "\nMedian ratios of the times until all PodCliques are created:\n\n";
    for other in Variant::WITHOUT_DOMAINS {
        let (with, ratio) = (Variant::Domains.name(), ratio(measurements, other));
        _ = writeln!(text, "- {with} / {}: {ratio:.2} (at most {MAX_RATIO})", other.name());
    }
    text.push('\n');
    text += "In the last round, the services wrote nothing for one minute after all sets were settled.\n";
    text
}

/// The median of the ratios of the rounds, of the times with domains and of the other variant. Each round has one measurement of each
/// variant.
fn ratio(measurements: &[Measurement], other: Variant) -> f64 {
    let seconds = |round: &[Measurement], variant: Variant| {
        let of_variant = round.iter().filter(|measurement| measurement.variant == variant);
        of_variant.map(|measurement| measurement.cliques_seconds).sum::<f64>()
    };
    let rounds = measurements.chunks(Variant::ALL.len());
    let ratios = rounds.map(|round| seconds(round, Variant::Domains) / seconds(round, other));
    samples::median(ratios.collect()).unwrap_or(f64::NAN)
}

fn check_thresholds(args: &ComputeDomains, measurements: &[Measurement]) -> Result<()> {
    for other in Variant::WITHOUT_DOMAINS {
        let ratio = ratio(measurements, other);
        ensure!(ratio <= MAX_RATIO, "with domains / {}: the ratio {ratio:.2} is above {MAX_RATIO}", other.name());
    }
    let creates = ("mnnvl-controller create computedomains".to_owned(), args.sets * args.replicas);
    for Measurement { variant, domain_writes, .. } in measurements {
        let expected: BTreeMap<_, _> = (*variant == Variant::Domains).then(|| creates.clone()).into_iter().collect();
        ensure!(*domain_writes == expected, "the writes of ComputeDomains are {domain_writes:?}, not {expected:?}");
    }
    Ok(())
}
