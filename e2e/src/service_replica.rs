//! Replicas of a service that a test starts and stops itself in place of the cluster's own processes, with flags of its own.

use std::fs::File;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::namespace_state::TIMEOUT;
use crate::test_cluster::TestCluster;
use grove_dev_harness::readiness_probe;

/// One process. It is killed when the value is dropped.
pub struct ServiceReplica {
    name: String,
    command: Vec<String>,
    log: std::path::PathBuf,
    probe_port: u16,
    process: Child,
}

impl ServiceReplica {
    /// Stops the cluster's own process of that name, starts it again with additional flags, and waits until it is ready.
    ///
    /// # Panics
    /// If the process does not run, or does not become ready.
    pub async fn take_over(cluster: &TestCluster, name: &str, flags: &[&str]) -> Self {
        Self::take_over_with(cluster, name, |command| command.extend(flags.iter().map(|flag| (*flag).to_owned()))).await
    }

    /// Like [`ServiceReplica::take_over`], but starts the service through a wrapper program with its arguments, such as
    /// `env`.
    ///
    /// # Panics
    /// If the process does not run, or does not become ready.
    pub async fn take_over_with_wrapper(cluster: &TestCluster, name: &str, wrapper: &[&str]) -> Self {
        let wrapper = || wrapper.iter().map(|part| (*part).to_owned());
        Self::take_over_with(cluster, name, |command| drop(command.splice(..0, wrapper()))).await
    }

    async fn take_over_with(cluster: &TestCluster, name: &str, change: impl FnOnce(&mut Vec<String>)) -> Self {
        let mut command = cluster.command_line(name);
        change(&mut command);
        cluster.stop(name).await;
        let log = cluster.dir().join("log").join(name).with_added_extension("log");
        let process = start(&command, &log);
        let replica =
            Self { name: name.to_owned(), command, log, probe_port: cluster.port(&format!("{name}-probe")), process };
        replica.wait_until_ready().await;
        replica
    }

    /// The pid of the process.
    ///
    /// # Panics
    /// If the process has exited.
    pub fn pid(&self) -> i32 {
        self.process.id().and_then(|id| i32::try_from(id).ok()).expect("a running process")
    }

    /// Changes the value of a flag for the next start.
    ///
    /// # Panics
    /// If the command line lacks the flag.
    pub fn set_flag(&mut self, flag: &str, value: &str) {
        let at = self.command.iter().position(|argument| argument == flag).expect("it has the flag");
        value.clone_into(&mut self.command[at + 1]);
    }

    /// Adds a flag for the next start.
    pub fn add_flag(&mut self, flag: &str) {
        self.command.push(flag.to_owned());
    }

    /// Sends SIGTERM, waits for exit code 0, starts the service again, and waits until it is ready.
    ///
    /// # Panics
    /// If the exit code differs, or the service does not become ready.
    pub async fn restart(&mut self) {
        let status = signal_and_wait(&mut self.process, Signal::TERM).await;
        assert!(status.success(), "{} exited with {status}; its log is {}", self.name, self.log.display());
        self.process = start(&self.command, &self.log);
        self.wait_until_ready().await;
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Panics
    /// If the process does not exit.
    pub async fn stop(mut self) {
        signal_and_wait(&mut self.process, Signal::TERM).await;
    }

    /// Waits until the process exits by itself.
    ///
    /// # Panics
    /// If it does not.
    pub async fn wait_for_exit(mut self) -> ExitStatus {
        exit_status(&mut self.process).await
    }

    /// Kills the service as a crash would, starts it again, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready.
    pub async fn kill_and_restart(&mut self) {
        signal_and_wait(&mut self.process, Signal::KILL).await;
        self.process = start(&self.command, &self.log);
        self.wait_until_ready().await;
    }

    /// Sends SIGTERM, waits for the exit, runs `change`, starts the service again, and waits until it is ready.
    ///
    /// # Panics
    /// If the process does not exit, or does not become ready.
    pub async fn while_stopped<T>(&mut self, change: impl Future<Output = T>) -> T {
        signal_and_wait(&mut self.process, Signal::TERM).await;
        let result = change.await;
        self.process = start(&self.command, &self.log);
        self.wait_until_ready().await;
        result
    }

    async fn wait_until_ready(&self) {
        let ready = tokio::time::timeout(TIMEOUT, readiness_probe::wait_for_success(self.probe_port)).await;
        assert!(ready.is_ok(), "{} does not become ready; its log is {}", self.name, self.log.display());
    }
}

/// Sends a signal and waits for the exit.
pub(crate) async fn signal_and_wait(process: &mut Child, signal: Signal) -> ExitStatus {
    let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    kill_process(pid.expect("a running process"), signal).expect("the signal is sent");
    exit_status(process).await
}

async fn exit_status(process: &mut Child) -> ExitStatus {
    let exited = tokio::time::timeout(TIMEOUT, process.wait()).await;
    exited.expect("the process exits").expect("an exit status")
}

fn start(command: &[String], log: &std::path::Path) -> Child {
    let log = File::options().append(true).create(true).open(log).expect("the log opens");
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).kill_on_drop(true);
    process.stdout(log.try_clone().expect("the log")).stderr(log);
    process.spawn().expect("the replica starts")
}
