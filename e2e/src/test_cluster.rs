//! The dev clusters that tests run on: the shared one, and those that single tests start for themselves.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use grove_dev_harness::kubeconfig::client_config;
use grove_dev_harness::readiness_probe;
use grove_dev_harness::state_file::{self, PORTS};
use kube::Client;
use rustix::process::Signal;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::audit::AuditLog;
use crate::poll::poll_until_contains;
use crate::pool::{self, Lease};
use crate::processes::{self, Process};
use crate::timing::{self, Phase};
use crate::xtask;

/// One test at a time has a control plane of its own.
static OWN_CONTROL_PLANE: Semaphore = Semaphore::const_new(1);

/// A control plane and the services on it.
pub struct TestCluster {
    name: String,
    dir: PathBuf,
    use_: Use,
    /// Additional flags of `cargo xtask up`.
    flags: Vec<String>,
    /// The requests since the start of the test.
    log: AuditLog,
    /// At most one step at a time runs while a process is stopped.
    during_stop: Mutex<()>,
}

/// Which tests use the control plane.
enum Use {
    /// All tests, which do not disturb it.
    Shared,
    /// This test now, with services of its own, and others later.
    Leased(Lease),
    /// This test alone.
    Own { _permit: SemaphorePermit<'static> },
}

impl TestCluster {
    /// The cluster that all tests of a run share.
    ///
    /// # Panics
    /// If there is none: `cargo xtask test` runs these tests.
    pub fn shared() -> Self {
        timing::start();
        Self::new("shared", shared_folder(), Use::Shared, vec![])
    }

    /// Starts services for this test alone, on a control plane that other tests use before and after it. The test may change and delete
    /// all objects, and kill all services. It may also kill controllers of the control plane, if it starts them again. A request of a
    /// service that the API server forbids fails the run.
    ///
    /// # Panics
    /// If the services do not start.
    pub async fn with_own_services(name: &str, flags: &[&str]) -> Self {
        let flags = pool::flags(&to_owned(flags));
        let lease = Lease::take(&flags).await;
        let dir = lease.dir().to_owned();
        let mut cluster = Self::new(name, dir, Use::Leased(lease), flags);
        cluster.log = cluster.log.from_now();
        cluster.up().await;
        cluster
    }

    /// Starts a control plane and services for this test alone; the folder is next to that of the shared cluster. Only for tests that
    /// disturb etcd, the API server, clocks or certificates, because the start takes long and these tests run one after another. The API
    /// server may forbid requests of the services.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub async fn with_own_control_plane(name: &str, flags: &[&str]) -> Self {
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
        let error = xtask::failed_up(&cluster.dir, &cluster.flags).await;
        (cluster, error)
    }

    /// Runs a short series of `cargo xtask soak` that has its own dev cluster.
    ///
    /// # Panics
    /// If the series fails.
    pub async fn soak(series: &str, flags: &[&str]) {
        let cluster = Self::new_own(series, flags).await;
        xtask::soak(series, &cluster.dir, &cluster.flags).await;
    }

    async fn new_own(name: &str, flags: &[&str]) -> Self {
        let acquired = timing::count(Phase::Queue, OWN_CONTROL_PLANE.acquire()).await;
        let permit = acquired.expect("the semaphore is never closed");
        Self::new(name, own_folder(&format!("faults-{name}")), Use::Own { _permit: permit }, to_owned(flags))
    }

    fn new(name: &str, dir: PathBuf, use_: Use, flags: Vec<String>) -> Self {
        let log = AuditLog::from_start(&dir);
        Self { name: name.to_owned(), dir, use_, flags, log, during_stop: Mutex::default() }
    }

    /// The requests to the API server since this test uses it.
    pub fn audit_log(&self) -> AuditLog {
        self.log.clone()
    }

    /// Starts the processes again that the test killed or stopped. This is much faster than [`TestCluster::up`].
    ///
    /// # Panics
    /// If they do not start.
    pub async fn start_again(&self) {
        xtask::start_again(&self.dir, &self.flags).await;
    }

