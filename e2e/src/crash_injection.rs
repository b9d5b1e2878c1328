//! Kills services at scheduled writes and starts them again.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::proxy::{Interceptor, Proxy, WriteFate};
use crate::test_cluster::TestCluster;

/// Counts the writes of all services and holds the numbers of the writes at which a service is killed.
#[derive(Default)]
pub struct CrashSchedule(Mutex<Progress>);

/// The state of a schedule.
#[derive(Default)]
struct Progress {
    /// Writes since the start.
    writes: usize,
    /// Numbers of the writes of pending kills, ascending.
    pending: VecDeque<usize>,
    /// A description of each kill.
    kills: Vec<String>,
}

impl CrashSchedule {
    /// Resets the count and schedules a kill at each of these writes. Every second of them is forwarded only after the
    /// restart. The first write has number 1.
    pub fn start(&self, due: impl IntoIterator<Item = usize>) {
        let mut due: Vec<_> = due.into_iter().collect();
        due.sort_unstable();
        *self.0.lock() = Progress { writes: 0, pending: due.into(), kills: Vec::new() };
    }

    /// Continues the count at `writes`, the count of the undisturbed run at this point. Kills that are still pending below
    /// it happen at the next writes.
    pub fn count_from(&self, writes: usize) {
        self.0.lock().writes = writes;
    }

    /// The number of writes since the start.
    pub fn writes_sent(&self) -> usize {
        self.0.lock().writes
    }

    /// The kills since the start, each as the number of the write, the service and the request.
    pub fn kills(&self) -> Vec<String> {
        self.0.lock().kills.clone()
    }

    fn decide(&self, service: &str, request: &str) -> WriteFate {
        let mut progress = self.0.lock();
        progress.writes += 1;
        if progress.pending.front().is_none_or(|next| *next > progress.writes) {
            return WriteFate::Forward;
        }
        progress.pending.pop_front();
        let is_late = progress.kills.len() % 2 == 1;
        let line = format!(
            "{}: {service} after {request}{}",
            progress.writes,
            if is_late { ", which arrives late" } else { "" }
        );
        progress.kills.push(line);
        if is_late { WriteFate::KillThenForward } else { WriteFate::ForwardThenKill }
    }
}

/// A service that is started again after each kill. It stops when the value is dropped.
pub struct CrashTarget {
    /// The connection of the service to the API server.
    proxy: Proxy,
    process: Arc<Mutex<Option<Pid>>>,
    supervisor: JoinHandle<()>,
}

impl Drop for CrashTarget {
    fn drop(&mut self) {
        // The task owns the process, which is killed with it.
        self.supervisor.abort();
    }
}

impl CrashTarget {
    /// Stops the cluster's own process of a service and runs the service under the same account behind a proxy.
    ///
    /// # Panics
    /// If the cluster does not run the service, or lacks its files.
    pub async fn take_over(cluster: &TestCluster, service: &'static str, schedule: Arc<CrashSchedule>) -> Self {
        let mut command = cluster.command_line(service);
        let process = Arc::new(Mutex::new(None::<Pid>));
        let (current, target) = (Arc::clone(&process), Arc::clone(&process));
        let interceptor = Interceptor {
            // Without a running process the request comes from the killed one, and there is nothing to kill.
            decide: Box::new(move |request| match *current.lock() {
                Some(_) => schedule.decide(service, request),
                None => WriteFate::Forward,
            }),
            kill: Box::new(move || kill(&target)),
        };
        let proxy =
            Proxy::start(cluster.port("kube-apiserver"), &cluster.dir().join("pki/apiserver.crt"), interceptor).await;
        cluster.stop(service).await;
        let kubeconfig = proxied_kubeconfig(cluster, service, &proxy.url());
        let at = command.iter().position(|argument| argument == "--kubeconfig").expect("a service has a kubeconfig");
        command[at + 1] = kubeconfig.display().to_string();
        let log = cluster.dir().join("log").join(format!("{service}.log"));
        let supervised = Arc::clone(&process);
        let supervisor = tokio::spawn(async move {
            let process = supervised;
            loop {
                let mut child = start(&command, &log);
                *process.lock() = child.id().and_then(pid);
                let ended = child.wait().await.expect("an exit status");
                let was_killed = process.lock().take().is_none();
                assert!(was_killed, "{service} exited with {ended} without a kill; its log is {}", log.display());
            }
        });
        Self { proxy, process, supervisor }
    }

    /// The proxy between the service and the API server.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Kills the service, which is then started again.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn kill(&self) {
        kill(&self.process);
    }

    /// Asserts that the service did not exit without a kill.
    ///
    /// # Panics
    /// If it did.
    pub fn assert_running(&self) {
        assert!(!self.supervisor.is_finished(), "a service exited without a kill, see above");
    }
}

fn kill(process: &Mutex<Option<Pid>>) {
    // Two concurrent requests of the service may both be scheduled.
    if let Some(pid) = process.lock().take() {
        kill_process(pid, Signal::KILL).expect("the service is killed");
    }
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}

fn start(command: &[String], log: &PathBuf) -> Child {
    let log = File::options().append(true).create(true).open(log).expect("the log opens");
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).kill_on_drop(true);
    process.stdout(log.try_clone().expect("the log")).stderr(log);
    process.spawn().expect("the service starts")
}

/// A copy of the service's kubeconfig with the URL of the proxy.
fn proxied_kubeconfig(cluster: &TestCluster, service: &str, url: &str) -> PathBuf {
    let folder = cluster.dir().join("sa").join(service);
    let text = std::fs::read_to_string(folder.join("kubeconfig")).expect("the service's kubeconfig");
    let mut config: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    config["clusters"][0]["cluster"] = serde_json::json!({ "server": url });
    let file = folder.join("proxied.kubeconfig");
    std::fs::write(&file, config.to_string()).expect("a file in the cluster's folder");
    file
}
