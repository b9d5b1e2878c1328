//! `bench resource-claims`: how long the services take until a thousand pods with shared ResourceClaims are Ready, beside a plain client that
//! creates the same claims and pods, or all objects of the set; and which writes of claims the services send.

use super::object_counts::{ObjectCounts, wait_until_none};
use super::recorded_objects::{KindObjects, ObjectsWithClaims, Uids};
use super::workload::{self, NAMESPACE, SET, Workload};
use super::writes::{self, QUIET_PERIOD, WriteLog, check_steady_state};
use super::{baseline, machine, report, samples};
use crate::args::{ResourceClaims, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::proc;
use anyhow::{Context, Result, ensure};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::devices::GPUS;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

const NODES: u32 = 20;
/// The pods of a clique share the GPUs of one node, and the nodes never limit the pods.
const GPUS_PER_NODE: usize = 128;
const PODS_PER_CLIQUE: u32 = 4;
/// A replica of the set has this many cliques. The services also create a gang and a Service for each replica.
const CLIQUES_PER_REPLICA: u32 = 10;
/// The pods of the services are Ready after at most this many times the time of the plain client.
const MAX_RATIO: f64 = 1.2;

/// Which pods share a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Clique,
    Pod,
}

impl Scope {
    const ALL: [Self; 2] = [Self::Clique, Self::Pod];

    fn name(self) -> &'static str {
        match self {
            Self::Clique => "one claim per clique",
            Self::Pod => "one claim per pod",
        }
    }

    fn value(self) -> &'static str {
        match self {
            Self::Clique => "AllReplicas",
            Self::Pod => "PerReplica",
        }
    }

    fn claims(self, cliques: u32) -> u32 {
        match self {
            Self::Clique => cliques,
            Self::Pod => cliques * PODS_PER_CLIQUE,
        }
    }
}

/// What the plain client creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Baseline {
    /// Only the claims and the pods.
    ClaimsAndPods,
    /// All objects of the set: also its Services, gangs and cliques. The controllers of Kubernetes update the endpoints of the Services.
    AllObjects,
}

impl Baseline {
    const ALL: [Self; 2] = [Self::ClaimsAndPods, Self::AllObjects];

    fn name(self) -> &'static str {
        match self {
            Self::ClaimsAndPods => "the claims and pods",
            Self::AllObjects => "all objects",
        }
    }

    /// The prefix of the names of claims and pods.
    fn prefix(self) -> &'static str {
        match self {
            Self::ClaimsAndPods => "plain",
            Self::AllObjects => "all",
        }
    }

    /// The kinds in the order of their creation.
    fn kinds(self, objects: ObjectsWithClaims) -> Vec<KindObjects> {
        let ObjectsWithClaims { others, claims_and_pods } = objects.with_prefix(self.prefix());
        match self {
            Self::ClaimsAndPods => claims_and_pods,
            Self::AllObjects => others.into_iter().chain(claims_and_pods).collect(),
        }
    }
}

/// One round with the services, and one with the plain client for each baseline.
struct Measurement {
    scope: Scope,
    grove_seconds: f64,
    baseline_seconds: BTreeMap<Baseline, f64>,
    claim_writes: BTreeMap<String, u32>,
}

/// Measures, writes the report, and fails if a threshold is not met.
pub(crate) async fn run(source: &Source, args: &ResourceClaims) -> Result<()> {
    let cliques = args.cliques;
    ensure!(
        cliques.is_multiple_of(CLIQUES_PER_REPLICA),
        "--cliques {cliques} is no multiple of {CLIQUES_PER_REPLICA}, the cliques of a replica"
    );
    let dir = super::prepare(source, args.folders.dir.clone())?;
    let up = UpArgs { dir: Some(dir), nodes: Some(NODES), ..UpArgs::default() };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let conditions = machine::describe(cluster).await?;
        let measurements = Bench::prepare(cluster, args.cliques).await?.run(args.repeat).await?;
        let text = text(args, &measurements, &conditions);
        println!("{text}");
        report::update_page(&report::folder(args.folders.out.as_ref())?, "resource-claims", &text)?;
        check_thresholds(args, &measurements)
    })
    .await
}

struct Bench<'a> {
    cluster: &'a mut DevCluster,
    client: Client,
    cliques: u32,
}

