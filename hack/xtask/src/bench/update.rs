//! `bench update`: the services replace all pods of a set, beside a plain client that deletes and creates the same pods with the same bounds.

use super::object_counts::ObjectCounts;
use super::phase_meter::PhaseMeter;
use super::recorded_objects::{KindObjects, RecordedObjects, rename, replica};
use super::samples::{self, Phase, SampleKey, Samples, Variant};
use super::thresholds::{Threshold, controller_write, is_cpu_of_controller};
use super::workload::{self, NAMESPACE, NEW_IMAGE, SET, UNCHANGED_NAMESPACE, Workload};
use super::writes::{self, check_steady_state};
use super::{Round, machine, report};
use crate::args::{Source, UpArgs, Update};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::proc;
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::audit_log::Tail;
use grove_dev_harness::live_objects::{self, ObjectChange, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Pods of a replica. By default one of them is replaced at a time.
const PODS: u32 = 2;
/// Replicas of the set that does not change.
const UNCHANGED: u32 = 50;
/// Writes of the services per replaced pod.
const MAX_WRITES: f64 = 6.0;
/// Time and CPU time of the services, compared with the plain client.
const MAX_RATIO: f64 = 1.3;
/// The names of the pods of the plain client begin with this. kwok deletes terminating pods by name, and repeats the request: it would delete
/// a new pod of the same name.
const PREFIX: &str = "new";

/// Measures, writes the report, and fails if a threshold is not met.
pub(crate) async fn run(source: &Source, args: &Update) -> Result<()> {
    let dir = super::prepare(source, args.folders.dir.clone())?;
    let nodes = (args.replicas * PODS).div_ceil(super::PODS_PER_NODE).max(super::MIN_NODES);
    let up = UpArgs { dir: Some(dir), nodes: Some(nodes), ..UpArgs::default() };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let conditions = machine::describe(cluster).await?;
        let client = super::client(cluster).await?;
        for namespace in [NAMESPACE, UNCHANGED_NAMESPACE] {
            workload::create_namespace(&cluster.kubectl, namespace).await?;
        }
        let mut bench = Bench { cluster, client, args, samples: Samples::default(), writes_of_unchanged: Vec::new() };
        Box::pin(bench.run()).await?;
        let Bench { samples, writes_of_unchanged, .. } = bench;
        let text = text(args, &samples, &conditions);
        println!("{text}");
        report::update_page(&report::folder(args.folders.out.as_ref())?, "update", &text)?;
        ensure!(
            writes_of_unchanged.is_empty(),
            "writes in the namespace of the unchanged set: {writes_of_unchanged:?}"
        );
        let missed = thresholds(args, &samples).into_iter().find(|threshold| !threshold.is_met());
        missed.map_or(Ok(()), |threshold| anyhow::bail!("{threshold}"))
    })
    .await
}

struct Bench<'a> {
    cluster: &'a mut DevCluster,
    client: Client,
    args: &'a Update,
    samples: Samples,
    writes_of_unchanged: Vec<String>,
}

