//! Services that are killed right after a write of theirs was sent, at places that are known beforehand, and started again.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::plane::Plane;
use crate::proxy::{Fate, Proxy, Tap};

/// Counts the writes of all services, and knows after which of them to strike.
#[derive(Default)]
pub struct Strikes(Mutex<Progress>);

#[derive(Default)]
struct Progress {
    sent: usize,
    next: VecDeque<usize>,
    struck: Vec<String>,
}

impl Strikes {
    /// Counts anew, and strikes at the writes of these numbers; every other of them arrives late. The first write is
    /// number 1.
    pub fn begin(&self, due: impl IntoIterator<Item = usize>) {
        let mut due: Vec<_> = due.into_iter().collect();
        due.sort_unstable();
        *self.lock() = Progress { sent: 0, next: due.into(), struck: Vec::new() };
    }

    /// Counts on from here: the writes so far were as many as this in the run that the numbers are of. What was due
    /// among them and did not come follows at once.
    pub fn count_from(&self, sent: usize) {
        self.lock().sent = sent;
    }

    /// How many writes were sent since the beginning.
    pub fn sent(&self) -> usize {
        self.lock().sent
    }

    /// What was struck since the beginning: the number of the write, the service, and the request.
    pub fn struck(&self) -> Vec<String> {
        self.lock().struck.clone()
    }

    fn fate(&self, service: &str, request: &str) -> Fate {
        let mut all = self.lock();
        all.sent += 1;
        if all.next.front().is_none_or(|next| *next > all.sent) {
            return Fate::Arrives;
        }
        all.next.pop_front();
        let late = all.struck.len() % 2 == 1;
        let line = format!("{}: {service} after {request}{}", all.sent, if late { ", which arrives late" } else { "" });
        all.struck.push(line);
        if late { Fate::ArrivesLate } else { Fate::IsTheLast }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service that is started again whenever it was killed. Ends with its owner.
pub struct Victim {
    /// Between the service and the API server.
    proxy: Proxy,
    process: Arc<Mutex<Option<Pid>>>,
    keeping: JoinHandle<()>,
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The process is killed with the task that has it.
        self.keeping.abort();
    }
}

impl Victim {
    /// Takes a service over from the plane: it runs on under the same account, through a proxy.
    ///
    /// # Panics
    /// When the plane does not run it, or its files are not as expected.
    pub async fn take_over(plane: &Plane, service: &'static str, strikes: Arc<Strikes>) -> Self {
        let mut command = plane.command_of(service);
        let process = Arc::new(Mutex::new(None::<Pid>));
        let (there, target) = (Arc::clone(&process), Arc::clone(&process));
        let tap = Tap {
            // Only a process that is there is struck: the rest of what the last one sent may still be on its way.
            fate: Box::new(move |request| match *lock(&there) {
                Some(_) => strikes.fate(service, request),
                None => Fate::Arrives,
            }),
            kill: Box::new(move || kill(&target)),
        };
        let proxy = Proxy::start(plane.port("kube-apiserver"), &plane.dir().join("pki/apiserver.crt"), tap).await;
        plane.end(service).await;
        let kubeconfig = proxied(plane, service, &proxy.url());
        let at = command.iter().position(|argument| argument == "--kubeconfig").expect("a service has a kubeconfig");
        command[at + 1] = kubeconfig.display().to_string();
        let log = plane.dir().join("log").join(format!("{service}.log"));
        let kept = Arc::clone(&process);
        let keeping = tokio::spawn(async move {
            let process = kept;
            loop {
                let mut child = start(&command, &log);
                *lock(&process) = child.id().and_then(pid);
                let ended = child.wait().await.expect("the process can be waited for");
                let own = lock(&process).take().is_some();
                assert!(!own, "{service} ended by itself with {ended}; its log is {}", log.display());
            }
        });
        Self { proxy, process, keeping }
    }

    /// What stands between the service and the API server.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Kills the service; it is started again.
    ///
    /// # Panics
    /// When that is not possible.
    pub fn kill(&self) {
        kill(&self.process);
    }

    /// Fails if the service has ended by itself.
    ///
    /// # Panics
    /// In that case.
    pub fn is_well(&self) {
        assert!(!self.keeping.is_finished(), "a service ended by itself, see above");
    }
}

fn lock(process: &Mutex<Option<Pid>>) -> MutexGuard<'_, Option<Pid>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill(process: &Mutex<Option<Pid>>) {
    // Two of its requests may be struck at once.
    if let Some(pid) = lock(process).take() {
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

/// The service's kubeconfig, with the proxy in the server's place.
fn proxied(plane: &Plane, service: &str, url: &str) -> PathBuf {
    let folder = plane.dir().join("sa").join(service);
    let text = std::fs::read_to_string(folder.join("kubeconfig")).expect("the service's kubeconfig");
    let mut config: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    config["clusters"][0]["cluster"] = serde_json::json!({ "server": url });
    let file = folder.join("proxied.kubeconfig");
    std::fs::write(&file, config.to_string()).expect("a file in the plane's folder");
    file
}
