//! Builds the Grove services, renders their manifests without the Deployments, and starts them as plain processes.

use crate::ports::Ports;
use crate::processes::{ProcessSpec, Processes};
use crate::suite::{Replica, SERVICES};
use crate::webhooks::WebhookRoute;
use crate::workload_api::WorkloadApi;
use crate::{service_accounts, webhooks, workspace};
use anyhow::{Context, Result, bail};
use grove_api_types::configuration::{OperatorConfiguration, StateSync};
use grove_api_types::scheduler::{GangSupport, Scheduler};
use grove_api_types::startup::INIT_CONTAINER;
use grove_dev_harness::readiness_probe;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use xtask::generate;

/// Bounds a hang. A machine may be many times slower than usual.
const READY_TIMEOUT: Duration = Duration::from_mins(5);

/// Compiles the services of this clone.
pub(crate) async fn build() -> Result<()> {
    let mut cargo = workspace::cargo();
    // With xtask in the selection, Cargo resolves the same features of dependencies as for `cargo xtask`, so it compiles no
    // dependency twice.
    cargo.args(["build", "--package", "xtask"]);
    for package in SERVICES.into_iter().chain([compute_domain_daemon::NAME, INIT_CONTAINER]) {
        cargo.args(["--package", package]);
    }
    if !cfg!(debug_assertions) {
        // An optimised xtask starts the services from its own folder, which has the optimised ones.
        cargo.arg("--release");
    }
    if !cargo.status().await.context("cannot run cargo")?.success() {
        bail!("the services do not compile");
    }
    Ok(())
}

/// The namespace, the configuration, the ServiceAccounts, the RBAC rules and the webhook configurations. The API server calls the
/// webhooks by the route and the port.
pub(crate) fn manifests(
    config: Option<&Path>,
    (route, port): (&WebhookRoute, u16),
    workload_api: WorkloadApi,
) -> Result<String> {
    let mut rendered = String::new();
    for base in ["common"].into_iter().chain(SERVICES) {
        let folder = workspace::root().join("deploy/base").join(base);
        rendered += &workspace::kustomization(&folder)?;
    }
    let configuration = configuration(config)?;
    if *route != WebhookRoute::Unreachable {
        rendered += &webhooks::authorizer_manifest(&configuration)?.unwrap_or_default();
    }
    let is_permitted =
        |scheduler: &Scheduler| workload_api.is_permitted() || scheduler.gang_support() != GangSupport::WorkloadApi;
    let configuration = read(&configuration);
    if configuration.compute_domains.state_sync == StateSync::Grove {
        rendered = workspace::with_component(&rendered, "compute-domain-state")?;
    }
    for scheduler in configured_schedulers(&configuration).filter(is_permitted) {
        let file = workspace::root().join(generate::scheduler_rbac(scheduler));
        rendered += workspace::NEXT_MANIFEST;
        rendered += &std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let mut all = String::new();
    for manifest in rendered.split(workspace::NEXT_MANIFEST).filter(|manifest| !manifest.trim().is_empty()) {
        if let Some(adapted) = webhooks::adapt_manifest(manifest, route, port)? {
            all += workspace::NEXT_MANIFEST;
            all += &adapted;
        }
    }
    Ok(all)
}

/// The configuration in the text. The services report the errors of an invalid one.
fn read(configuration: &str) -> OperatorConfiguration {
    let content: serde_json::Value = serde_saphyr::from_str(configuration).unwrap_or_default();
    OperatorConfiguration::read(&content).map(|(read, _)| read).unwrap_or_default()
}

/// The schedulers of the configuration with a component of their own.
fn configured_schedulers(configuration: &OperatorConfiguration) -> impl Iterator<Item = Scheduler> {
    let with_component: BTreeSet<_> = generate::rules_of_schedulers().iter().map(|of| of.scheduler).collect();
    with_component.into_iter().filter(|scheduler| configuration.schedulers.contains(*scheduler))
}

/// The given configuration file, or the configuration in the shared `ConfigMap`.
fn configuration(file: Option<&Path>) -> Result<String> {
    match file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display())),
        None => default_configuration(),
    }
}

/// Writes the file that the services read their configuration from.
pub(crate) fn write_configuration(dir: &Path, file: Option<&Path>) -> Result<()> {
    workspace::write_private(&dir.join("config.yaml"), &configuration(file)?)
}

fn default_configuration() -> Result<String> {
    let file = workspace::root().join("deploy/base/common/operator-configuration.yaml");
    let manifest: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)?;
    let text = manifest["data"]["config.yaml"].as_str();
    text.map(str::to_owned).with_context(|| format!("{} has no config.yaml", file.display()))
}

/// The process of one replica. The API server calls the webhooks by the route.
pub(crate) fn process(dir: &Path, ports: &Ports, replica: Replica, route: &WebhookRoute) -> Result<ProcessSpec> {
    let kubeconfig = service_accounts::folder(dir, replica.service).join("kubeconfig");
    let config = dir.join("config.yaml");
    let mut arguments = vec![
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--config".to_owned(),
        config.display().to_string(),
        "--identity".to_owned(),
        replica.name(),
        "--probe-address".to_owned(),
        format!("127.0.0.1:{}", ports.get(&replica.probe_port())?),
        "--metrics-address".to_owned(),
        format!("127.0.0.1:{}", ports.get(&replica.metrics_port())?),
    ];
    if replica.serves_webhooks() {
        arguments.extend(webhooks::flags(ports, replica, route)?);
    }
    let program = workspace::binary(replica.service)?;
    Ok(ProcessSpec { inputs: vec![kubeconfig, config], ..ProcessSpec::new(replica.name(), program, arguments) })
}

/// Waits until the readiness probe of the replica succeeds.
pub(crate) async fn wait_ready(processes: &Processes, ports: &Ports, replica: Replica) -> Result<()> {
    let (name, port) = (replica.name(), ports.get(&replica.probe_port())?);
    if timeout(READY_TIMEOUT, readiness_probe::wait_for_success(port)).await.is_err() {
        bail!("{name} is not ready after {READY_TIMEOUT:?}; its last log lines:\n{}", processes.log_tail(&name, 20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::default_configuration;

    #[test]
    fn the_config_map_has_the_default_configuration() {
        assert!(default_configuration().unwrap().contains("kind: OperatorConfiguration"));
    }
}
