//! `bench`: measures the services on a real control plane, next to a plain client that makes the same writes.

pub(crate) mod admission;
mod baseline;
pub(crate) mod compute_domains;
pub(crate) mod convergence;
mod font;
mod grove;
pub(crate) mod machine;
mod object_counts;
mod phase_meter;
mod plot;
mod pod_group;
mod pod_lister;
mod recorded_objects;
pub(crate) mod report;
pub(crate) mod resource_claims;
mod samples;
mod thresholds;
pub(crate) mod update;
mod usage;
mod workload;
mod writes;

use crate::args::{Scale, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::{proc, workspace};
use anyhow::{Context, Result, bail};
use grove_dev_harness::kubeconfig::client_config;
use kube::Client;
use pod_lister::PodLister;
use recorded_objects::RecordedObjects;
use samples::{Samples, Variant};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use workload::Workload;

const MIN_NODES: u32 = 100;
const PODS_PER_NODE: u32 = 100;
const LISTS_PODS: &str = "Load: another client lists all pods twice a second";

/// One repetition with one size.
#[derive(Clone, Copy)]
struct Round {
    replicas: u32,
    repetition: u32,
}

/// `bench scale`: measures the services and the baseline in turn, with several sizes and repetitions.
pub(crate) async fn scale(source: &Source, args: &Scale) -> Result<()> {
    let dir = prepare(source, args.folders.dir.clone())?;
    println!("all measured processes, this client included, are built with --release");
    let (workload, sizes) = (Workload::of(args), args.sizes());
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let peak = if args.double { 2 * largest } else { largest };
    let nodes = Some(MIN_NODES.max(peak * workload.pods_per_replica() / PODS_PER_NODE));
    let up = UpArgs { dir: Some(dir), nodes, ..workload.up_args() };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let mut conditions = machine::describe(cluster).await?;
        conditions.extend(args.list_pods.then(|| LISTS_PODS.to_owned()));
        conditions.extend(workload.conditions().iter().map(|condition| (*condition).to_owned()));
        let report = |samples: &Samples, rounds| report::write(samples, &conditions, rounds, args);
        // The clients do not share connections.
        let _lister = if args.list_pods { Some(PodLister::start(client(cluster).await?)) } else { None };
        let client = client(cluster).await?;
        let samples = Samples { workload, ..Samples::default() };
        let mut bench = Bench { cluster, client, double: args.double, samples };
        bench.run(args.repeat, &sizes, report).await
    })
    .await
}

/// The beginning of each benchmark: it needs a dev cluster and optimised binaries. Returns the folder of the dev cluster.
fn prepare(source: &Source, dir: Option<PathBuf>) -> Result<PathBuf> {
    if source.kubeconfig.is_some() {
        bail!("a benchmark reads the processes and the audit log of a dev cluster; omit --kubeconfig");
    }
    exec_optimised()?;
    Ok(dir.unwrap_or_else(|| workspace::root().join("target/grove-bench")))
}

/// A client that measures requests. It does not retry: a retried request would count as one slow request.
async fn client(cluster: &DevCluster) -> Result<Client> {
    let mut config = client_config(&cluster.kubectl.kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Replaces this process by the optimised build of the same program, unless it is that build.
pub(crate) fn exec_optimised() -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let arguments = ["run", "--quiet", "--release", "--package", "xtask", "--"];
    let mut cargo = workspace::blocking_cargo();
    cargo.args(arguments).args(std::env::args_os().skip(1));
    println!("building with --release");
    Err(cargo.exec()).context("cannot run cargo")
}

/// The benchmark of several sizes.
struct Bench<'a> {
    cluster: &'a mut DevCluster,
    client: Client,
    /// Whether the rounds also measure the scaling to twice the size.
    double: bool,
    samples: Samples,
}

impl Bench<'_> {
    /// Runs all rounds. Reports after each repetition of all sizes, so that an interrupted benchmark has a report, too.
    async fn run(&mut self, repeat: u32, sizes: &[u32], report: impl Fn(&Samples, u32) -> Result<()>) -> Result<()> {
        let workload = self.samples.workload;
        workload.prepare(&self.cluster.kubectl).await?;
        let mut recorded = BTreeMap::new();
        for &replicas in sizes {
            println!("{replicas} replicas: recording the objects of the services; not measured");
            let peak = if self.double { 2 * replicas } else { replicas };
            recorded.insert(replicas, grove::record(self.cluster, &self.client, workload, peak).await?);
        }
        for repetition in 1..=repeat {
            for (&replicas, recorded) in &recorded {
                self.run_round(Round { replicas, repetition }, recorded).await?;
            }
            report(&self.samples, repetition)?;
        }
        Ok(())
    }

    /// Runs both variants. They take turns in going first, so that neither always meets the colder API server.
    async fn run_round(&mut self, round: Round, recorded: &RecordedObjects) -> Result<()> {
        let Self { cluster, client, double, samples } = self;
        let is_odd = round.repetition % 2 == 1;
        let variants = if is_odd { [Variant::Grove, Variant::Baseline] } else { [Variant::Baseline, Variant::Grove] };
        for variant in variants {
            let Round { replicas, repetition } = round;
            println!("{replicas} replicas, round {repetition}, {}: load {:.1}", variant.name(), proc::load());
            match variant {
                Variant::Grove => grove::run(cluster, client, round, *double, samples).await,
                Variant::Baseline => baseline::run(cluster, client, round, recorded, samples).await,
            }
            .with_context(|| format!("{replicas} replicas, round {repetition}, {}", variant.name()))?;
        }
        Ok(())
    }
}
