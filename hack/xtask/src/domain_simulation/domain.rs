//! One domain: the object, the pods of its daemons, and the daemons.

use super::cluster::Simulation;
use super::daemon::{Parts, Program, RunningDaemon, TimedReport, clique_id, identity, started_status};
use super::formation::clique::Member;
use super::formation::{Formation, Report};
use super::observer::Observer;
use super::requests::{TIMEOUT, if_found, retry};
use anyhow::{Context, Result};
use compute_domain_daemon::metrics::DaemonMetrics;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL, STRATEGY_ANNOTATION};
use grove_api_types::configuration::RateLimit;
use grove_process::client::{self, Clients};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::TypeMeta;
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// The namespace and the name of the domain, and of the template of its claims.
const NAMESPACE: &str = "default";
const DOMAIN: &str = "formation";
/// Requests of the preparation that run at the same time.
const PARALLEL: usize = 32;
/// A converged domain has settled when nothing was reported for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// How a domain synchronizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    pub(crate) program: Program,
    /// The number of daemons, a multiple of 18: all cliques are full.
    pub(crate) nodes: usize,
    /// The limit of the requests of each daemon.
    pub(crate) rate: Option<RateLimit>,
}

/// A domain with the pods of its daemons.
pub(crate) struct SimulatedDomain {
    pub(crate) formation: Formation,
    /// The requests of all daemons.
    pub(crate) metrics: DaemonMetrics,
    pub(crate) domain: ComputeDomain,
    simulation: Simulation,
    setup: Setup,
    preparation: Preparation,
    /// The daemons that do not run yet.
    prepared: Vec<(Identity, Clients)>,
    daemons: Vec<RunningDaemon>,
    /// The daemons that [`SimulatedDomain::replace`] prepares.
    replacements: FuturesUnordered<LocalBoxFuture<'static, Result<(Identity, Clients)>>>,
    /// The number of pods that were created.
    pods: usize,
    began: Instant,
    sender: UnboundedSender<TimedReport>,
    reports: UnboundedReceiver<TimedReport>,
    _observer: Observer,
}

impl SimulatedDomain {
    /// Creates the domain and its pods, and waits until mnnvl-controller has begun to synchronize it.
    pub(crate) async fn create(simulation: &Simulation, setup: Setup) -> Result<Self> {
        let domain =
            timeout(TIMEOUT, create_domain(simulation, &setup)).await.context("the domain is not served")??;
        let (sender, reports) = unbounded_channel();
        let observer = Observer::start(&simulation.admin, &domain, setup.program.strategy(), sender.clone());
        let preparation = Preparation {
            domain: domain.clone(),
            pods: Api::namespaced(simulation.admin.clone(), SYSTEM_NAMESPACE),
            kubeconfig: simulation.daemon_kubeconfig().await?,
            rate: setup.rate,
        };
        let mut created = Self {
            formation: Formation::default(),
            metrics: DaemonMetrics::new()?,
            domain,
            simulation: simulation.clone(),
            setup,
            preparation,
            prepared: Vec::new(),
            daemons: Vec::new(),
            replacements: FuturesUnordered::new(),
            pods: 0,
            began: Instant::now(),
            sender,
            reports,
            _observer: observer,
        };
        let members: Vec<_> = (0..created.setup.nodes).map(|node| created.member_of(node)).collect();
        let prepare = |member| created.preparation.prepare(member);
        if created.setup.program == Program::Floor {
            created.create_cliques(&members).await?;
        }
        let prepared = stream::iter(members.clone()).map(prepare).buffered(PARALLEL).try_collect().await?;
        created.prepared = prepared;
        created.formation = Formation::new(members);
        Ok(created)
    }

    /// The first daemon of a node. The names are as long as usual ones.
    fn member_of(&mut self, node: usize) -> Member {
        let (rack, tray) = (node / MAX_NODES_PER_CLIQUE, node % MAX_NODES_PER_CLIQUE);
        let clique = clique_id(rack);
        self.new_member(format!("gb200-rack-{rack:03}-tray-{tray:02}"), clique)
    }

    /// A daemon in a new pod.
    fn new_member(&mut self, node: String, clique: String) -> Member {
        self.pods += 1;
        let [high, middle, low] = [self.pods >> 16, (self.pods >> 8) & 255, self.pods & 255];
        Member { node, clique, address: format!("10.{high}.{middle}.{low}") }
    }

