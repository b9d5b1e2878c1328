//! A daemon of compute-domain-daemon in this process, and stand-ins for its kubelet and for IMEX.

use super::floor;
use super::formation::Report;
use super::formation::clique::Member;
use super::requests::{RETRY, if_found};
use compute_domain_daemon::driver;
use compute_domain_daemon::metrics::DaemonMetrics;
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::compute_domain::daemon::{Daemon, ImexChange};
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_process::client::Clients;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// A report with its time.
pub(super) type TimedReport = (Instant, Report);

/// What runs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// compute-domain-daemon.
    Daemon(Strategy),
    /// The least that a daemon can do, as a measure for the others.
    Floor,
}

impl Program {
    /// The strategy of the domain.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Self::Daemon(strategy) => strategy,
            Self::Floor => floor::STRATEGY,
        }
    }
}

/// What a daemon needs.
pub(super) struct Parts {
    pub(super) identity: Identity,
    pub(super) program: Program,
    pub(super) clients: Clients,
    pub(super) metrics: DaemonMetrics,
    /// The pods, with the permissions of a kubelet.
    pub(super) pods: Api<Pod>,
    pub(super) reports: UnboundedSender<TimedReport>,
}

/// The identity of the daemon of a pod of the domain.
pub(super) fn identity(domain: &ComputeDomain, pod: &Pod, member: Member) -> Identity {
    let Member { node, clique, address: pod_ip } = member;
    Identity {
        domain_namespace: domain.namespace().unwrap_or_default(),
        domain_name: domain.name_any(),
        domain_uid: domain.uid().unwrap_or_default(),
        driver_namespace: SYSTEM_NAMESPACE.to_owned(),
        clique,
        node,
        pod_name: pod.name_any(),
        pod_uid: pod.uid().unwrap_or_default(),
        pod_ip,
        max_nodes: MAX_NODES_PER_CLIQUE,
    }
}

/// The status of a pod whose daemon starts.
pub(super) fn started_status(address: &str) -> Value {
    json!({ "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [ready_condition(false)] })
}

/// The ID of a clique.
pub(super) fn clique_id(number: usize) -> String {
    format!("0a0a0a0a-0000-4000-8000-000000000000.{number}")
}

/// A running daemon. It ends when the value is dropped, as by SIGKILL: its entry stays.
pub(super) struct RunningDaemon {
    pub(super) member: Member,
    _task: JoinSet<()>,
}

impl RunningDaemon {
    pub(super) fn start(parts: Parts) -> Self {
        let member = Member::of(&parts.identity);
        let mut task = JoinSet::new();
        task.spawn(run(parts));
        Self { member, _task: task }
    }
}

async fn run(Parts { identity, program, clients, metrics, pods, reports }: Parts) {
    let mut node = Node { identity: identity.clone(), pods, reports, is_ready: false };
    let (sender, changes) = unbounded_channel();
    let program = async {
        match program {
            Program::Daemon(strategy) => {
                let (daemon, stop) = (Daemon::new(identity, strategy), CancellationToken::new());
                driver::run(daemon, &clients, &metrics, &sender, &stop).await;
            }
            Program::Floor => floor::run(&identity, &clients, &metrics, &sender).await,
        }
    };
    tokio::join!(program, node.run_imex(changes));
}

/// The kubelet and IMEX.
struct Node {
    identity: Identity,
    pods: Api<Pod>,
    reports: UnboundedSender<TimedReport>,
    is_ready: bool,
}

impl Node {
    async fn run_imex(&mut self, mut changes: UnboundedReceiver<ImexChange>) {
        while let Some(change) = changes.recv().await {
            match change {
                ImexChange::Start(peers) | ImexChange::Peers { peers, .. } => self.accept(peers, false).await,
                ImexChange::Restart(peers) => self.accept(peers, true).await,
            }
        }
    }

    /// IMEX is ready as soon as it starts, and the kubelet writes that at once.
    async fn accept(&mut self, peers: Vec<Entry>, is_restart: bool) {
        let report = Report::Peers { daemon: Member::of(&self.identity), peers, is_restart };
        // Without a receiver, the round is over.
        drop(self.reports.send((Instant::now(), report)));
        if !std::mem::replace(&mut self.is_ready, true) {
            set_ready(&self.pods, &self.identity.pod_name).await;
        }
    }
}

/// Sets the pod Ready. The API server may restart meanwhile.
async fn set_ready(pods: &Api<Pod>, name: &str) {
    let change = Patch::Merge(json!({ "status": { "conditions": [ready_condition(true)] } }));
    while if_found(pods.patch_status(name, &PatchParams::default(), &change).await).is_err() {
        sleep(RETRY).await;
    }
}

/// The condition Ready of a pod.
pub(super) fn ready_condition(is_ready: bool) -> Value {
    json!({ "type": "Ready", "status": if is_ready { "True" } else { "False" } })
}
