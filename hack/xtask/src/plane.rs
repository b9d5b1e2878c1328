//! One plane: a folder with a control plane, its nodes and the services, brought up step by step and ended as a whole.

use crate::args::{Source, Wish};
use crate::control_plane::{self, ControlPlane};
use crate::interrupt::interrupted;
use crate::kubectl::Kubectl;
use crate::ports::Ports;
use crate::processes::{Ensured, Launch, Processes};
use crate::services::Replica;
use crate::{accounts, binaries, credentials, nodes, services, webhooks, workspace};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const DEFAULT_NODES: u32 = 10;
/// It bounds a hang, on a machine that is many times slower than usual too.
const API_SERVER_WITHIN: Duration = Duration::from_mins(5);
/// The same, for kubectl.
const WITHIN: &str = "--timeout=5m";

/// What a plane leaves in its folder while it runs. Logs and the audit log stay afterwards, for whoever asks why.
const STATE: [&str; 7] = ["etcd", "pki", "sa", "kubectl-cache", "ports.json", "pids.json", "config.yaml"];
const RECORDS: [&str; 2] = ["log", "audit.log"];

/// What the verbs leave in a cluster that they did not start.
const LEFT: &str = "left in your cluster: the CRDs, the namespace grove-system, and the services' ClusterRoles";

pub(crate) struct Plane {
    pub(crate) dir: PathBuf,
    pub(crate) kubectl: Kubectl,
    pub(crate) processes: Processes,
    /// What this process has started, and ends again if it does not succeed.
    started: Vec<String>,
}

/// What becomes of the plane after successful work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Afterwards {
    Stays,
    Ends,
}

pub(crate) async fn up(source: &Source, wish: &Wish) -> Result<()> {
    with_plane(source, wish, Afterwards::Stays, async |plane: &mut Plane| {
        println!("logs: {}", plane.dir.join("log").display());
        println!("kubectl of the same version: {}", plane.dir.join("kubectl").display());
        println!("export KUBECONFIG={}", plane.kubectl.kubeconfig.display());
        Ok(())
    })
    .await
}

pub(crate) async fn down(dir: &Path) -> Result<()> {
    if !dir.is_dir() {
        println!("nothing runs in {}", dir.display());
        return Ok(());
    }
    is_a_plane(dir)?;
    // Held also when nothing runs: somebody may be about to start something here.
    let _lock = lock(dir)?;
    let mut processes = Processes::of(dir)?;
    let running = processes.alive();
    if running.is_empty() {
        println!("nothing runs in {}", dir.display());
    } else {
        end(&mut processes, &running).await?;
        println!("ended {}", running.join(", "));
        if !running.iter().any(|name| name == control_plane::API_SERVER) {
            println!("{LEFT}");
        }
    }
    forget(dir, &STATE)
}

/// Brings a plane up, does some work with it, and ends it if that was wished, if anything failed, or if somebody said
/// stop. What ran before this process began is never ended by it.
pub(crate) async fn with_plane<W>(source: &Source, wish: &Wish, afterwards: Afterwards, work: W) -> Result<()>
where
    W: AsyncFnOnce(&mut Plane) -> Result<()>,
{
    let mut plane = Plane::open(source, wish).await?;
    let both = async {
        plane.bring_up(source, wish).await?;
        work(&mut plane).await
    };
    let outcome = tokio::select! {
        outcome = both => outcome,
        reason = interrupted() => Err(reason),
    };
    if outcome.is_err() || afterwards == Afterwards::Ends {
        // Without the lock somebody else is at work here: what this process has started ends, the files stay.
        let lock = lock(&plane.dir);
        let started = std::mem::take(&mut plane.started);
        end(&mut plane.processes, &started).await?;
        if lock.is_ok() && plane.processes.alive().is_empty() {
            forget(&plane.dir, &STATE)?;
        }
        if source.kubeconfig.is_some() {
            println!("{LEFT}");
        }
    }
    outcome
}

impl Plane {
    async fn open(source: &Source, wish: &Wish) -> Result<Self> {
        let dir = workspace::plane_dir(wish.dir.clone());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        is_a_plane(&dir)?;
        let kubectl = tokio::select! {
            kubectl = find_kubectl(source) => kubectl?,
            reason = interrupted() => return Err(reason),
        };
        let processes = Processes::of(&dir)?;
        let kubectl = Kubectl::new(&kubectl, &dir);
        Ok(Self { dir, kubectl, processes, started: Vec::new() })
    }

