//! The Grove services that exist: building them, their manifests without the Deployments, and their command lines.

use crate::accounts;
use crate::kubectl::Kubectl;
use crate::ports::Ports;
use crate::processes::{Launch, Processes};
use crate::{webhooks, workspace};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

pub(crate) const NAMESPACE: &str = "grove-system";

/// In the order in which they are started; that order carries no meaning.
pub(crate) const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", webhooks::SERVICE];
/// Those that make objects of others.
pub(crate) const CONTROLLERS: [&str; 2] = ["pcs-controller", "pclq-controller"];

/// It bounds a hang, on a machine that is many times slower than usual too.
const READY_WITHIN: Duration = Duration::from_mins(5);

/// One process of a service.
#[derive(Clone, Copy)]
pub(crate) struct Replica {
    service: &'static str,
    number: u32,
}

/// As many processes of each service.
pub(crate) fn replicas(of_each: u32) -> impl Iterator<Item = Replica> {
    SERVICES.into_iter().flat_map(move |service| (0..of_each).map(move |number| Replica { service, number }))
}

/// The first process of a service.
pub(crate) fn first(service: &'static str) -> Replica {
    Replica { service, number: 0 }
}

impl Replica {
    /// What its process and its log are called, and the replica in its lease; the first is called like the service.
    pub(crate) fn name(self) -> String {
        let Self { service, number } = self;
        if number == 0 { service.to_owned() } else { format!("{service}-{number}") }
    }

    pub(crate) fn is_of(self, service: &str) -> bool {
        self.service == service
    }

    pub(crate) fn webhook_port(self) -> String {
        format!("{}-webhooks", self.name())
    }

    /// The names of all ports that it needs.
    pub(crate) fn ports(self) -> Vec<String> {
        let mut ports = vec![self.probe_port(), self.metrics_port()];
        if self.is_of(webhooks::SERVICE) {
            ports.push(self.webhook_port());
        }
        ports
    }

    pub(crate) fn probe_port(self) -> String {
        format!("{}-probe", self.name())
    }

    pub(crate) fn metrics_port(self) -> String {
        format!("{}-metrics", self.name())
    }
}

/// Compiles the services of this clone.
pub(crate) async fn build() -> Result<()> {
    let mut cargo = workspace::cargo();
    // With xtask among them, dependencies get the very features that `cargo xtask` was compiled with, and nothing is
    // compiled twice.
    cargo.args(["build", "--package", "xtask"]);
    for service in SERVICES {
        cargo.args(["--package", service]);
    }
    if !cfg!(debug_assertions) {
        // An optimised xtask runs optimised services: they lie beside it.
        cargo.arg("--release");
    }
    if !cargo.status().await.context("cannot run cargo")?.success() {
        bail!("the services do not compile");
    }
    Ok(())
}

/// The namespace, the configuration, the accounts and their rules, and what the API server asks at the port of
/// `balancer`, if it can reach that; what is deployed in a cluster runs here as plain processes.
pub(crate) async fn manifests(kubectl: &Kubectl, given: Option<&Path>, balancer: Option<u16>) -> Result<String> {
    let mut rendered = String::new();
    for base in ["common"].into_iter().chain(SERVICES) {
        let folder = workspace::root().join("deploy/base").join(base);
        rendered += &kubectl.run(&["kustomize", &folder.display().to_string()]).await?;
        rendered += "\n---\n";
    }
    let protection = balancer.map(|_| webhooks::protection(&configuration(given)?)).transpose()?.flatten();
    rendered += &protection.unwrap_or_default();
    let mut all = String::new();
    for manifest in rendered.split("\n---\n").filter(|manifest| !manifest.trim().is_empty()) {
        if let Some(adapted) = webhooks::adapted(manifest, balancer)? {
            all += "\n---\n";
            all += &adapted;
        }
    }
    Ok(all)
}

/// The configuration that the services read: the given file, or what the shared `ConfigMap` carries.
fn configuration(given: Option<&Path>) -> Result<String> {
    match given {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display())),
        None => shipped_configuration(),
    }
}

pub(crate) fn write_configuration(dir: &Path, given: Option<&Path>) -> Result<()> {
    workspace::write_private(&dir.join("config.yaml"), &configuration(given)?)
}

fn shipped_configuration() -> Result<String> {
    let file = workspace::root().join("deploy/base/common/operator-configuration.yaml");
    let manifest: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)?;
    let text = manifest["data"]["config.yaml"].as_str();
    text.map(str::to_owned).with_context(|| format!("{} carries no config.yaml", file.display()))
}

pub(crate) fn launch(dir: &Path, ports: &Ports, replica: Replica) -> Result<Launch> {
    let kubeconfig = accounts::folder(dir, replica.service).join("kubeconfig");
    let config = dir.join("config.yaml");
    let mut arguments = vec![
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--config".to_owned(),
        config.display().to_string(),
        "--identity".to_owned(),
        replica.name(),
        "--probe-address".to_owned(),
        format!("127.0.0.1:{}", ports.of(&replica.probe_port())?),
        "--metrics-address".to_owned(),
        format!("127.0.0.1:{}", ports.of(&replica.metrics_port())?),
    ];
    if replica.is_of(webhooks::SERVICE) {
        arguments.extend(webhooks::flags(ports, replica)?);
    }
    let program = workspace::binary(replica.service)?;
    Ok(Launch { name: replica.name(), program, arguments, inputs: vec![kubeconfig, config] })
}

/// Waits until the process says that it is ready.
pub(crate) async fn until_ready(processes: &Processes, ports: &Ports, replica: Replica) -> Result<()> {
    let (name, port) = (replica.name(), ports.of(&replica.probe_port())?);
    let ready = async {
        while !is_ready(port).await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    if timeout(READY_WITHIN, ready).await.is_err() {
        bail!("{name} is not ready after {READY_WITHIN:?}; its last lines:\n{}", processes.last_lines(&name, 20));
    }
    Ok(())
}

pub(crate) async fn is_ready(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").await?;
        let mut answer = [0_u8; 12];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer.ends_with(b" 200"))
    };
    matches!(timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
}

#[cfg(test)]
mod tests {
    use super::shipped_configuration;

    #[test]
    fn the_shipped_configuration_is_found() {
        assert!(shipped_configuration().unwrap().contains("kind: OperatorConfiguration"));
    }
}
