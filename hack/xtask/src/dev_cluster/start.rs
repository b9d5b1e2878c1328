//! Starts a dev cluster step by step. Each step skips the parts that are already running and up to date.

use super::{DevCluster, crds, folder};
use crate::args::{Source, UpArgs};
use crate::control_plane::{self, ControlPlane};
use crate::ports::Ports;
use crate::processes::{EnsureOutcome, ProcessSpec, Processes};
use crate::suite::{Replica, replicas};
use crate::webhooks::WebhookRoute;
use crate::{binaries, credentials, nodes, objects, service_accounts, services, webhooks, workspace};
use anyhow::{Context, Result, bail};
use grove_dev_harness::wait;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const DEFAULT_NODES: u32 = 10;
/// Bounds a hang. A machine may be many times slower than usual.
const TIMEOUT: Duration = Duration::from_mins(5);

impl DevCluster {
    /// Starts all processes and applies all manifests.
    pub(crate) async fn start(&mut self, source: &Source, args: &UpArgs) -> Result<()> {
        let started = Instant::now();
        if !args.no_services && !args.no_build {
            services::build().await?;
        }
        let _lock = folder::lock(&self.dir)?;
        self.remove_leftovers()?;
        let fixed = args.port.map(|port| (control_plane::API_SERVER, port));
        let names = port_names(source, args, &self.route);
        let ports = Ports::choose(&self.dir, &binaries::cache(source)?, &names, fixed.as_slice())?;
        self.link_kubectl()?;
        match &source.kubeconfig {
            Some(file) => {
                self.use_cluster(file)?;
                self.apply_crds(&args.crds).await?;
            }
            None => self.start_control_plane(source, args, &ports).await?,
        }
        if !args.only_processes {
            self.apply_manifests(source, args, &ports).await?;
        }
        println!("control plane ready after {:.1} s", started.elapsed().as_secs_f64());
        if !args.no_services {
            self.start_services(args, &ports).await?;
            println!("services ready after {:.1} s", started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// Removes the files of an earlier dev cluster, or the dead processes of this one.
    fn remove_leftovers(&mut self) -> Result<()> {
        if self.processes.alive().is_empty() {
            folder::remove_state(&self.dir)?;
            folder::remove_logs(&self.dir)?;
            self.processes = Processes::load(&self.dir)?;
            return Ok(());
        }
        println!("{} is already running; starting what is missing", self.dir.display());
        for name in self.processes.remove_dead()? {
            let log = self.dir.join("log").join(&name).with_extension("log");
            println!("{name} had died; its log is {}", log.display());
        }
        Ok(())
    }

    fn link_kubectl(&self) -> Result<()> {
        let link = self.dir.join("kubectl");
        _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&self.kubectl.program, &link)
            .with_context(|| format!("cannot create the link {}", link.display()))
    }

    fn use_cluster(&self, kubeconfig: &Path) -> Result<()> {
        if let WebhookRoute::Host(host) = &self.route {
            println!("with webhooks: the API server of your cluster calls {host}");
        } else {
            println!(
                "without webhooks: the API server of your cluster does not reach this machine, or give --webhook-host"
            );
        }
        if self.processes.is_alive(control_plane::API_SERVER) {
            bail!("{} runs a control plane of its own; give another --dir", self.dir.display());
        }
        let text = std::fs::read_to_string(kubeconfig)
            .with_context(|| format!("cannot read the kubeconfig {}", kubeconfig.display()))?;
        workspace::write_private(&self.kubectl.kubeconfig, &text)
    }

    async fn start_control_plane(&mut self, source: &Source, args: &UpArgs, ports: &Ports) -> Result<()> {
        let binaries = binaries::folder(source).await?;
        credentials::create(&self.dir, ports.get(control_plane::API_SERVER)?)?;
        let dir = self.dir.clone();
        let control_plane = ControlPlane { dir: &dir, binaries: &binaries, ports, workload_api: args.native_gangs };
        self.ensure(&control_plane.etcd()?).await?;
        self.ensure(&control_plane.api_server()?).await?;
        self.while_alive(self.wait_for_api_server()).await?;
        // The garbage collector reads the kinds at its start, and later every 30 seconds. It neither releases nor awaits dependents of
        // kinds that it does not know yet.
        if !args.only_processes {
            self.apply_crds(&args.crds).await?;
        }
        for client in control_plane.api_clients()? {
            self.ensure(&client).await?;
        }
        Ok(())
    }

    /// Kills the API server, and starts it again.
    pub(crate) async fn restart_api_server(&mut self, source: &Source, args: &UpArgs) -> Result<()> {
        let (binaries, ports, dir) = (binaries::folder(source).await?, Ports::load(&self.dir)?, self.dir.clone());
        let control_plane =
            ControlPlane { dir: &dir, binaries: &binaries, ports: &ports, workload_api: args.native_gangs };
        self.processes.kill(control_plane::API_SERVER).await?;
        self.ensure(&control_plane.api_server()?).await?;
        self.wait_for_api_server().await
    }

    /// Kills the first replica of a service, and starts it again.
    pub(crate) async fn restart_service(&mut self, service: &'static str, args: &UpArgs) -> Result<()> {
        self.processes.kill(service).await?;
        self.resume_services(args).await
    }

    async fn wait_for_api_server(&self) -> Result<()> {
        let client = self.client().await?;
        let ready = wait::poll(Duration::from_millis(100), async || {
            let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
            client.request_text(request).await.is_ok().then_some(())
        });
        timeout(TIMEOUT, ready).await.with_context(|| {
            format!(
                "the API server is not ready after {TIMEOUT:?}; its last log lines:\n{}",
                self.processes.log_tail(control_plane::API_SERVER, 20)
            )
        })
    }

    /// Applies the CRDs of Grove, and those in `files`, and waits until the API server serves them.
    async fn apply_crds(&self, files: &[PathBuf]) -> Result<()> {
        self.while_alive(async { crds::apply(&self.client().await?, &self.dir, files).await }).await
    }

    /// Applies the other manifests of the dev cluster and waits until the nodes are Ready.
    async fn apply_manifests(&self, source: &Source, args: &UpArgs, ports: &Ports) -> Result<()> {
        let is_own_cluster = source.kubeconfig.is_none();
        let mut manifests = String::new();
        if is_own_cluster {
            manifests.push_str(&std::fs::read_to_string(workspace::control_plane().join("kwok-rbac.yaml"))?);
            manifests.push_str(&nodes::manifests(args.nodes.unwrap_or(DEFAULT_NODES)));
        }
        if !args.no_services {
            // Without webhooks, the balancer has no port.
            let target = (&self.route, ports.get(webhooks::BALANCER).unwrap_or_default());
            let config = args.config.as_deref();
            manifests.push_str(&services::manifests(config, target, args.native_gangs)?);
        }
        self.while_alive(async {
            if !manifests.is_empty() {
                objects::apply(&self.client().await?, &manifests).await?;
            }
            if is_own_cluster {
                self.wait_for_nodes(args.nodes).await?;
            }
            Ok(())
        })
        .await
    }

    async fn wait_for_nodes(&self, count: Option<u32>) -> Result<()> {
        if let Some(count) = count {
            self.remove_surplus_nodes(count).await?;
        }
        let client = self.client().await?;
        let waiting = async {
            objects::wait_for_nodes(&client).await?;
            objects::wait_for_default_account(&client).await
        };
        timeout(TIMEOUT, waiting).await.context("the nodes do not become Ready")?
    }

    /// Removes nodes if the dev cluster was started with more nodes before.
    async fn remove_surplus_nodes(&self, count: u32) -> Result<()> {
        let listed = self.kubectl.run(&["get", "nodes", "--output=name"]).await?;
        let surplus = nodes::surplus(&listed, count);
        if surplus.is_empty() {
            return Ok(());
        }
        self.kubectl.run(&[["delete"].as_slice(), &surplus].concat()).await?;
        println!("removed {}; their pods are deleted within a minute", surplus.join(", "));
        Ok(())
    }

    /// Starts the services, the token refresher and the balancer.
    pub(super) async fn start_services(&mut self, args: &UpArgs, ports: &Ports) -> Result<()> {
        if !args.only_processes {
            services::write_configuration(&self.dir, args.config.as_deref())?;
            self.while_alive(service_accounts::issue_tokens(&self.kubectl.kubeconfig, &self.dir)).await?;
        }
        let dir = self.dir.clone();
        self.ensure(&service_accounts::token_refresher(&dir)?).await?;
        let route = self.route.clone();
        let has_webhooks = route != WebhookRoute::Unreachable;
        let replicas = || replicas(args.replicas()).filter(|replica| has_webhooks || !replica.serves_webhooks());
        for replica in replicas() {
            self.ensure(&services::process(&dir, ports, replica, &route)?).await?;
        }
        if has_webhooks {
            self.ensure(&webhooks::balancer(&dir, ports, args.replicas(), &route)?).await?;
        }
        for replica in replicas() {
            self.while_alive(services::wait_ready(&self.processes, ports, replica)).await?;
        }
        Ok(())
    }

    async fn ensure(&mut self, spec: &ProcessSpec) -> Result<()> {
        if self.processes.ensure(spec).await? == EnsureOutcome::Started {
            self.started.push(spec.name.clone());
        }
        Ok(())
    }
}

fn port_names(source: &Source, args: &UpArgs, route: &WebhookRoute) -> Vec<String> {
    let mut names = Vec::new();
    if source.kubeconfig.is_none() {
        names.extend(control_plane::PORTS.map(str::to_owned));
    }
    if !args.no_services {
        names.extend(replicas(args.replicas()).flat_map(Replica::ports));
        if *route != WebhookRoute::Unreachable {
            names.push(webhooks::BALANCER.to_owned());
        }
    }
    names
}