impl<'a> Bench<'a> {
    async fn prepare(cluster: &'a mut DevCluster, cliques: u32) -> Result<Self> {
        let client = super::client(cluster).await?;
        workload::create_namespace(&cluster.kubectl, NAMESPACE).await?;
        GPUS.install(&client, GPUS_PER_NODE).await?;
        Ok(Self { cluster, client, cliques })
    }

    /// The first round of each scope is not reported: it warms up the API server.
    async fn run(&mut self, repeat: u32) -> Result<Vec<Measurement>> {
        let mut measurements = Vec::new();
        for round in 0..=repeat {
            for scope in Scope::ALL {
                println!("round {round}, {}: load {:.1}", scope.name(), proc::load());
                let measurement = self.round(scope, round == repeat).await?;
                measurements.extend((round > 0).then_some(measurement));
            }
        }
        Ok(measurements)
    }

    async fn round(&mut self, scope: Scope, is_last: bool) -> Result<Measurement> {
        self.cluster.stop_controllers().await?;
        self.cluster.resume_services(&UpArgs::default()).await?;
        let (grove_seconds, claim_writes, objects) = self.cluster.while_alive(self.grove(scope, is_last)).await?;
        self.cluster.stop_controllers().await?;
        let mut baseline_seconds = BTreeMap::new();
        for baseline in Baseline::ALL {
            let seconds = self.cluster.while_alive(self.baseline(baseline.kinds(objects.clone()))).await?;
            baseline_seconds.insert(baseline, seconds);
        }
        Ok(Measurement { scope, grove_seconds, baseline_seconds, claim_writes })
    }

    /// Creates the set, waits until all pods are Ready, records the objects, and deletes the set.
    async fn grove(&self, scope: Scope, is_last: bool) -> Result<(f64, BTreeMap<String, u32>, ObjectsWithClaims)> {
        let counts = ObjectCounts::start(&self.client, Workload::Individual).await;
        let sets = Api::<PodCliqueSet>::namespaced(self.client.clone(), NAMESPACE);
        let set = set(scope, self.cliques)?;
        writes::wait_until_quiet(&self.cluster.dir).await?;
        let mut log = WriteLog::start(&self.cluster.dir)?;
        let started = Instant::now();
        sets.create(&PostParams::default(), &set).await?;
        let seconds = self.seconds_until_ready(&counts, started).await?;
        counts.wait_for("the set is Available", |counts| counts.sets_available == 1).await?;
        log.wait_until_quiet(QUIET_PERIOD).await?;
        let claim_writes = log.of_services("resourceclaims");
        if is_last {
            check_steady_state(&self.cluster.dir).await?;
        }
        let objects = ObjectsWithClaims::read(&self.client).await?;
        sets.delete(SET, &DeleteParams::background()).await?;
        self.wait_until_empty(&counts).await?;
        Ok((seconds, claim_writes, objects))
    }

    /// Creates the objects kind by kind, waits until all pods are Ready, and deletes the objects in the reverse order.
    async fn baseline(&self, kinds: Vec<KindObjects>) -> Result<f64> {
        let counts = ObjectCounts::start(&self.client, Workload::Individual).await;
        writes::wait_until_quiet(&self.cluster.dir).await?;
        let (mut created, started) = (Vec::new(), Instant::now());
        for kind in kinds {
            // The objects have no owners.
            created.extend(baseline::create(&self.client, vec![kind], &Uids::new()).await?);
        }
        let seconds = self.seconds_until_ready(&counts, started).await?;
        baseline::delete(created).await?;
        self.wait_until_empty(&counts).await?;
        Ok(seconds)
    }

    async fn seconds_until_ready(&self, counts: &ObjectCounts, started: Instant) -> Result<f64> {
        let pods = self.cliques * PODS_PER_CLIQUE;
        let ready = counts.wait_for("all pods are Ready", |counts| counts.pods_ready == pods).await?;
        Ok(ready.duration_since(started).as_secs_f64())
    }

    fn claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn wait_until_empty(&self, counts: &ObjectCounts) -> Result<()> {
        counts.wait_until_empty().await?;
        wait_until_none(&self.claims()).await
    }
}