    /// Applies all manifests, and starts all processes of the cluster that do not run.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up(&self) {
        xtask::up(&self.dir, &self.flags).await;
    }

    /// Replaces the flags of `cargo xtask up`. The processes whose command lines change are restarted.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up_with(&mut self, flags: &[&str]) {
        let flags = to_owned(flags);
        self.flags = if matches!(self.use_, Use::Leased(_)) { pool::flags(&flags) } else { flags };
        self.up().await;
    }

    /// Starts all processes of the control plane that do not run, and no service.
    ///
    /// # Panics
    /// If they do not start.
    pub async fn up_without_services(&self) {
        let flags: Vec<_> = self.flags.iter().cloned().chain(["--no-services".to_owned()]).collect();
        xtask::up(&self.dir, &flags).await;
    }

    /// Kills one process of an own cluster, as a crash would, and waits for its exit. [`TestCluster::up`] starts it again.
    ///
    /// # Panics
    /// If there is no such process, or if it is etcd or the API server of a control plane that other tests use later: a new API server
    /// forbids requests of the services at first.
    pub async fn kill(&self, process: &str) {
        let disturbs = matches!(process, "etcd" | "kube-apiserver");
        assert!(!disturbs || matches!(self.use_, Use::Own { .. }), "this test needs a control plane of its own");
        self.signal(process, Signal::KILL);
        self.process(process).wait_for_exit().await;
    }

    /// Sends SIGTERM to one process of an own cluster, as Kubernetes does when it deletes a pod.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn send_sigterm(&self, process: &str) {
        self.signal(process, Signal::TERM);
    }

    /// Sends SIGTERM to one process of an own cluster and waits for its exit.
    ///
    /// # Panics
    /// If there is no such process, or it does not exit.
    pub async fn stop(&self, process: &str) {
        self.send_sigterm(process);
        self.process(process).wait_for_exit().await;
    }

    /// Runs the step while this process of an own cluster is stopped, and starts the process again. Concurrent calls follow one another.
    ///
    /// # Panics
    /// If there is no such process, or it does not exit or start.
    pub async fn during_stop(&self, process: &str, step: impl Future<Output = ()>) {
        let _guard = self.during_stop.lock().await;
        self.stop(process).await;
        step.await;
        self.start_again().await;
    }

    /// Suspends one process of an own cluster by SIGSTOP, as the suspension of its machine would.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn suspend(&self, process: &str) {
        self.signal(process, Signal::STOP);
    }

    /// Resumes a suspended process.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn resume(&self, process: &str) {
        self.signal(process, Signal::CONT);
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

    fn signal(&self, process: &str, signal: Signal) {
        assert!(!matches!(self.use_, Use::Shared), "processes of the shared cluster receive no signals");
        let running = self.process(process);
        assert!(running.is_alive(), "{process} was not running");
        running.signal(signal);
    }

    /// The pid of a process of the cluster.
    ///
    /// # Panics
    /// If the cluster never started the process.
    pub fn pid(&self, process: &str) -> i32 {
        self.process(process).0.as_raw_nonzero().get()
    }

    fn process(&self, name: &str) -> Process {
        let found = processes::of(&self.dir).find(|(other, _)| other == name);
        found.unwrap_or_else(|| panic!("no process {name} in {}", self.dir.display())).1
    }

    /// Stops the services of this test and gives the control plane to other tests, or stops the own one.
    ///
    /// # Panics
    /// If the processes do not stop.
    pub async fn down(self) {
        match self.use_ {
            Use::Shared => panic!("`cargo xtask test` stops the shared cluster"),
            Use::Leased(lease) => lease.give_back(&self.name).await,
            Use::Own { _permit } => xtask::down(&self.dir).await,
        }
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

fn shared_folder() -> PathBuf {
    PathBuf::from(required_env("GROVE_TEST_DIR"))
}

/// The folder of another dev cluster of this run, beside that of the shared one.
pub(crate) fn own_folder(name: &str) -> PathBuf {
    let shared = shared_folder();
    let beside = format!("{}.own.{name}", shared.file_name().expect("a folder").to_string_lossy());
    shared.with_file_name(beside)
}

fn to_owned(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

/// The value of an environment variable that `cargo xtask test` sets.
///
/// # Panics
/// If it is not set.
pub fn required_env(variable: &str) -> String {
    optional_env(variable).unwrap_or_else(|| panic!("{variable} is not set: run these tests with `cargo xtask test`"))
}

/// The number in an environment variable that `cargo xtask soak` sets.
///
/// # Panics
/// If it is not set, or no number of this type.
pub fn required_number<T: FromStr<Err: Debug>>(variable: &str) -> T {
    required_env(variable).parse().expect("a number")
}

/// The value of an environment variable, if it is set.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no flags; `cargo xtask test` configures them by environment variables"
)]
pub(crate) fn optional_env(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}