    /// Creates the objects of the cliques, without entries.
    async fn create_cliques(&self, members: &[Member]) -> Result<()> {
        let uid = self.domain.uid().context("the domain has no UID")?;
        let cliques: BTreeSet<_> = members.iter().map(|member| &member.clique).collect();
        let cliques_api = self.cliques_api();
        for clique in cliques {
            let name = format!("{uid}.{clique}");
            let metadata = json!({ "name": name, "labels": ComputeDomainClique::labels(&uid, clique) });
            let kind = TypeMeta::resource::<ComputeDomainClique>();
            let object =
                json!({ "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "daemons": [] });
            let (params, object) = (PatchParams::apply("floor").force(), Patch::Apply(object));
            retry(async || cliques_api.patch(&name, &params, &object).await).await?;
        }
        Ok(())
    }

    /// Starts all daemons at the same time.
    pub(crate) fn start(&mut self) {
        self.began = Instant::now();
        for (identity, clients) in std::mem::take(&mut self.prepared) {
            self.run(identity, clients);
        }
    }

    fn run(&mut self, identity: Identity, clients: Clients) {
        self.daemons.push(RunningDaemon::start(Parts {
            identity,
            program: self.setup.program,
            clients,
            metrics: self.metrics.clone(),
            pods: self.preparation.pods.clone(),
            reports: self.sender.clone(),
        }));
    }

    /// Waits for the next report, and notes it. Starts a replacement that is prepared.
    async fn observe(&mut self) -> Result<()> {
        tokio::select! {
            Some((at, report)) = self.reports.recv() => self.note(at, report),
            Some(prepared) = self.replacements.next() => {
                let (identity, clients) = prepared?;
                self.run(identity, clients);
            }
        }
        Ok(())
    }

    fn note(&mut self, at: Instant, report: Report) {
        self.formation.apply(at.saturating_duration_since(self.began), report);
    }

    /// Waits until the domain has converged. False after the limit.
    pub(crate) async fn wait_until_converged(&mut self, limit: Duration) -> Result<bool> {
        let rest = limit.saturating_sub(self.began.elapsed());
        let converged = async {
            while !self.formation.is_converged() {
                self.observe().await?;
            }
            Ok(true)
        };
        timeout(rest, converged).await.unwrap_or(Ok(false))
    }

    /// The daemons that [`SimulatedDomain::start`] starts.
    pub(crate) fn members_to_start(&self) -> Vec<Member> {
        self.prepared.iter().map(|(identity, _)| Member::of(identity)).collect()
    }

    /// Waits until the domain has come this far ([`Formation::progress`]).
    pub(crate) async fn wait_for_progress(&mut self, progress: usize, limit: Duration) -> Result<()> {
        let reached = async {
            while self.formation.progress() < progress {
                self.observe().await?;
            }
            Ok(())
        };
        let outcome = timeout(limit, reached).await;
        outcome.with_context(|| format!("the progress is {}, and not {progress}", self.formation.progress()))?
    }

    /// Notes all reports that have arrived.
    pub(crate) fn catch_up(&mut self) {
        while let Ok((at, report)) = self.reports.try_recv() {
            self.note(at, report);
        }
    }

    /// Waits until the invariants hold and nothing changes any more: a later write may violate what held before. False after the limit.
    pub(crate) async fn settle(&mut self, limit: Duration) -> Result<bool> {
        let settled = async {
            loop {
                match timeout(QUIET_PERIOD, self.observe()).await {
                    Ok(observed) => observed?,
                    Err(_) if self.formation.violations().is_empty() => return Ok(true),
                    Err(_) => {}
                }
            }
        };
        timeout(limit, settled).await.unwrap_or(Ok(false))
    }

    /// Kills a daemon and its pod. Another one starts in a new pod, on the same node or on another node of the clique, while the domain is
    /// observed.
    pub(crate) fn replace(&mut self, ended: Member, on_other_node: bool) {
        self.daemons.retain(|daemon| daemon.member != ended);
        let node = if on_other_node { format!("{}-spare", ended.node) } else { ended.node.clone() };
        let new = self.new_member(node, ended.clique.clone());
        self.formation.replace(&ended, new.clone());
        let preparation = self.preparation.clone();
        let replacement = async move {
            preparation.delete(&ended).await?;
            preparation.prepare(new).await
        };
        self.replacements.push(replacement.boxed_local());
    }

    /// Ends the daemons, and deletes everything.
    pub(crate) async fn remove(mut self) -> Result<()> {
        self.daemons.clear();
        let domains = domains(&self.simulation);
        let uid = self.domain.uid().context("the domain has no UID")?;
        let of_domain = ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}"));
        let now = DeleteParams::background().grace_period(0);
        let removed = async {
            let (pods, cliques) = (&self.preparation.pods, self.cliques_api());
            retry(async || if_found(domains.delete(DOMAIN, &now).await)).await?;
            // The API server ends the deletion of thousands of pods after a minute.
            retry(async || pods.delete_collection(&now, &of_domain).await).await?;
            await_condition(domains, DOMAIN, is_deleted(&uid)).await?;
            retry(async || cliques.delete_collection(&now, &of_domain).await).await?;
            Ok(())
        };
        timeout(TIMEOUT, removed).await.context("the domain is not deleted")?
    }

    fn cliques_api(&self) -> Api<ComputeDomainClique> {
        Api::namespaced(self.simulation.admin.clone(), SYSTEM_NAMESPACE)
    }
}

/// Creates and deletes the pods of the daemons.
#[derive(Clone)]
struct Preparation {
    domain: ComputeDomain,
    pods: Api<Pod>,
    kubeconfig: PathBuf,
    rate: Option<RateLimit>,
}

impl Preparation {
    /// Creates the pod of a daemon, as the `DaemonSet` and the kubelet do, and the daemon's clients.
    async fn prepare(&self, member: Member) -> Result<(Identity, Clients)> {
        let (pods, name) = (&self.pods, pod_name(&member));
        let (uid, address) = (self.domain.uid().context("the domain has no UID")?, &member.address);
        let container = json!({ "name": "daemon", "image": "registry.k8s.io/pause:3.10" });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { DOMAIN_LABEL: uid } },
            "spec": { "nodeName": member.node, "serviceAccountName": compute_domain_daemon::NAME,
                "automountServiceAccountToken": false, "containers": [container] } });
        let (params, pod) = (PatchParams::apply("kubelet").force(), Patch::Apply(pod));
        let created = retry(async || pods.patch(&name, &params, &pod).await).await?;
        let status = Patch::Merge(json!({ "status": started_status(address) }));
        retry(async || pods.patch_status(&name, &PatchParams::default(), &status).await).await?;
        let agent = format!("{}/simulated ({name})", compute_domain_daemon::NAME);
        let clients = client::connect(Some(&self.kubeconfig), &agent, self.rate).await?.clients;
        let identity = identity(&self.domain, &created, member);
        Ok((identity, clients))
    }

    /// Deletes the pod of a daemon that was killed.
    async fn delete(&self, ended: &Member) -> Result<()> {
        let (name, now) = (pod_name(ended), DeleteParams::background().grace_period(0));
        retry(async || if_found(self.pods.delete(&name, &now).await)).await
    }
}

fn pod_name(member: &Member) -> String {
    format!("{DOMAIN}-{}", member.address.replace('.', "-"))
}

fn domains(simulation: &Simulation) -> Api<ComputeDomain> {
    Api::namespaced(simulation.admin.clone(), NAMESPACE)
}

/// Creates the domain, and waits until mnnvl-controller has created the objects that belong to it.
async fn create_domain(simulation: &Simulation, Setup { program, nodes, .. }: &Setup) -> Result<ComputeDomain> {
    let kind = TypeMeta::resource::<ComputeDomain>();
    let domain = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": { "name": DOMAIN, "annotations": { STRATEGY_ANNOTATION: program.strategy().name() } },
        "spec": { "numNodes": nodes, "channel": { "resourceClaimTemplate": { "name": DOMAIN } } },
    });
    let user = PatchParams::apply("user").force();
    let created = domains(simulation).patch(DOMAIN, &user, &Patch::Apply(domain)).await?;
    let templates = Api::<ResourceClaimTemplate>::namespaced(simulation.admin.clone(), NAMESPACE);
    await_condition(templates, DOMAIN, |template: Option<&ResourceClaimTemplate>| template.is_some()).await?;
    Ok(created)
}
