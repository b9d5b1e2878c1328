//! A dev cluster: a control plane, simulated nodes and the Grove services as local processes, with all files in one folder.

mod crds;
mod folder;
mod start;

use crate::args::{Source, UpArgs};
use crate::control_plane;
use crate::interrupt::interrupted;
use crate::ports::Ports;
use crate::processes::Processes;
use crate::suite::{self, CONTROLLERS, WEBHOOK_SERVER};
use crate::webhooks::{self, WebhookRoute};
use crate::{binaries, workspace};
use anyhow::{Context, Result};
use grove_dev_harness::kubeconfig::client_config;
use grove_dev_harness::kubectl::Kubectl;
use kube::Client;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The objects that remain in a cluster that `cargo xtask` did not start.
const LEFT_IN_CLUSTER: &str =
    "left in your cluster: the CRDs, the namespace grove-system, the services' ClusterRoles and admission policies";

pub(crate) struct DevCluster {
    pub(crate) dir: PathBuf,
    pub(crate) kubectl: Kubectl,
    pub(crate) processes: Processes,
    route: WebhookRoute,
    /// The names of the processes that this `cargo xtask` has started. It ends them if it fails.
    started: Vec<String>,
}

/// Whether the dev cluster keeps running after the work has succeeded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnExit {
    KeepRunning,
    Stop,
}

/// `up`: starts a dev cluster and leaves it running.
pub(crate) async fn up(source: &Source, args: &UpArgs) -> Result<()> {
    with_dev_cluster(source, args, OnExit::KeepRunning, async |cluster: &mut DevCluster| {
        println!("logs: {}", cluster.dir.join("log").display());
        println!("kubectl of the same version: {}", cluster.dir.join("kubectl").display());
        println!("export KUBECONFIG={}", cluster.kubectl.kubeconfig.display());
        Ok(())
    })
    .await
}

/// `down`: ends all processes of a dev cluster.
pub(crate) async fn down(dir: &Path) -> Result<()> {
    if !dir.is_dir() {
        println!("nothing runs in {}", dir.display());
        return Ok(());
    }
    folder::claim(dir)?;
    // The lock is taken even if nothing runs: another `cargo xtask` may be about to start processes in the folder.
    let _lock = folder::lock(dir)?;
    let mut processes = Processes::load(dir)?;
    let running = processes.alive();
    if running.is_empty() {
        println!("nothing runs in {}", dir.display());
    } else {
        let is_own_cluster = running.iter().any(|name| name == control_plane::API_SERVER);
        if !is_own_cluster {
            unregister_webhooks(&running, &Kubectl::new(&dir.join("kubectl"), dir)).await;
        }
        end(&mut processes, &running).await?;
        println!("ended {}", running.join(", "));
        if !is_own_cluster {
            println!("{LEFT_IN_CLUSTER}");
        }
    }
    folder::remove_state(dir)
}

/// Starts a dev cluster and works with it. Afterwards ends the processes that it started, if `on_exit` is `Stop`, if anything
/// failed, or if the user interrupted the work. Processes that were running before are never ended.
pub(crate) async fn with_dev_cluster<W>(source: &Source, args: &UpArgs, on_exit: OnExit, work: W) -> Result<()>
where
    W: AsyncFnOnce(&mut DevCluster) -> Result<()>,
{
    let mut cluster = DevCluster::open(source, args).await?;
    let start_and_work = async {
        cluster.start(source, args).await?;
        work(&mut cluster).await
    };
    let outcome = tokio::select! {
        outcome = start_and_work => outcome,
        reason = interrupted() => Err(reason),
    };
    if outcome.is_err() || on_exit == OnExit::Stop {
        // If another `cargo xtask` has the lock, this one ends its own processes and leaves the files.
        let lock = folder::lock(&cluster.dir);
        let started = std::mem::take(&mut cluster.started);
        if source.kubeconfig.is_some() {
            unregister_webhooks(&started, &cluster.kubectl).await;
        }
        end(&mut cluster.processes, &started).await?;
        if lock.is_ok() && cluster.processes.alive().is_empty() {
            folder::remove_state(&cluster.dir)?;
        }
        if source.kubeconfig.is_some() {
            println!("{LEFT_IN_CLUSTER}");
        }
    }
    outcome
}

impl DevCluster {
    async fn open(source: &Source, args: &UpArgs) -> Result<Self> {
        let route = WebhookRoute::of(source, args)?;
        let dir = workspace::dev_cluster_dir(args.dir.clone());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        folder::claim(&dir)?;
        let program = tokio::select! {
            program = find_kubectl(source) => program?,
            reason = interrupted() => return Err(reason),
        };
        let processes = Processes::load(&dir)?;
        let kubectl = Kubectl::new(&program, &dir);
        Ok(Self { dir, kubectl, processes, route, started: Vec::new() })
    }

    /// Starts the services again after [`DevCluster::stop_controllers`].
    pub(crate) async fn resume_services(&mut self, args: &UpArgs) -> Result<()> {
        let ports = Ports::load(&self.dir)?;
        self.start_services(args, &ports).await
    }

    /// A client with full permissions.
    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(client_config(&self.kubectl.kubeconfig).await?)?)
    }

    /// The port of the first replica of the webhook server.
    pub(crate) fn webhook_port(&self) -> Result<u16> {
        Ports::load(&self.dir)?.get(&suite::first(WEBHOOK_SERVER).webhook_port())
    }

    /// Ends the controllers. All other processes keep running, also the webhook server, because the API server calls it.
    pub(crate) async fn stop_controllers(&mut self) -> Result<()> {
        self.processes.end(&CONTROLLERS.map(str::to_owned)).await
    }

    /// Runs `work`, and fails as soon as a process of the dev cluster dies.
    pub(crate) async fn while_alive<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let outcome = tokio::select! {
            outcome = work => outcome,
            death = self.processes.wait_for_death() => Err(death),
        };
        // A dead process may be the cause of the error. Its last log lines explain more.
        outcome.map_err(|error| self.processes.find_dead().unwrap_or(error))
    }
}

async fn find_kubectl(source: &Source) -> Result<PathBuf> {
    match &source.kubeconfig {
        Some(file) => {
            // A missing file is reported before anything is built or started.
            File::open(file).with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
            binaries::any_kubectl(source)
        }
        None => Ok(binaries::folder(source).await?.join("kubectl")),
    }
}

/// Removes the webhooks from a cluster that `cargo xtask` did not start, before the process that answers them ends.
async fn unregister_webhooks(ending: &[String], kubectl: &Kubectl) {
    if ending.iter().any(|name| name == webhooks::BALANCER) {
        webhooks::unregister(kubectl).await;
    }
}

/// Ends clients before the servers they connect to, so that the logs are free of connection errors.
async fn end(processes: &mut Processes, names: &[String]) -> Result<()> {
    let servers = [control_plane::API_SERVER, control_plane::ETCD];
    let clients: Vec<String> = names.iter().filter(|name| !servers.contains(&name.as_str())).cloned().collect();
    processes.end(&clients).await?;
    for server in servers {
        if names.iter().any(|name| name == server) {
            processes.end(&[server.to_owned()]).await?;
        }
    }
    Ok(())
}
