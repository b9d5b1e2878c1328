//! Services that a test starts outside of every cluster, with files of its own, to observe their output and readiness.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rustix::process::Signal;
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};

use crate::service_replica::signal_and_wait;
use crate::test_cluster::required_env;

/// The binary of a service that `cargo xtask` built.
///
/// # Panics
/// If `cargo xtask` did not start the test.
pub fn program(service: &str) -> PathBuf {
    PathBuf::from(required_env("GROVE_XTASK")).with_file_name(service)
}

/// Runs a service until it exits; the result is its output and its exit status.
///
/// # Panics
/// If it cannot be started.
pub async fn run_to_exit(service: &str, flags: &[String]) -> Output {
    let mut command = Command::new(program(service));
    command.args(flags).stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the service runs")
}

/// Writes a kubeconfig without a reachable API server into a folder.
///
/// # Panics
/// If the file cannot be written.
pub fn unreachable_kubeconfig(folder: &Path) -> String {
    let config = serde_json::json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
    let file = folder.join("unreachable.kubeconfig");
    std::fs::write(&file, config.to_string()).expect("the file is written");
    file.display().to_string()
}

/// One process with ports of its own. It is killed when the value is dropped.
pub struct StandaloneService {
    /// The port of the probes.
    pub probes: u16,
    /// The port of the metrics.
    pub metrics: u16,
    process: Child,
    /// Bound sockets reserve the ports: the kernel gives them to no other process, and the service can still listen on them.
    _ports: [TcpSocket; 3],
}

/// A socket that reserves a free port.
fn reserved_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("the port can be shared");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    socket
}

impl StandaloneService {
    /// Starts a service with these flags.
    ///
    /// # Panics
    /// If no ports are free, or the service cannot be started.
    pub fn start(service: &str, flags: &[&str]) -> Self {
        let ports = [(); 3].map(|()| reserved_port());
        let [probes, metrics, webhooks] = ports.each_ref().map(|port| port.local_addr().expect("an address"));
        let mut command = Command::new(program(service));
        command.args(["--probe-address", &probes.to_string(), "--metrics-address", &metrics.to_string()]);
        if service == "webhook-server" {
            command.args(["--webhook-address", &webhooks.to_string()]);
        }
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().expect("the service starts");
        Self { probes: probes.port(), metrics: metrics.port(), process, _ports: ports }
    }

    /// Sends SIGTERM and expects exit code 0.
    ///
    /// # Panics
    /// If the service does not exit, or with another code.
    pub async fn stop(mut self) {
        let status = signal_and_wait(&mut self.process, Signal::TERM).await;
        assert_eq!(status.code(), Some(0), "the exit code after SIGTERM");
    }
}
