//! Replicas of a service that a test has taken over from its plane: with flags of the test's own, stopped and started as it
//! likes.

use std::fs::File;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::plane::Plane;
use crate::world::LIMIT;
use grove_dev_harness::http;

/// Between two looks at what has no watch.
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

/// One process. Ends with its owner.
pub struct Replica {
    name: String,
    command: Vec<String>,
    log: std::path::PathBuf,
    probes: u16,
    process: Child,
}

impl Replica {
    /// Ends the plane's own process of that name and starts it anew with further flags.
    ///
    /// # Panics
    /// When it does not run or cannot be started.
    pub async fn take_over(plane: &Plane, name: &str, flags: &[&str]) -> Self {
        Self::taken_over(plane, name, |command| command.extend(flags.iter().map(|flag| (*flag).to_owned()))).await
    }

    /// The same, started by another program, which stands in front with its own flags and becomes the service.
    ///
    /// # Panics
    /// When it does not run or cannot be started.
    pub async fn take_over_by(plane: &Plane, name: &str, by: &[&str]) -> Self {
        let by = || by.iter().map(|part| (*part).to_owned());
        Self::taken_over(plane, name, |command| drop(command.splice(..0, by()))).await
    }

    async fn taken_over(plane: &Plane, name: &str, change: impl FnOnce(&mut Vec<String>)) -> Self {
        let mut command = plane.command_of(name);
        change(&mut command);
        plane.end(name).await;
        let log = plane.dir().join("log").join(name).with_added_extension("log");
        let process = start(&command, &log);
        let replica =
            Self { name: name.to_owned(), command, log, probes: plane.port(&format!("{name}-probe")), process };
        replica.until_ready().await;
        replica
    }

    /// Gives a flag another value, from the next start on.
    ///
    /// # Panics
    /// When it does not have the flag.
    pub fn set(&mut self, flag: &str, value: &str) {
        let at = self.command.iter().position(|argument| argument == flag).expect("it has the flag");
        value.clone_into(&mut self.command[at + 1]);
    }

    /// Gives it a further flag, from the next start on.
    pub fn add(&mut self, flag: &str) {
        self.command.push(flag.to_owned());
    }

    /// Stops it as Kubernetes does, waits until it has ended, and starts it again.
    ///
    /// # Panics
    /// When it does not end well.
    pub async fn restart(&mut self) {
        let status = end(&mut self.process, Signal::TERM).await;
        assert!(status.success(), "{} ended with {status}; its log is {}", self.name, self.log.display());
        self.process = start(&self.command, &self.log);
        self.until_ready().await;
    }

    /// Stops it as Kubernetes does, and waits until it has ended.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn end(mut self) {
        end(&mut self.process, Signal::TERM).await;
    }

    /// How it ended by itself.
    ///
    /// # Panics
    /// When it goes on.
    pub async fn ended(mut self) -> ExitStatus {
        ended(&mut self.process).await
    }

    /// Kills it, as a crash would, and starts it again.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn crash(&mut self) {
        end(&mut self.process, Signal::KILL).await;
        self.process = start(&self.command, &self.log);
        self.until_ready().await;
    }

    async fn until_ready(&self) {
        let asking = async {
            while !matches!(http::send(self.probes, "GET", "/readyz", "").await, Ok((200, _))) {
                let _ = tokio::time::timeout(ASK_AGAIN, std::future::pending::<()>()).await;
            }
        };
        let ready = tokio::time::timeout(LIMIT, asking).await;
        assert!(ready.is_ok(), "{} does not become ready; its log is {}", self.name, self.log.display());
    }
}

/// Sends the signal and waits until the process has ended.
pub(crate) async fn end(process: &mut Child, signal: Signal) -> ExitStatus {
    let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    kill_process(pid.expect("it runs"), signal).expect("it is told to end");
    ended(process).await
}

async fn ended(process: &mut Child) -> ExitStatus {
    let ended = tokio::time::timeout(LIMIT, process.wait()).await;
    ended.expect("it ends").expect("it can be waited for")
}

fn start(command: &[String], log: &std::path::Path) -> Child {
    let log = File::options().append(true).create(true).open(log).expect("the log opens");
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).stdin(Stdio::null()).kill_on_drop(true);
    process.stdout(log.try_clone().expect("the log")).stderr(log);
    process.spawn().expect("the replica starts")
}
