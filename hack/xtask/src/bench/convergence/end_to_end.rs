//! The time from the creation of a `PodCliqueSet` until all its pods are Ready, once per strategy: with the scheduler, the `DaemonSet`
//! controller and all services of Grove. The kubelets and their plugin are simulated.

use crate::args::{Convergence, UpArgs};
use crate::dev_cluster::DevCluster;
use crate::domain_simulation::cluster::{Simulation, up_args};
use crate::domain_simulation::daemon::Program;
use crate::domain_simulation::kubelets::Kubelets;
use crate::workspace;
use anyhow::{Context, Result};
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::compute_domain_channels::{CHANNELS, DAEMONS};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::conditions::is_deleted;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The nodes, and the pods of the set: one on each node.
pub(super) const NODES: u32 = 72;
const NAMESPACE: &str = "default";
const SET: &str = "llm";
/// The domain of the only replica of the set.
const DOMAIN: &str = "llm-0";
/// A strategy needs minutes.
const CUTOFF: Duration = Duration::from_mins(5);
/// Bounds a hang.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The time of one strategy; `None` if the pods were not Ready in time.
pub(super) type Time = (Strategy, Option<Duration>);

/// Measures each strategy. At the end, the services have their usual configuration again.
pub(super) async fn measure(
    cluster: &mut DevCluster,
    simulation: &Simulation,
    args: &Convergence,
) -> Result<Vec<Time>> {
    CHANNELS.install(&simulation.admin, 1).await?;
    DAEMONS.install(&simulation.admin, 1).await?;
    let mut times = Vec::new();
    for strategy in args.strategies() {
        let configuration = write_configuration(cluster, strategy)?;
        let up = up_args(cluster.dir.clone(), NODES);
        cluster.resume_services(&UpArgs { config: Some(configuration), ..up }).await?;
        let time = measure_one(simulation, strategy).await;
        let time = time.with_context(|| format!("end to end, {}", strategy.name()))?;
        println!("end to end, {}: {time:?}", strategy.name());
        times.push((strategy, time));
    }
    let up = up_args(cluster.dir.clone(), NODES);
    cluster.resume_services(&up).await?;
    Ok(times)
}

/// Writes the configuration with this strategy.
fn write_configuration(cluster: &DevCluster, strategy: Strategy) -> Result<PathBuf> {
    let base = up_args(cluster.dir.clone(), NODES).config.context("a configuration")?;
    let mut configuration: Value = serde_saphyr::from_str(&std::fs::read_to_string(base)?)?;
    configuration["computeDomain"]["syncStrategy"] = json!(strategy.name());
    let file = cluster.dir.join(format!("{}.yaml", strategy.name()));
    workspace::write_private(&file, &configuration.to_string())?;
    Ok(file)
}

async fn measure_one(simulation: &Simulation, strategy: Strategy) -> Result<Option<Duration>> {
    let sets = Api::<PodCliqueSet>::namespaced(simulation.admin.clone(), NAMESPACE);
    let domains = Api::<ComputeDomain>::namespaced(simulation.admin.clone(), NAMESPACE);
    let began = Instant::now();
    sets.create(&PostParams::default(), &set()?).await?;
    let exists = |domain: Option<&ComputeDomain>| domain.is_some_and(|it| it.metadata.uid.is_some());
    let domain = timeout(TIMEOUT, await_condition(domains.clone(), DOMAIN, exists)).await.context("no domain")??;
    let domain = domain.context("the domain was deleted")?;
    let uid = domain.metadata.uid.clone().unwrap_or_default();
    let mut kubelets = Kubelets::start(simulation, domain, Program::Daemon(strategy)).await?;
    let outcome = timeout(CUTOFF, kubelets.run_until(usize::try_from(NODES)?)).await;
    let time = outcome.is_ok().then(|| began.elapsed());
    outcome.unwrap_or(Ok(()))?;
    sets.delete(SET, &DeleteParams::background()).await?;
    tokio::select! {
        ended = kubelets.run() => ended?,
        deleted = timeout(TIMEOUT, await_condition(domains, DOMAIN, is_deleted(&uid))) => {
            deleted.context("the domain is not deleted")??;
        }
    }
    Ok(time)
}

/// A set whose pods need all GPUs of a node.
fn set() -> Result<PodCliqueSet> {
    let container = json!({ "name": "main", "image": "registry.example/pause:1",
        "resources": { "limits": { "nvidia.com/gpu": 8 } } });
    let clique = json!({ "name": "w", "spec": { "roleName": "w", "replicas": NODES,
        "podSpec": { "containers": [container] } } });
    let set = json!({
        "metadata": { "name": SET, "annotations": { "grove.io/auto-mnnvl": "enabled" } },
        "spec": { "replicas": 1, "template": { "cliques": [clique] } },
    });
    serde_json::from_value(set).context("the set of the benchmark is not valid")
}