/// The template of the claim is in the set.
fn set(scope: Scope, cliques: u32) -> Result<PodCliqueSet> {
    let request = json!({ "name": "gpu", "exactly": { "deviceClassName": GPUS.class } });
    let template = json!({ "name": "gpus", "templateSpec": { "spec": { "devices": { "requests": [request] } } } });
    let container =
        json!({ "name": "main", "image": "registry.example/pause:1", "resources": { "requests": { "cpu": "10m" } } });
    let cliques_of_replica: Vec<_> = (0..CLIQUES_PER_REPLICA)
        .map(|index| {
            json!({
                "name": format!("w{index}"),
                "resourceSharing": [{ "name": "gpus", "scope": scope.value() }],
                "spec": {
                    "roleName": format!("w{index}"),
                    "replicas": PODS_PER_CLIQUE,
                    "podSpec": { "containers": [container] },
                },
            })
        })
        .collect();
    let set = json!({
        "metadata": { "name": SET },
        "spec": {
            "replicas": cliques / CLIQUES_PER_REPLICA,
            "template": { "resourceClaimTemplates": [template], "cliques": cliques_of_replica },
        },
    });
    serde_json::from_value(set).context("the set of the benchmark is not valid")
}

fn text(args: &ResourceClaims, measurements: &[Measurement], conditions: &[String]) -> String {
    let mut text = report::list(conditions);
    let (cliques, pods) = (args.cliques, args.cliques * PODS_PER_CLIQUE);
    _ = writeln!(
        text,
        "- {pods} pods in {cliques} cliques, {CLIQUES_PER_REPLICA} for each replica; {NODES} nodes of {GPUS_PER_NODE} GPUs\n"
    );
    let [claims_and_pods, all] = Baseline::ALL.map(Baseline::name);
    _ = writeln!(
        text,
        "| Ready after s | Grove | plain client, {claims_and_pods} | plain client, {all} | writes of claims by the services |\n\
         |---|---:|---:|---:|---|"
    );
    for Measurement { scope, grove_seconds, baseline_seconds, claim_writes } in measurements {
        let [claims_and_pods, all] = Baseline::ALL.map(|baseline| baseline_seconds[&baseline]);
        let (name, writes) = (scope.name(), writes::join(claim_writes));
        _ = writeln!(text, "| {name} | {grove_seconds:.2} | {claims_and_pods:.2} | {all:.2} | {writes} |");
    }
    text += "\nMedian ratios, Grove / plain client:\n\n";
    for (scope, baseline) in pairs() {
        let (ratio, scope, baseline) = (ratio(measurements, scope, baseline), scope.name(), baseline.name());
        _ = writeln!(text, "- {scope}, {baseline}: {ratio:.2} (at most {MAX_RATIO})");
    }
    text.push('\n');
    text += "In the last round of each, the services wrote nothing for one minute after the set was settled.\n";
    text
}

fn pairs() -> impl Iterator<Item = (Scope, Baseline)> {
    Scope::ALL.into_iter().flat_map(|scope| Baseline::ALL.map(|baseline| (scope, baseline)))
}

/// The median of the ratios of the rounds.
fn ratio(measurements: &[Measurement], scope: Scope, baseline: Baseline) -> f64 {
    let of_scope = measurements.iter().filter(|measurement| measurement.scope == scope);
    let ratios = of_scope.map(|measurement| measurement.grove_seconds / measurement.baseline_seconds[&baseline]);
    samples::median(ratios.collect()).unwrap_or(f64::NAN)
}

fn check_thresholds(args: &ResourceClaims, measurements: &[Measurement]) -> Result<()> {
    for Measurement { scope, claim_writes, .. } in measurements {
        let create = "pclq-controller create resourceclaims".to_owned();
        let expected = BTreeMap::from([(create, scope.claims(args.cliques))]);
        ensure!(*claim_writes == expected, "the writes of claims are {claim_writes:?}, not {expected:?}");
    }
    for (scope, baseline) in pairs() {
        let (ratio, scope, baseline) = (ratio(measurements, scope, baseline), scope.name(), baseline.name());
        ensure!(ratio <= MAX_RATIO, "{scope}, {baseline}: the ratio {ratio:.2} is above {MAX_RATIO}");
    }
    Ok(())
}
