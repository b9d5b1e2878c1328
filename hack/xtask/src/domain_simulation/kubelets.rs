//! Stand-ins for the kubelets, and for NVIDIA's kubelet plugin on all nodes.
//!
//! 1. A pod with the claim of the domain is bound. The plugin labels its node with the domain.
//! 2. The `DaemonSet` of the domain gets a pod there. The kubelet runs its daemon.
//! 3. The daemon of the node is Ready. The plugin prepares the claim, and the kubelet runs the pod of step 1.

use super::cluster::Simulation;
use super::daemon::{Parts, Program, RunningDaemon, TimedReport, clique_id, identity, ready_condition, started_status};
use super::formation::Report;
use super::formation::clique::Member;
use super::observer::Observer;
use super::requests::if_found;
use anyhow::{Context, Result};
use compute_domain_daemon::metrics::DaemonMetrics;
use futures::stream::{self, BoxStream, StreamExt};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::entry::Readiness;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_api_types::deletion::is_terminating;
use grove_dev_harness::live_objects::changes;
use grove_process::client;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// What a kubelet has finished.
enum Done {
    Other,
    Running { pod: String },
    Daemon { pod: String, daemon: RunningDaemon },
}

enum Event {
    /// A pod of the user.
    Workload(Box<Pod>),
    /// A pod in the namespace of the daemons.
    Daemon(Box<Pod>),
    Report(Report),
}

/// The kubelets of the nodes of one domain.
pub(crate) struct Kubelets {
    client: Client,
    kubeconfig: PathBuf,
    domain: ComputeDomain,
    program: Program,
    /// The pods of the user that wait for the daemon of their node, by node.
    waiting: BTreeMap<String, String>,
    /// The pods of the user that are bound.
    admitted: BTreeSet<String>,
    /// Those of them that run.
    running: BTreeSet<String>,
    /// The nodes whose daemon is Ready.
    ready_nodes: BTreeSet<String>,
    /// The daemons by pod; `None` before the start and after the end.
    daemons: BTreeMap<String, Option<RunningDaemon>>,
    /// The number of daemons that were started.
    started: usize,
    /// The work of all kubelets, which do not wait for each other.
    work: JoinSet<Result<Done>>,
    sender: UnboundedSender<TimedReport>,
    events: BoxStream<'static, Event>,
    _observer: Observer,
}

impl Kubelets {
    /// The kubelets for the pods in the namespace of the domain. They work while a future of [`Kubelets::run_until`] is polled.
    pub(crate) async fn start(simulation: &Simulation, domain: ComputeDomain, program: Program) -> Result<Self> {
        let client = simulation.admin.clone();
        let (sender, reports) = unbounded_channel();
        let observer = Observer::start(&client, &domain, program.strategy(), sender.clone());
        let workload = pods(&client, &domain.namespace().unwrap_or_default()).map(Event::Workload);
        let of_daemons = pods(&client, SYSTEM_NAMESPACE).map(Event::Daemon);
        let events = stream::select(stream::select(workload, of_daemons), to_stream(reports).map(Event::Report));
        Ok(Self {
            kubeconfig: simulation.daemon_kubeconfig().await?,
            client,
            domain,
            program,
            waiting: BTreeMap::new(),
            admitted: BTreeSet::new(),
            running: BTreeSet::new(),
            ready_nodes: BTreeSet::new(),
            daemons: BTreeMap::new(),
            started: 0,
            work: JoinSet::new(),
            sender,
            events: events.boxed(),
            _observer: observer,
        })
    }

    /// Works until this many pods of the user run.
    pub(crate) async fn run_until(&mut self, running: usize) -> Result<()> {
        while self.running.len() < running {
            tokio::select! {
                event = self.events.next() => self.handle(event.context("the watches have ended")?),
                Some(done) = self.work.join_next() => match done?? {
                    Done::Other => {}
                    Done::Running { pod } => drop(self.running.insert(pod)),
                    Done::Daemon { pod, daemon } => drop(self.daemons.insert(pod, Some(daemon))),
                },
            }
        }
        Ok(())
    }

