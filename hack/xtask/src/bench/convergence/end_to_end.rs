//! The time from the creation of a `PodCliqueSet` until all its pods are Ready, once per strategy: with the scheduler, the `DaemonSet`
//! controller and all services of Grove. The kubelets and their plugin are simulated.

use crate::args::{Convergence, UpArgs};
use crate::dev_cluster::DevCluster;
use crate::domain_simulation::cluster::{Simulation, up_args, write_configuration};
use crate::domain_simulation::daemon::Program;
use crate::domain_simulation::kubelets::Kubelets;
use anyhow::{Context, Result};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::compute_domain_channels::{CHANNELS, DAEMONS};
use grove_dev_harness::wait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The nodes, and the pods of the set: one on each node.
pub(super) const NODES: u32 = 72;
const NAMESPACE: &str = "default";
const SET: &str = "llm";
/// The strategy of the first set, which is not measured.
const WARM_UP: Strategy = Strategy::ControllerClique;
/// The domain of the only replica of the set.
const DOMAIN: &str = "llm-0";
/// A strategy needs minutes.
const CUTOFF: Duration = Duration::from_mins(5);
/// Bounds a hang.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The time of one strategy; `None` if the pods were not Ready in time.
pub(super) type EndToEndTime = (Strategy, Option<Duration>);

/// Measures each strategy. At the end, the services have their usual configuration again.
pub(super) async fn measure(
    cluster: &mut DevCluster,
    simulation: &Simulation,
    args: &Convergence,
) -> Result<Vec<EndToEndTime>> {
    CHANNELS.install(&simulation.admin, 1).await?;
    DAEMONS.install(&simulation.admin, 1).await?;
    let up = up_args(cluster.dir.clone(), NODES);
    let mut times = Vec::new();
    // The first set only warms up the control plane.
    for (strategy, is_measured) in
        [(WARM_UP, false)].into_iter().chain(args.strategies().into_iter().map(|it| (it, true)))
    {
        let change =
            |configuration: &mut Value| configuration["computeDomain"]["syncStrategy"] = json!(strategy.name());
        let config = Some(write_configuration(&up, change)?);
        cluster.resume_services(&UpArgs { config, ..up.clone() }).await?;
        let time = measure_one(simulation, strategy).await;
        let time = time.with_context(|| format!("end to end, {}", strategy.name()))?;
        println!("end to end, {}: {time:?}", strategy.name());
        times.extend(is_measured.then_some((strategy, time)));
    }
    cluster.resume_services(&up).await?;
    Ok(times)
}

async fn measure_one(simulation: &Simulation, strategy: Strategy) -> Result<Option<Duration>> {
    let sets = Api::<PodCliqueSet>::namespaced(simulation.admin.clone(), NAMESPACE);
    let domains = Api::<ComputeDomain>::namespaced(simulation.admin.clone(), NAMESPACE);
    let began = Instant::now();
    sets.create(&PostParams::default(), &set()?).await?;
    let exists = |domain: Option<&ComputeDomain>| domain.is_some_and(|it| it.metadata.uid.is_some());
    let domain = timeout(TIMEOUT, await_condition(domains, DOMAIN, exists)).await.context("no domain")??;
    let domain = domain.context("the domain was deleted")?;
    let mut kubelets = Kubelets::start(simulation, domain, Program::Daemon(strategy)).await?;
    let outcome = timeout(CUTOFF, kubelets.run_until(usize::try_from(NODES)?)).await;
    let time = outcome.is_ok().then(|| began.elapsed());
    outcome.unwrap_or(Ok(()))?;
    sets.delete(SET, &DeleteParams::background()).await?;
    let nothing_left =
        wait::poll(Duration::from_millis(500), async || is_nothing_left(simulation).await.ok()?.then_some(()));
    tokio::select! {
        ended = kubelets.run() => ended?,
        removed = timeout(TIMEOUT, nothing_left) => removed.context("objects of the set are left")?,
    }
    Ok(time)
}

/// Whether the domain, all pods and all claims are deleted. Objects of one set would delay the next set.
async fn is_nothing_left(simulation: &Simulation) -> kube::Result<bool> {
    let (client, all) = (|| simulation.admin.clone(), ListParams::default());
    let of_domain = ListParams::default().labels(DOMAIN_LABEL);
    let domains = Api::<ComputeDomain>::namespaced(client(), NAMESPACE).list_metadata(&all).await?.items;
    let pods = Api::<Pod>::namespaced(client(), NAMESPACE).list_metadata(&all).await?.items;
    let daemons = Api::<Pod>::namespaced(client(), SYSTEM_NAMESPACE).list_metadata(&of_domain).await?.items;
    let claims = Api::<ResourceClaim>::all(client()).list_metadata(&all).await?.items;
    Ok(domains.is_empty() && pods.is_empty() && daemons.is_empty() && claims.is_empty())
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