impl Bench<'_> {
    /// The first round is not reported: it warms up the API server.
    async fn run(&mut self) -> Result<()> {
        let mut unchanged = Workload::Individual.set(UNCHANGED)?;
        unchanged.metadata.namespace = Some(UNCHANGED_NAMESPACE.to_owned());
        self.sets(UNCHANGED_NAMESPACE).create(&PostParams::default(), &unchanged).await?;
        for repetition in 0..=self.args.repeat {
            let is_odd = repetition % 2 == 1;
            let variants =
                if is_odd { [Variant::Grove, Variant::Baseline] } else { [Variant::Baseline, Variant::Grove] };
            for variant in variants {
                println!("round {repetition}, {}: load {:.1}", variant.name(), proc::load());
                Box::pin(self.round(variant, repetition)).await?;
            }
        }
        Ok(())
    }

    /// The services deploy the set, all pods are replaced, and the services delete the set. Only the replacement is measured.
    async fn round(&mut self, variant: Variant, repetition: u32) -> Result<()> {
        self.cluster.stop_controllers().await?;
        self.cluster.resume_services(&UpArgs::default()).await?;
        let counts = ObjectCounts::start(&self.client, Workload::Individual).await;
        counts.wait_until_empty().await?;
        self.cluster.while_alive(self.deploy(&counts)).await?;
        writes::wait_until_quiet(&self.cluster.dir).await?;
        let key = key(self.args, variant, repetition);
        let samples = Box::pin(self.update(&counts, key)).await?;
        if repetition > 0 {
            self.samples.all.extend(samples.all);
            self.samples.curves.extend(samples.curves);
        }
        self.sets(NAMESPACE).delete(SET, &DeleteParams::background()).await?;
        self.cluster.while_alive(counts.wait_until_empty()).await?;
        Ok(())
    }

    async fn update(&mut self, counts: &ObjectCounts, key: SampleKey) -> Result<Samples> {
        let mut samples = Samples::default();
        match key.variant {
            Variant::Grove => {
                let mut log = Tail::from_end(&self.cluster.dir)?;
                self.cluster.while_alive(self.update_by_grove(counts, key, &mut samples)).await?;
                self.writes_of_unchanged.extend(writes_in(UNCHANGED_NAMESPACE, &mut log)?);
                if key.round.repetition == self.args.repeat {
                    check_steady_state(&self.cluster.dir).await?;
                }
            }
            Variant::Baseline => {
                self.cluster.stop_controllers().await?;
                let update = Box::pin(self.update_by_client(counts, key, &mut samples));
                self.cluster.while_alive(update).await?;
                self.cluster.resume_services(&UpArgs::default()).await?;
            }
        }
        Ok(samples)
    }

    async fn deploy(&self, counts: &ObjectCounts) -> Result<()> {
        let mut set = Workload::Individual.set(self.args.replicas)?;
        let strategy = json!({ "rollingUpdate": { "maxUnavailable": self.args.max_unavailable } });
        set.spec.update_strategy = Some(serde_json::from_value(strategy)?);
        self.sets(NAMESPACE).create(&PostParams::default(), &set).await?;
        counts.wait_for("the set is Available", |counts| counts.sets_available == 1).await?;
        Ok(())
    }

    async fn update_by_grove(&self, counts: &ObjectCounts, key: SampleKey, samples: &mut Samples) -> Result<()> {
        let meter = PhaseMeter::start(self.cluster, counts, key)?;
        let image = json!([{
            "op": "replace",
            "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image",
            "value": NEW_IMAGE,
        }]);
        let patch = Patch::Json::<()>(serde_json::from_value(image)?);
        self.sets(NAMESPACE).patch(SET, &PatchParams::default(), &patch).await?;
        self.measure(counts, meter, samples).await
    }

    /// Replaces the pods of as many replicas at once as the services do, and the pods of a replica one after another.
    async fn update_by_client(&self, counts: &ObjectCounts, key: SampleKey, samples: &mut Samples) -> Result<()> {
        let recorded = RecordedObjects::read(&self.client, false).await?;
        let pods = recorded.grandchildren.into_iter().flat_map(|KindObjects { objects, .. }| objects);
        let mut replicas: BTreeMap<u32, Vec<DynamicObject>> = BTreeMap::new();
        for pod in pods {
            let index = replica(&pod.name_any()).context("a pod has the name of another set")?;
            replicas.entry(index).or_default().push(pod);
        }
        let pods = Pods::watch(&self.client).await;
        let meter = PhaseMeter::start(self.cluster, counts, key)?;
        let replace_all = replicas.into_values().map(async |of_replica| {
            for pod in of_replica {
                pods.replace(pod).await?;
            }
            anyhow::Ok(())
        });
        stream::iter(replace_all).buffer_unordered(self.args.max_unavailable as usize).try_collect::<Vec<()>>().await?;
        self.measure(counts, meter, samples).await
    }

    async fn measure(&self, counts: &ObjectCounts, mut meter: PhaseMeter, samples: &mut Samples) -> Result<()> {
        let pods = self.args.replicas * PODS;
        let updated = counts.wait_for("all pods are new and Ready", |counts| counts.pods_updated == pods).await?;
        meter.pods_ready(samples, updated);
        meter.finish(counts, samples).await
    }

    fn sets(&self, namespace: &str) -> Api<PodCliqueSet> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// The pods of the namespace, by name, and whether they are Ready.