    /// Works until the future is dropped or fails.
    pub(crate) async fn run(&mut self) -> Result<()> {
        self.run_until(usize::MAX).await
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Workload(pod) | Event::Daemon(pod) if is_terminating(&*pod) => self.end(&pod),
            Event::Workload(pod) => self.admit(&pod),
            Event::Daemon(pod) => self.run_daemon(*pod),
            Event::Report(Report::Entries(entries) | Report::CliqueEntries { entries, .. }) => {
                let ready = entries.into_iter().filter(|entry| entry.status == Readiness::Ready);
                self.ready_nodes.extend(ready.map(|entry| entry.node_name));
                self.run_waiting();
            }
            Event::Report(_) => {}
        }
    }

    /// Labels the node of a pod. The pod runs when the daemon of the node is Ready.
    fn admit(&mut self, pod: &Pod) {
        let (name, node) = (pod.name_any(), pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
        let Some(node) = node.filter(|_| self.admitted.insert(name.clone())) else { return };
        let label = Patch::Merge(json!({ "metadata": { "labels": { DOMAIN_LABEL: self.domain.uid() } } }));
        let nodes = Api::<Node>::all(self.client.clone());
        self.waiting.insert(node.clone(), name);
        self.work.spawn(async move {
            nodes.patch_metadata(&node, &PatchParams::default(), &label).await?;
            Ok(Done::Other)
        });
        self.run_waiting();
    }

    fn run_waiting(&mut self) {
        let is_ready = |(node, _): &(String, String)| self.ready_nodes.contains(node);
        let (ready, waiting) = std::mem::take(&mut self.waiting).into_iter().partition::<BTreeMap<_, _>, _>(is_ready);
        self.waiting = waiting;
        for pod in ready.into_values() {
            let pods = Api::<Pod>::namespaced(self.client.clone(), &self.domain.namespace().unwrap_or_default());
            self.work.spawn(async move {
                let status = json!({ "phase": "Running", "conditions": [ready_condition(true)] });
                write_status(&pods, &pod, status).await?;
                Ok(Done::Running { pod })
            });
        }
    }

    /// Runs the daemon of a new pod of the domain.
    fn run_daemon(&mut self, pod: Pod) {
        let (name, node) = (pod.name_any(), pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
        let is_of_domain = pod.labels().get(DOMAIN_LABEL) == self.domain.uid().as_ref();
        let Some(node) = node.filter(|_| is_of_domain && !self.daemons.contains_key(&name)) else { return };
        self.daemons.insert(name.clone(), None);
        self.started += 1;
        let number = node.rsplit_once('-').and_then(|(_, number)| number.parse::<usize>().ok()).unwrap_or_default();
        let address = format!("10.0.{}.{}", self.started >> 8, self.started & 255);
        let member = Member { node, clique: clique_id(number / MAX_NODES_PER_CLIQUE), address };
        let pods = Api::<Pod>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let (domain, kubeconfig) = (self.domain.clone(), self.kubeconfig.clone());
        let (program, reports) = (self.program, self.sender.clone());
        self.work.spawn(async move {
            write_status(&pods, &name, started_status(&member.address)).await?;
            let identity = identity(&domain, &pod, member);
            let clients = client::connect(Some(&kubeconfig), &name, None).await?.clients;
            let parts = Parts { identity, program, clients, metrics: DaemonMetrics::new()?, pods, reports };
            Ok(Done::Daemon { pod: name, daemon: RunningDaemon::start(parts) })
        });
    }

    /// Ends a terminating pod.
    fn end(&mut self, pod: &Pod) {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
        self.daemons.insert(name.clone(), None);
        self.waiting.retain(|_, waiting| *waiting != name);
        let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
        self.work.spawn(async move {
            if_found(pods.delete(&name, &DeleteParams::default().grace_period(0)).await)?;
            Ok(Done::Other)
        });
    }
}

async fn write_status(pods: &Api<Pod>, name: &str, status: Value) -> Result<()> {
    let status = Patch::Merge(json!({ "status": status }));
    Ok(if_found(pods.patch_status(name, &PatchParams::default(), &status).await)?)
}

fn pods(client: &Client, namespace: &str) -> BoxStream<'static, Box<Pod>> {
    let changes = changes::<Pod>(client, namespace).flat_map(stream::iter);
    changes.filter_map(|change| std::future::ready(change.object.map(Box::new))).boxed()
}

fn to_stream(reports: UnboundedReceiver<TimedReport>) -> impl futures::Stream<Item = Report> + Send + 'static {
    stream::unfold(reports, async |mut reports| Some((reports.recv().await?.1, reports)))
}
