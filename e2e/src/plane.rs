//! The control planes that tests run on: the shared one, and planes of a test's own.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit};

use grove_dev_harness::http;

/// Planes of tests' own that run at a time: each needs most of a gigabyte.
static OWN_PLANES: Semaphore = Semaphore::const_new(2);

/// Between two looks at what has no watch.
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// A control plane with the services on it.
pub struct Plane {
    dir: PathBuf,
    /// Absent for the shared plane, which the tests leave alone.
    own: Option<SemaphorePermit<'static>>,
    /// What `up` is asked for beyond the defaults.
    flags: Vec<String>,
}

impl Plane {
    /// The plane that all tests of a run share.
    ///
    /// # Panics
    /// When there is none: the tests run through `cargo xtask test`.
    pub fn shared() -> Self {
        Self { dir: PathBuf::from(given("GROVE_TEST_DIR")), own: None, flags: Vec::new() }
    }

    /// A plane of this test's own, beside the shared one's folder. A name that begins with `faults` says that its API
    /// server is disturbed, so that requests may be refused there that are allowed.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn own(name: &str) -> Self {
        Self::own_with(name, &[]).await
    }

    /// The same, with flags for `cargo xtask up`.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn own_with(name: &str, flags: &[&str]) -> Self {
        let plane = Self::of_own(name, flags).await;
        plane.up().await;
        plane
    }

    /// A plane that does not come up, with the words in which `cargo xtask up` says why.
    ///
    /// # Panics
    /// When it does come up.
    pub async fn failed(name: &str, flags: &[&str]) -> (Self, String) {
        let plane = Self::of_own(name, flags).await;
        let output = plane.run("up", &plane.flags).await;
        assert!(!output.status.success(), "the plane {name} came up");
        (plane, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    async fn of_own(name: &str, flags: &[&str]) -> Self {
        let permit = OWN_PLANES.acquire().await.expect("the semaphore is never closed");
        let shared = PathBuf::from(given("GROVE_TEST_DIR"));
        let beside = format!("{}.own.{name}", shared.file_name().expect("a folder").to_string_lossy());
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { dir: shared.with_file_name(beside), own: Some(permit), flags }
    }

    /// Starts whatever of the plane does not run.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn up(&self) {
        self.xtask("up", &self.flags).await;
    }

    /// Starts whatever of the control plane does not run, and no service.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn up_without_services(&self) {
        let flags: Vec<_> = self.flags.iter().cloned().chain(["--no-services".to_owned()]).collect();
        self.xtask("up", &flags).await;
    }

    /// Kills one process of a plane of one's own, as a crash would, and waits until it is gone; [`Plane::up`] brings it
    /// back.
    ///
    /// # Panics
    /// When there is no such process.
    pub async fn kill(&self, process: &str) {
        self.signal(process, "-KILL").await;
        self.until_gone(process).await;
    }

    /// Asks one process of a plane of one's own to stop, as Kubernetes does with a pod.
    ///
    /// # Panics
    /// When there is no such process.
    pub async fn stop(&self, process: &str) {
        self.signal(process, "-TERM").await;
    }

    /// The same, and waits until it is gone.
    ///
    /// # Panics
    /// When there is no such process, or it does not stop.
    pub async fn end(&self, process: &str) {
        self.stop(process).await;
        self.until_gone(process).await;
    }

    /// Lets one process of a plane of one's own stand still, as a machine does that is suspended.
    ///
    /// # Panics
    /// When there is no such process.
    pub async fn freeze(&self, process: &str) {
        self.signal(process, "-STOP").await;
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When there is no such process.
    pub async fn thaw(&self, process: &str) {
        self.signal(process, "-CONT").await;
    }

    async fn until_gone(&self, process: &str) {
        let pid = self.pid(process).to_string();
        let waiting = ["--follow", "--sleep-interval=0.02", "--pid", &pid, "/dev/null"];
        let waited = Command::new("tail").args(waiting).kill_on_drop(true).status();
        let waited = tokio::time::timeout(crate::world::LIMIT, waited).await;
        assert!(waited.is_ok_and(|ended| ended.is_ok_and(|status| status.success())), "{process} does not end");
    }

    /// The program and the arguments that a process of the plane was started with.
    ///
    /// # Panics
    /// When it does not run.
    pub fn command_of(&self, process: &str) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/cmdline", self.pid(process))).expect("it runs");
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    /// What runs on this machine with the plane's folder in its command line.
    ///
    /// # Panics
    /// When the machine does not tell.
    pub fn processes(&self) -> Vec<String> {
        let folder = self.dir.display().to_string();
        let processes = std::fs::read_dir("/proc").expect("the machine's processes");
        let commands = processes.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok());
        // The name of another plane's folder may go on where ours ends.
        let is_ours = |argument: &str| {
            argument
                .match_indices(&folder)
                .any(|(at, _)| matches!(argument[at + folder.len()..].chars().next(), None | Some('/')))
        };
        commands.filter(|command| command.split('\0').any(is_ours)).map(|command| command.replace('\0', " ")).collect()
    }

    async fn signal(&self, process: &str, signal: &str) {
        assert!(self.own.is_some(), "nothing of the shared plane is killed");
        let pid = self.pid(process).to_string();
        let status = Command::new("kill").args([signal, &pid]).status().await.expect("kill runs");
        assert!(status.success(), "{process} was not running");
    }

    fn pid(&self, process: &str) -> u64 {
        let text = std::fs::read_to_string(self.dir.join("pids.json")).expect("the plane's processes");
        let pids: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        pids[process]["pid"].as_u64().unwrap_or_else(|| panic!("no pid of {process} in {text}"))
    }

    /// Ends a plane of one's own.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn down(self) {
        assert!(self.own.is_some(), "the shared plane is brought down by who brought it up");
        self.xtask("down", &[]).await;
    }

    async fn run(&self, verb: &str, flags: &[String]) -> Output {
        let mut command = Command::new(given("GROVE_XTASK"));
        command.args([verb, "--dir"]).arg(&self.dir).args(flags).stdin(Stdio::null()).kill_on_drop(true);
        command.output().await.expect("xtask runs")
    }

    async fn xtask(&self, verb: &str, flags: &[String]) {
        let output = self.run(verb, flags).await;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "xtask {verb} failed:\n{text}");
    }

    /// The port that was chosen for a part of the plane, as its folder lists them.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn port(&self, name: &str) -> u16 {
        let text = std::fs::read_to_string(self.dir.join("ports.json")).expect("the plane's ports");
        let ports: std::collections::BTreeMap<String, u16> = serde_json::from_str(&text).expect("JSON");
        *ports.get(name).unwrap_or_else(|| panic!("no port {name} in {text}"))
    }

    /// Waits until a service answers its readiness probe with these words.
    ///
    /// # Panics
    /// When it does not; the message is what it says in place of that.
    pub async fn until_ready_says(&self, service: &str, words: &str) {
        let port = self.port(&format!("{service}-probe"));
        let says =
            async || http::send(port, "GET", "/readyz", "").await.map_or_else(|e| e.to_string(), |(_, body)| body);
        told(service, words, says).await;
    }

    /// Waits until the log of a process says these words.
    ///
    /// # Panics
    /// When it does not.
    pub async fn until_logged(&self, process: &str, words: &str) {
        let log = self.dir.join("log").join(process).with_added_extension("log");
        told(process, words, async || std::fs::read_to_string(&log).expect("a log")).await;
    }

    /// The folder with its logs and its audit log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A client that may do anything.
    ///
    /// # Panics
    /// When the plane's kubeconfig cannot be read.
    pub async fn client(&self) -> Client {
        // A second call finds it installed, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(self.dir.join("admin.kubeconfig")).expect("the plane's kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a kubeconfig that can be used")).expect("a client")
    }
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// When there is none for too long.
pub async fn until_said<T>(says: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(said) = says().await {
                return said;
            }
            // What is waited for takes a while, and there is no watch that would tell.
            let _ = tokio::time::timeout(ASK_AGAIN, std::future::pending::<()>()).await;
        }
    };
    tokio::time::timeout(crate::world::LIMIT, asking).await.expect("an answer")
}

/// Asks again and again until the words are among what is said.
///
/// # Panics
/// When they are not for too long.
pub(crate) async fn told(who: &str, words: &str, says: impl AsyncFn() -> String) {
    let mut said = String::new();
    let asking = async {
        while !said.contains(words) {
            said = says().await;
            // What is waited for takes a while, and there is no watch that would tell.
            let _ = tokio::time::timeout(ASK_AGAIN, std::future::pending::<()>()).await;
        }
    };
    if tokio::time::timeout(crate::world::LIMIT, asking).await.is_err() {
        let last: Vec<&str> = said.lines().rev().take(20).collect();
        panic!("{who} does not say {words:?}, but at last\n{}", last.join("\n"));
    }
}

/// What the test run was told under that name.
///
/// # Panics
/// When it was told nothing: the tests run through `cargo xtask`.
#[expect(clippy::disallowed_methods, reason = "tests have no flags; `cargo xtask test` tells them by variables")]
pub fn given(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run these tests with `cargo xtask test`"))
}
