//! A service that a test starts beside the planes, with files of the test's own, to hear what it says of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use rustix::process::Signal;
use tokio::net::TcpSocket;
use tokio::process::{Child, Command};

use crate::plane::given;
use crate::replicas::end;

/// The program of a service, as `cargo xtask` has built it.
///
/// # Panics
/// When the test was not started by `cargo xtask`.
pub fn program(service: &str) -> PathBuf {
    PathBuf::from(given("GROVE_XTASK")).with_file_name(service)
}

/// What a service prints that ends by itself, and how it ended.
///
/// # Panics
/// When it cannot be started.
pub async fn output(service: &str, flags: &[String]) -> Output {
    let mut command = Command::new(program(service));
    command.args(flags).stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the service runs")
}

/// A kubeconfig in that folder by which no API server is reached.
///
/// # Panics
/// When it cannot be written.
pub fn nowhere(folder: &Path) -> String {
    let config = serde_json::json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
    let file = folder.join("nowhere.kubeconfig");
    std::fs::write(&file, config.to_string()).expect("the file is written");
    file.display().to_string()
}

/// One process, on ports of its own. Ends with its owner.
pub struct Apart {
    /// Where it answers probes.
    pub probes: u16,
    /// Where it says what it counts.
    pub metrics: u16,
    process: Child,
    /// Nobody else is given its ports while they are bound here, which keeps no process from listening on them.
    _ports: [TcpSocket; 3],
}

/// A port of this machine that the kernel gives to nobody else.
fn port() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("it is shared with who listens");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    socket
}

impl Apart {
    /// Starts it.
    ///
    /// # Panics
    /// When there are no ports for it, or it cannot be started.
    pub fn start(service: &str, flags: &[&str]) -> Self {
        let ports = [(); 3].map(|()| port());
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

    /// Asks it to stop, which it does with code 0.
    ///
    /// # Panics
    /// When it does not.
    pub async fn end(mut self) {
        let status = end(&mut self.process, Signal::TERM).await;
        assert_eq!(status.code(), Some(0), "it was asked to stop");
    }
}
