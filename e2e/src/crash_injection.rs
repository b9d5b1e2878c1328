//! Kills services at scheduled writes and starts them again.

use std::collections::{BTreeMap, BTreeSet};
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

/// Counts the writes of all services and holds those at which a service is killed.
#[derive(Default)]
pub struct CrashSchedule(Mutex<Progress>);

/// The writes at which services are killed. The first write has number 1.
#[derive(Clone, Debug)]
pub enum KillPoints {
    /// The writes with these numbers, of all services.
    Numbers(BTreeSet<usize>),
    /// For each kind of write, as of [`CrashSchedule::writes_by_kind`], the write of this kind with this number.
    OfKinds(BTreeMap<String, usize>),
}

impl Default for KillPoints {
    /// No write.
    fn default() -> Self {
        Self::Numbers(BTreeSet::new())
    }
}

impl KillPoints {
    /// Whether this write is one of them, which is removed. `write` is its number, and `of_kind` its number among those of its kind.
    fn take(&mut self, write: usize, kind: &str, of_kind: usize) -> bool {
        match self {
            // Earlier ones are due, too.
            Self::Numbers(numbers) => {
                numbers.first().is_some_and(|next| *next <= write) && numbers.pop_first().is_some()
            }
            Self::OfKinds(kinds) => {
                kinds.get(kind).is_some_and(|next| *next <= of_kind) && kinds.remove(kind).is_some()
            }
        }
    }
}

/// The state of a schedule.
#[derive(Default)]
struct Progress {
    /// Writes since the start.
    writes: usize,
    by_kind: BTreeMap<String, usize>,
    pending: KillPoints,
    /// A description of each kill.
    kills: Vec<String>,
}

impl CrashSchedule {
    /// Resets the counts and schedules a kill at each of these writes. Every second of them is forwarded only after the restart.
    pub fn start(&self, kill_points: KillPoints) {
        *self.0.lock() = Progress { pending: kill_points, ..Progress::default() };
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

    /// The number of writes since the start by their kind: service, method and resource.
    pub fn writes_by_kind(&self) -> BTreeMap<String, usize> {
        self.0.lock().by_kind.clone()
    }

    /// The kills that have not happened yet.
    pub fn remaining(&self) -> KillPoints {
        self.0.lock().pending.clone()
    }

    /// The kills since the start, each as the number of the write, the service and the request.
    pub fn kills(&self) -> Vec<String> {
        self.0.lock().kills.clone()
    }

    fn decide(&self, service: &str, request: &str) -> WriteFate {
        let mut guard = self.0.lock();
        let progress = &mut *guard;
        let kind = kind_of_write(service, request);
        progress.writes += 1;
        let of_kind = progress.by_kind.entry(kind.clone()).or_default();
        *of_kind += 1;
        if !progress.pending.take(progress.writes, &kind, *of_kind) {
            return WriteFate::Forward;
        }
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

/// The service, the method and the resource of a request, without namespace and name: `pcs-controller PATCH podcliquesets/status`.
fn kind_of_write(service: &str, request: &str) -> String {
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let segments: Vec<&str> = path.split('?').next().unwrap_or_default().split('/').skip(1).collect();
    let namespaced = segments.iter().position(|segment| *segment == "namespaces").map(|at| at + 2);
    // Without a namespace the resource follows `api/v1` or `apis`, the group and the version.
    let at = namespaced.unwrap_or(if segments.first() == Some(&"api") { 2 } else { 3 });
    let resource = segments.get(at).copied().unwrap_or_default();
    match segments.get(at + 2) {
        Some(subresource) => format!("{service} {method} {resource}/{subresource}"),
        None => format!("{service} {method} {resource}"),
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

#[cfg(test)]
mod tests {
    use super::kind_of_write;

    #[test]
    fn the_kind_of_a_write_has_neither_a_namespace_nor_a_name() {
        for (request, kind) in [
            ("POST /api/v1/namespaces/a/pods?x=y HTTP/1.1", "s POST pods"),
            ("PATCH /apis/grove.io/v1alpha1/namespaces/a/podcliques/b/status? HTTP/1.1", "s PATCH podcliques/status"),
            ("DELETE /apis/grove.io/v1alpha1/namespaces/a/podcliques/b HTTP/1.1", "s DELETE podcliques"),
            ("PATCH /apis/grove.io/v1alpha1/clustertopologies/b/status HTTP/1.1", "s PATCH clustertopologies/status"),
        ] {
            assert_eq!(kind_of_write("s", request), kind);
        }
    }
}
