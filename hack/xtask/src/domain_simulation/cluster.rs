//! The dev cluster of simulated domains.

use crate::args::UpArgs;
use crate::dev_cluster::DevCluster;
use crate::{control_plane, service_accounts, workspace};
use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;
use std::path::PathBuf;

const CONFIGURATION: &str = "hack/xtask/src/domain_simulation/configuration.yaml";
const CRDS: &str = "deploy/components/compute-domains";
const DAEMON: &str = compute_domain_daemon::NAME;
/// The service that keeps the state of domains.
pub(crate) const CONTROLLER: &str = "mnnvl-controller";

/// The flags of the dev cluster.
pub(crate) fn up_args(dir: PathBuf, nodes: u32) -> UpArgs {
    let in_root = |path: &str| workspace::root().join(path);
    let crds = ["computedomain.yaml", "computedomainclique.yaml"].map(|file| in_root(CRDS).join(file));
    UpArgs {
        dir: Some(dir),
        nodes: Some(nodes),
        config: Some(in_root(CONFIGURATION)),
        crds: crds.into(),
        ..UpArgs::default()
    }
}

/// Writes the configuration of `up` with a change, and returns the file.
pub(crate) fn write_configuration(up: &UpArgs, change: impl FnOnce(&mut Value)) -> Result<PathBuf> {
    let (base, dir) = (up.config.as_ref().context("a configuration")?, up.dir.as_ref().context("a folder")?);
    let mut configuration: Value = serde_saphyr::from_str(&std::fs::read_to_string(base)?)?;
    change(&mut configuration);
    let file = dir.join("changed-config.yaml");
    workspace::write_private(&file, &configuration.to_string())?;
    Ok(file)
}

/// What simulated domains need of the dev cluster.
#[derive(Clone)]
pub(crate) struct Simulation {
    /// With all permissions.
    pub(crate) admin: Client,
    admin_kubeconfig: PathBuf,
    dir: PathBuf,
}

impl Simulation {
    /// KWOK ends: it would run the pods.
    pub(crate) async fn start(cluster: &mut DevCluster, client: Client) -> Result<Self> {
        cluster.processes.end(&[control_plane::KWOK.to_owned()]).await?;
        Ok(Self { admin: client, admin_kubeconfig: cluster.kubectl.kubeconfig.clone(), dir: cluster.dir.clone() })
    }

    /// The scheduler and the controllers of Kubernetes end: the nodes of the daemons do not exist, and they would delete the pods. Only etcd,
    /// the API server and the services remain.
    pub(crate) async fn end_kubernetes(cluster: &mut DevCluster) -> Result<()> {
        let others = [control_plane::CONTROLLER_MANAGER, control_plane::SCHEDULER];
        cluster.processes.end(&others.map(str::to_owned)).await
    }

    /// A kubeconfig of the daemons' account, with a fresh token.
    pub(super) async fn daemon_kubeconfig(&self) -> Result<PathBuf> {
        service_accounts::issue(&self.admin, &self.admin_kubeconfig, &self.dir, DAEMON).await
    }
}
