//! The dev clusters that tests run on: the shared one, and those that single tests start for themselves.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use grove_dev_harness::kubeconfig::client_config;
use grove_dev_harness::readiness_probe;
use grove_dev_harness::state_file::{self, PORTS, PROCESSES, ProcessEntry};
use kube::Client;
use tokio::process::Command;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::poll::poll_until_contains;

/// Limits how many own clusters run at a time: each needs almost a gigabyte of memory.
static OWN_CLUSTERS: Semaphore = Semaphore::const_new(3);

/// A control plane and the services on it.
pub struct TestCluster {
    dir: PathBuf,
    /// `None` for the shared cluster, which tests do not disturb.
    own: Option<SemaphorePermit<'static>>,
    /// Additional flags of `cargo xtask up`.
    flags: Vec<String>,
    /// At most one step at a time runs while a process is stopped.
    during_stop: Mutex<()>,
}

impl TestCluster {
    /// The cluster that all tests of a run share.
    ///
    /// # Panics
    /// If there is none: `cargo xtask test` runs these tests.
    pub fn shared() -> Self {
        Self {
            dir: PathBuf::from(required_env("GROVE_TEST_DIR")),
            own: None,
            flags: Vec::new(),
            during_stop: Mutex::default(),
        }
    }

    /// Starts a cluster for this test alone; its folder is next to that of the shared cluster. A name that begins with
    /// `faults` permits its API server to deny requests of the services; anywhere else a denied request fails the run.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start_own(name: &str) -> Self {
        Self::start_own_with(name, &[]).await
    }

    /// Like [`TestCluster::start_own`], with flags for `cargo xtask up`.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn start_own_with(name: &str, flags: &[&str]) -> Self {
        let cluster = Self::new_own(name, flags).await;
        cluster.up().await;
        cluster
    }

    /// Starts a cluster that cannot start, and returns the error output of `cargo xtask up`.
    ///
    /// # Panics
    /// If the cluster starts.
    pub async fn failed_start(name: &str, flags: &[&str]) -> (Self, String) {
        let cluster = Self::new_own(name, flags).await;
        let output = cluster.run("up", &cluster.flags).await;
        assert!(!output.status.success(), "the cluster {name} started");
        (cluster, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    async fn new_own(name: &str, flags: &[&str]) -> Self {
        let permit = OWN_CLUSTERS.acquire().await.expect("the semaphore is never closed");
        let shared = PathBuf::from(required_env("GROVE_TEST_DIR"));
        let beside = format!("{}.own.{name}", shared.file_name().expect("a folder").to_string_lossy());
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { dir: shared.with_file_name(beside), own: Some(permit), flags, during_stop: Mutex::default() }
    }

    /// Starts all processes of the cluster that do not run.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up(&self) {
        self.xtask("up", &self.flags).await;
    }

    /// Replaces the flags of `cargo xtask up`. The processes whose command lines change are restarted.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.up().await;
    }

    /// Starts all processes of the control plane that do not run, and no service.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up_without_services(&self) {
        let flags: Vec<_> = self.flags.iter().cloned().chain(["--no-services".to_owned()]).collect();
        self.xtask("up", &flags).await;
    }

    /// Kills one process of an own cluster, as a crash would, and waits for its exit. [`TestCluster::up`] starts it again.
    ///
    /// # Panics
    /// If there is no such process.
    pub async fn kill(&self, process: &str) {
        self.signal(process, "-KILL").await;
        self.wait_for_exit(process).await;
    }

    /// Sends SIGTERM to one process of an own cluster, as Kubernetes does when it deletes a pod.
    ///
    /// # Panics
    /// If there is no such process.
    pub async fn send_sigterm(&self, process: &str) {
        self.signal(process, "-TERM").await;
    }

    /// Sends SIGTERM to one process of an own cluster and waits for its exit.
    ///
    /// # Panics
    /// If there is no such process, or it does not exit.
    pub async fn stop(&self, process: &str) {
        self.send_sigterm(process).await;
        self.wait_for_exit(process).await;
    }

    /// Runs the step while this process of an own cluster is stopped, and starts the process again. Concurrent calls follow one another.
    ///
    /// # Panics
    /// If there is no such process, or it does not exit or start.
    pub async fn during_stop(&self, process: &str, step: impl Future<Output = ()>) {
        let _guard = self.during_stop.lock().await;
        self.stop(process).await;
        step.await;
        self.up().await;
    }

    /// Suspends one process of an own cluster by SIGSTOP, as the suspension of its machine would.
    ///
    /// # Panics
    /// If there is no such process.
    pub async fn suspend(&self, process: &str) {
        self.signal(process, "-STOP").await;
    }

    /// Resumes a suspended process.
    ///
    /// # Panics
    /// If there is no such process.
    pub async fn resume(&self, process: &str) {
        self.signal(process, "-CONT").await;
    }

    async fn wait_for_exit(&self, process: &str) {
        let pid = self.pid(process).to_string();
        let arguments = ["--follow", "--sleep-interval=0.02", "--pid", &pid, "/dev/null"];
        let waited = Command::new("tail").args(arguments).kill_on_drop(true).status();
        let waited = tokio::time::timeout(crate::namespace_state::TIMEOUT, waited).await;
        assert!(waited.is_ok_and(|ended| ended.is_ok_and(|status| status.success())), "{process} does not exit");
    }

    /// The program and the arguments of a running process of the cluster.
    ///
    /// # Panics
    /// If it does not run.
    pub fn command_line(&self, process: &str) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/cmdline", self.pid(process))).expect("a running process");
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    /// The command lines of all processes on this machine that mention the cluster's folder.
    ///
    /// # Panics
    /// If `/proc` cannot be read.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.dir.display().to_string();
        let processes = std::fs::read_dir("/proc").expect("the machine's processes");
        let commands = processes.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
        // The folder of another cluster may have this folder's name as a prefix.
        let mentions_folder = |argument: &str| {
            argument
                .match_indices(&folder)
                .any(|(at, _)| matches!(argument[at + folder.len()..].chars().next(), None | Some('/')))
        };
        commands
            .filter(|command| command.split('\0').any(mentions_folder))
            .map(|command| command.replace('\0', " "))
            .collect()
    }

    async fn signal(&self, process: &str, signal: &str) {
        assert!(self.own.is_some(), "processes of the shared cluster receive no signals");
        let pid = self.pid(process).to_string();
        let status = Command::new("kill").args([signal, &pid]).status().await.expect("kill runs");
        assert!(status.success(), "{process} was not running");
    }

    /// The pid of a process of the cluster.
    ///
    /// # Panics
    /// If the cluster never started the process.
    pub fn pid(&self, process: &str) -> i32 {
        let entries = state_file::read::<ProcessEntry>(&self.dir.join(PROCESSES)).expect("a list of processes");
        entries.get(process).unwrap_or_else(|| panic!("no process {process} in {entries:?}")).pid
    }

    /// Stops an own cluster.
    ///
    /// # Panics
    /// If it does not stop.
    pub async fn down(self) {
        assert!(self.own.is_some(), "`cargo xtask test` stops the shared cluster");
        self.xtask("down", &[]).await;
    }

    async fn run(&self, verb: &str, flags: &[String]) -> Output {
        let mut command = Command::new(required_env("GROVE_XTASK"));
        command.args([verb, "--dir"]).arg(&self.dir).args(flags).stdin(Stdio::null()).kill_on_drop(true);
        command.output().await.expect("xtask runs")
    }

    async fn xtask(&self, verb: &str, flags: &[String]) {
        let output = self.run(verb, flags).await;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "xtask {verb} failed:\n{text}");
    }

    /// The port with this name in the cluster's list of ports.
    ///
    /// # Panics
    /// If the list lacks the name.
    pub fn port(&self, name: &str) -> u16 {
        let ports = state_file::read::<u16>(&self.dir.join(PORTS)).expect("a list of ports");
        *ports.get(name).unwrap_or_else(|| panic!("no port {name} in {ports:?}"))
    }

    /// Waits until the readiness probe of a service returns this text.
    ///
    /// # Panics
    /// If it does not in time; the message shows the last response.
    pub async fn wait_for_readiness(&self, service: &str, text: &str) {
        let port = self.port(&format!("{service}-probe"));
        let read = async || readiness_probe::send(port).await.map_or_else(|e| e.to_string(), |(_, body)| body);
        poll_until_contains(service, text, read).await;
    }

    /// Waits until the log of a process contains this text.
    ///
    /// # Panics
    /// If it does not in time; the message shows the end of the log.
    pub async fn wait_for_log(&self, process: &str, text: &str) {
        let log = self.dir.join("log").join(process).with_added_extension("log");
        poll_until_contains(process, text, async || std::fs::read_to_string(&log).expect("a log")).await;
    }

    /// The folder with the logs, the audit log and the credentials of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A client with full permissions.
    ///
    /// # Panics
    /// If the cluster's kubeconfig cannot be read.
    pub async fn client(&self) -> Client {
        Client::try_from(self.client_config().await).expect("a client")
    }

    /// A client that impersonates a user, in these groups and in those that the API server adds.
    ///
    /// # Panics
    /// If the cluster's kubeconfig cannot be read.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut config = self.client_config().await;
        config.auth_info.impersonate = Some(user.to_owned());
        let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
        config.auth_info.impersonate_groups = Some(groups).filter(|groups| !groups.is_empty());
        Client::try_from(config).expect("a client")
    }

    async fn client_config(&self) -> kube::Config {
        client_config(&self.dir.join("admin.kubeconfig")).await.expect("the kubeconfig of the cluster")
    }
}

/// The value of an environment variable that `cargo xtask test` sets.
///
/// # Panics
/// If it is not set.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no flags; `cargo xtask test` configures them by environment variables"
)]
pub fn required_env(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run these tests with `cargo xtask test`"))
}