struct Pods {
    api: Api<DynamicObject>,
    ready: watch::Receiver<BTreeMap<String, bool>>,
    task: JoinHandle<()>,
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pods {
    /// Returns when all existing pods are known.
    async fn watch(client: &Client) -> Self {
        let resource = ApiResource::erase::<Pod>(&());
        let api = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let (sender, mut ready) = watch::channel(BTreeMap::new());
        let mut changes = Box::pin(live_objects::changes::<Pod>(client, NAMESPACE));
        let task = tokio::spawn(async move {
            while let Some(changes) = changes.next().await {
                sender.send_modify(|pods| changes.into_iter().for_each(|change| record(pods, change)));
            }
        });
        // The task ends after this value is dropped.
        _ = ready.changed().await;
        Self { api, ready, task }
    }

    /// Deletes the pod, waits until it is gone, creates it again with the new image, and waits until it is Ready.
    async fn replace(&self, mut pod: DynamicObject) -> Result<()> {
        let old = pod.name_any();
        self.api.delete(&old, &DeleteParams::default()).await?;
        self.wait_for(|pods| !pods.contains_key(&old)).await?;
        rename(&mut pod, PREFIX);
        let image = pod.data.pointer_mut("/spec/containers/0/image").context("a pod has no container")?;
        *image = Value::from(NEW_IMAGE);
        self.api.create(&PostParams::default(), &pod).await?;
        let new = pod.name_any();
        self.wait_for(|pods| pods.get(&new) == Some(&true)).await
    }

    async fn wait_for(&self, reached: impl FnMut(&BTreeMap<String, bool>) -> bool) -> Result<()> {
        self.ready.clone().wait_for(reached).await.context("the watch ended")?;
        Ok(())
    }
}

fn record(pods: &mut BTreeMap<String, bool>, change: ObjectChange<Pod>) {
    match change.object {
        Some(pod) => pods.insert(change.name, is_ready(&pod)),
        None => pods.remove(&change.name),
    };
}

/// The new writes of the services in a namespace.
fn writes_in(namespace: &str, log: &mut Tail) -> Result<Vec<String>> {
    let events = log.read_new()?;
    let writes = events.into_iter().filter(|event| event.is_write() && event.service_account().is_some());
    let objects = writes.filter_map(|event| Some((event.verb, event.object_ref?)));
    let in_namespace = objects.filter(|(_, object)| object.namespace == namespace);
    Ok(in_namespace.map(|(verb, object)| format!("{verb} {} {}", object.full_resource(), object.name)).collect())
}

/// The figures that must not be exceeded.
fn thresholds(args: &Update, samples: &Samples) -> Vec<Threshold> {
    let threshold = |figure, limit, measured| Threshold { figure, limit, measured };
    let down = |variant| f64::from(args.replicas * PODS - min_ready(samples, variant));
    vec![
        threshold("writes of the services per replaced pod", MAX_WRITES, writes_per_pod(args, samples)),
        threshold("seconds, Grove / plain client", MAX_RATIO, ratio(args, samples, seconds)),
        threshold("CPU seconds of the machine, Grove / plain client", MAX_RATIO, ratio(args, samples, cpu_seconds)),
        threshold("pods that are not Ready at once", f64::from(args.max_unavailable), down(Variant::Grove)),
    ]
}

fn writes_per_pod(args: &Update, samples: &Samples) -> f64 {
    let writes = samples.sum(args.replicas, Variant::Grove, Phase::Update, |figure| controller_write(figure).is_some());
    writes / f64::from(args.replicas * PODS)
}

/// The median of the ratios of the rounds.
fn ratio(args: &Update, samples: &Samples, figure: impl Fn(&Samples, SampleKey) -> f64) -> f64 {
    let of_round = |repetition| {
        let [grove, baseline] =
            [Variant::Grove, Variant::Baseline].map(|variant| figure(samples, key(args, variant, repetition)));
        grove / baseline
    };
    samples::median((1..=args.repeat).map(of_round).collect()).unwrap_or(f64::INFINITY)
}

fn key(args: &Update, variant: Variant, repetition: u32) -> SampleKey {
    SampleKey { round: Round { replicas: args.replicas, repetition }, variant, phase: Phase::Update }
}

fn seconds(samples: &Samples, key: SampleKey) -> f64 {
    samples.sum_of_round(key, |figure| figure == "ready s")
}

/// The time of all processors, until no write follows.
fn cpu_seconds(samples: &Samples, key: SampleKey) -> f64 {
    samples.sum_of_round(key, |figure| figure.starts_with("cpu "))
}

fn cpu_of_controllers(samples: &Samples, key: SampleKey) -> f64 {
    samples.sum_of_round(key, is_cpu_of_controller)
}

/// The lowest number of Ready pods of all rounds.
fn min_ready(samples: &Samples, variant: Variant) -> u32 {
    let curves = samples.curves.iter().filter(|curve| curve.variant == variant);
    curves.flat_map(|curve| &curve.points).map(|(_, counts)| counts.pods_ready).min().unwrap_or_default()
}

fn text(args: &Update, samples: &Samples, conditions: &[String]) -> String {
    let Update { replicas, max_unavailable, .. } = args;
    let mut text = report::list(conditions);
    _ = writeln!(
        text,
        "- {replicas} replicas of {PODS} pods; {max_unavailable} replicas at once, one pod of each; another set of {UNCHANGED} replicas does not \
         change, and no service writes in its namespace\n"
    );
    text += "| round | variant | all pods new and Ready after s | CPU s of the machine | of the controllers | fewest Ready pods |\n";
    text += "|---:|---|---:|---:|---:|---:|\n";
    for (repetition, variant) in (1..=args.repeat)
        .flat_map(|repetition| [Variant::Grove, Variant::Baseline].map(|variant| (repetition, variant)))
    {
        let key = key(args, variant, repetition);
        let [seconds, cpu, controllers] = [seconds, cpu_seconds, cpu_of_controllers].map(|figure| figure(samples, key));
        let (variant, ready) = (variant.name(), min_ready(samples, variant));
        _ = writeln!(text, "| {repetition} | {variant} | {seconds:.1} | {cpu:.1} | {controllers:.1} | {ready} |");
    }
    text += "\nWrites of the services per replaced pod:\n\n";
    for figure in samples.figures(Phase::Update) {
        let (Some(_), Some(count)) =
            (controller_write(figure), samples.median(*replicas, Variant::Grove, Phase::Update, figure))
        else {
            continue;
        };
        _ = writeln!(text, "- {:.2} × {figure}", count / f64::from(replicas * PODS));
    }
    text += "\nThresholds:\n\n";
    for threshold in thresholds(args, samples) {
        _ = writeln!(text, "- {threshold}");
    }
    text
}