    async fn bring_up(&mut self, source: &Source, wish: &Wish) -> Result<()> {
        let began = Instant::now();
        if !wish.no_services {
            services::build().await?;
        }
        let _lock = lock(&self.dir)?;
        if self.processes.alive().is_empty() {
            forget(&self.dir, &STATE)?;
            forget(&self.dir, &RECORDS)?;
            forget_rotated(&self.dir)?;
            self.processes = Processes::of(&self.dir)?;
        } else {
            println!("{} runs already; looking after what is missing", self.dir.display());
            for name in self.processes.bury()? {
                println!(
                    "{name} had died; its log is {}",
                    self.dir.join("log").join(&name).with_extension("log").display()
                );
            }
        }
        let cache = binaries::cache(source)?;
        let ports = Ports::choose(&self.dir, &cache, &port_names(source, wish), wish.port)?;
        self.link_kubectl()?;
        match &source.kubeconfig {
            Some(file) => self.use_cluster(file)?,
            None => self.start_control_plane(source, wish, &ports).await?,
        }
        let balancer = ports.of(webhooks::BALANCER).ok();
        self.apply_manifests(source, wish, balancer).await?;
        println!("control plane ready after {:.1} s", began.elapsed().as_secs_f64());
        if !wish.no_services {
            self.start_services(wish, &ports).await?;
            println!("services ready after {:.1} s", began.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn link_kubectl(&self) -> Result<()> {
        let link = self.dir.join("kubectl");
        _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&self.kubectl.program, &link)
            .with_context(|| format!("cannot make the link {}", link.display()))
    }

    fn use_cluster(&self, kubeconfig: &Path) -> Result<()> {
        println!("without webhooks: the API server of your cluster does not reach processes of this machine");
        if self.processes.is_alive(control_plane::API_SERVER) {
            bail!("{} runs a control plane of its own; give another --dir", self.dir.display());
        }
        let text = std::fs::read_to_string(kubeconfig)
            .with_context(|| format!("cannot read the kubeconfig {}", kubeconfig.display()))?;
        workspace::write_private(&self.kubectl.kubeconfig, &text)
    }

    async fn start_control_plane(&mut self, source: &Source, wish: &Wish, ports: &Ports) -> Result<()> {
        let binaries = binaries::folder(source).await?;
        credentials::create(&self.dir, ports.of(control_plane::API_SERVER)?)?;
        let dir = self.dir.clone();
        let kubernetes = ControlPlane { dir: &dir, binaries: &binaries, ports, native_gangs: wish.native_gangs };
        self.ensure(&kubernetes.etcd()?).await?;
        self.ensure(&kubernetes.api_server()?).await?;
        let answers = async {
            while self.kubectl.run(&["get", "--raw=/readyz"]).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        };
        self.while_alive(async {
            timeout(API_SERVER_WITHIN, answers).await.unwrap_or_else(|_| {
                bail!(
                    "the API server is not ready after {API_SERVER_WITHIN:?}; its last lines:\n{}",
                    self.processes.last_lines(control_plane::API_SERVER, 20)
                )
            })
        })
        .await?;
        for part in kubernetes.followers()? {
            self.ensure(&part).await?;
        }
        Ok(())
    }

    /// Applies what the plane needs and waits until the cluster has taken it in.
    async fn apply_manifests(&self, source: &Source, wish: &Wish, balancer: Option<u16>) -> Result<()> {
        let folder = workspace::root().join("crds");
        let crds = self.kubectl.run(&["kustomize", &folder.display().to_string()]).await?;
        let mut manifests = crds.clone();
        if source.kubeconfig.is_none() {
            manifests.push_str("\n---\n");
            manifests.push_str(&std::fs::read_to_string(workspace::control_plane().join("kwok-rbac.yaml"))?);
            manifests.push_str(&nodes::manifests(wish.nodes.unwrap_or(DEFAULT_NODES)));
        }
        if !wish.no_services {
            manifests.push_str(&services::manifests(&self.kubectl, wish.config.as_deref(), balancer).await?);
        }
        let own = source.kubeconfig.is_none();
        self.while_alive(async {
            self.kubectl.apply(&manifests).await?;
            self.kubectl.feed(&["wait", "--for=condition=Established", WITHIN, "-f", "-"], &crds).await?;
            if own {
                if let Some(count) = wish.nodes {
                    self.remove_surplus_nodes(count).await?;
                }
                self.kubectl.run(&["wait", "--for=condition=Ready", "node", "--all", WITHIN]).await?;
                // Until it exists, the API server refuses every pod of the namespace.
                let account = ["wait", "--for=create", "serviceaccount/default", "-n", "default", WITHIN];
                self.kubectl.run(&account).await?;
            }
            Ok(())
        })
        .await
    }

    /// A plane that ran already may have had more nodes.
    async fn remove_surplus_nodes(&self, count: u32) -> Result<()> {
        let listed = self.kubectl.run(&["get", "nodes", "--output=name"]).await?;
        let surplus = nodes::surplus(&listed, count);
        if surplus.is_empty() {
            return Ok(());
        }
        self.kubectl.run(&[["delete"].as_slice(), &surplus].concat()).await?;
        println!("removed {}; pods on them go within a minute", surplus.join(", "));
        Ok(())
    }

    async fn start_services(&mut self, wish: &Wish, ports: &Ports) -> Result<()> {
        services::write_configuration(&self.dir, wish.config.as_deref())?;
        self.while_alive(accounts::issue(&self.kubectl, &self.dir)).await?;
        let dir = self.dir.clone();
        self.ensure(&accounts::keeper(&dir)?).await?;
        // Without a control plane of ours, the API server does not reach this machine.
        let has_webhooks = ports.of(webhooks::BALANCER).is_ok();
        let replicas =
            || services::replicas(wish.replicas()).filter(|replica| has_webhooks || !replica.is_of(webhooks::SERVICE));
        for replica in replicas() {
            self.ensure(&services::launch(&dir, ports, replica)?).await?;
        }
        if has_webhooks {
            self.ensure(&webhooks::balancer(&dir, ports, wish.replicas())?).await?;
        }
        for replica in replicas() {
            self.while_alive(services::until_ready(&self.processes, ports, replica)).await?;
        }
        Ok(())
    }

    /// Starts the services of a plane that has been brought up and whose services were stopped.
    pub(crate) async fn resume_services(&mut self, wish: &Wish) -> Result<()> {
        // Everything has its port already, so nothing is chosen here.
        let ports = Ports::choose(&self.dir, &self.dir, &[], None)?;
        self.start_services(wish, &ports).await
    }

    /// Where the webhooks are served.
    pub(crate) fn port_of_webhooks(&self) -> Result<u16> {
        Ports::choose(&self.dir, &self.dir, &[], None)?.of(&services::first(webhooks::SERVICE).webhook_port())
    }

    /// Ends the controllers; everything else runs on, whoever the API server asks before it stores something included.
    pub(crate) async fn stop_controllers(&mut self) -> Result<()> {
        self.processes.end(&services::CONTROLLERS.map(str::to_owned)).await
    }

    async fn ensure(&mut self, launch: &Launch) -> Result<()> {
        if self.processes.ensure(launch).await? == Ensured::Started {
            self.started.push(launch.name.clone());
        }
        Ok(())
    }

    /// Does this unless one of the plane's processes dies meanwhile.
    pub(crate) async fn while_alive<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::select! {
            done = work => done,
            death = self.processes.death() => Err(death),
        };
        // What failed may have failed because a process died a moment ago; then its last lines are the better answer.
        done.map_err(|error| self.processes.found_dead().unwrap_or(error))
    }
}

async fn find_kubectl(source: &Source) -> Result<PathBuf> {
    match &source.kubeconfig {
        Some(file) => {
            // Before anything is built or begun for it.
            File::open(file).with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
            binaries::any_kubectl(source)
        }
        None => Ok(binaries::folder(source).await?.join("kubectl")),
    }
}

fn port_names(source: &Source, wish: &Wish) -> Vec<String> {
    let mut names = Vec::new();
    if source.kubeconfig.is_none() {
        names.extend(control_plane::PORTS.map(str::to_owned));
    }
    if !wish.no_services {
        names.extend(services::replicas(wish.replicas()).flat_map(Replica::ports));
        if source.kubeconfig.is_none() {
            names.push(webhooks::BALANCER.to_owned());
        }
    }
    names
}

/// Name of the file by which one verb at a time changes a plane; it also marks the folder as a plane's.
const LOCK: &str = "lock";

/// Files of a plane are removed when it begins and ends, so a folder with files of somebody else is not taken.
fn is_a_plane(dir: &Path) -> Result<()> {
    let empty = std::fs::read_dir(dir)?.next().is_none();
    if !empty && !dir.join(LOCK).exists() {
        bail!("--dir {} has files that are not a plane's; give an empty or a new folder", dir.display());
    }
    File::options().create(true).append(true).open(dir.join(LOCK))?;
    Ok(())
}

/// One verb at a time changes a plane.
fn lock(dir: &Path) -> Result<File> {
    let lock = File::create(dir.join(LOCK))?;
    if lock.try_lock().is_err() {
        bail!("another `cargo xtask` is bringing {} up or down", dir.display());
    }
    Ok(lock)
}

/// Ends clients before the servers they talk to, so that no log fills with complaints.
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

/// Removes these of the plane's files; nothing else that may lie in the folder.
/// The parts of a long audit log that the API server moved out of its way.
fn forget_rotated(dir: &Path) -> Result<()> {
    let is_rotated = |name: &str| name.starts_with("audit-");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_rotated(name)).try_for_each(|name| forget(dir, &[&name]))
}

fn forget(dir: &Path, names: &[&str]) -> Result<()> {
    let kubeconfigs = credentials::kubeconfigs(dir);
    for path in names.iter().map(|name| dir.join(name)).chain(kubeconfigs) {
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
