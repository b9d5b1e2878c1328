//! Control planes that live through the whole run. Tests use them one after another, each with services of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grove_dev_harness::kubeconfig::client_config;
use kube::Client;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use crate::cluster_objects::ClusterObjects;
use crate::processes;
use crate::test_cluster::own_folder;
use crate::timing::{self, Phase};
use crate::xtask;

/// The number of control planes. Each needs about a gigabyte of memory.
const SIZE: usize = 3;
/// A control plane that is not clean after this time is replaced, which takes less than that.
const CLEANING_TIMEOUT: Duration = Duration::from_secs(20);
const CLEANING_INTERVAL: Duration = Duration::from_millis(300);
/// The processes that stay when a test gives a control plane back.
const CONTROL_PLANE: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

/// The variant of the workload API of all control planes, unless a test demands another one: a restart for each test of native gangs would
/// take longer than many tests.
const SERVED: &str = "--native-gangs";
/// The services may not use the API, as without it: they may not list its objects in either case.
const NOT_PERMITTED: &str = "--native-gangs=not-permitted";

static PERMITS: Semaphore = Semaphore::const_new(SIZE);
/// The control planes that no test uses.
static FREE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());
/// The folders of control planes that failed tests have not given back.
static ABANDONED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// The number of folders so far: each control plane has its own, so that the logs of an earlier one stay.
static FOLDERS: AtomicUsize = AtomicUsize::new(0);

/// A control plane without services.
struct ControlPlane {
    dir: PathBuf,
    /// The flag with which it was started: the variant of the workload API.
    variant: String,
    /// Its objects while no test uses it.
    objects: ClusterObjects,
}

/// A control plane that one test uses.
pub(crate) struct Lease {
    /// `None` once it was given back.
    control_plane: Option<ControlPlane>,
    _permit: SemaphorePermit<'static>,
}

impl Lease {
    /// Waits for a control plane of the variant that the [`flags`] of `cargo xtask up` demand.
    ///
    /// # Panics
    /// If the control plane does not start.
    pub(crate) async fn take(flags: &[String]) -> Self {
        let permit = timing::count(Phase::Queue, PERMITS.acquire()).await.expect("the semaphore is never closed");
        let abandoned = std::mem::take(&mut *ABANDONED.lock());
        for dir in abandoned {
            xtask::down(&dir).await;
        }
        let variant = variant(flags).filter(|variant| *variant != NOT_PERMITTED).unwrap_or(SERVED);
        let control_plane = match take_free(variant) {
            Some(free) if free.variant == variant => free,
            Some(other) => ControlPlane::start(other.dir, variant.to_owned()).await,
            None => ControlPlane::start(new_folder(), variant.to_owned()).await,
        };
        Self { control_plane: Some(control_plane), _permit: permit }
    }

    /// The folder of the control plane.
    pub(crate) fn dir(&self) -> &Path {
        &self.control_plane.as_ref().expect("it was not given back").dir
    }

    /// Stops the services and removes what the test left. If that is not possible, stops the control plane. `test` is the prefix of the
    /// names of the logs.
    pub(crate) async fn give_back(mut self, test: &str) {
        let Some(control_plane) = self.control_plane.take() else { return };
        let dir = control_plane.dir.clone();
        match timing::count(Phase::Clusters, control_plane.clean(test)).await {
            Some(clean) => FREE.lock().push(clean),
            None => xtask::down(&dir).await,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        ABANDONED.lock().extend(self.control_plane.take().map(|control_plane| control_plane.dir));
    }
}

/// The flags of `cargo xtask up` for a test with these.
pub(crate) fn flags(flags: &[String]) -> Vec<String> {
    let not_permitted = variant(flags).is_none().then(|| NOT_PERMITTED.to_owned());
    flags.iter().cloned().chain(not_permitted).collect()
}

fn variant(flags: &[String]) -> Option<&str> {
    flags.iter().map(String::as_str).find(|flag| flag.starts_with(SERVED))
}

/// A free control plane, if possible of this variant, otherwise one of which few tests need the variant.
fn take_free(variant: &str) -> Option<ControlPlane> {
    let mut free = FREE.lock();
    let of_variant = free.iter().position(|control_plane| control_plane.variant == variant);
    let at = of_variant.or_else(|| free.iter().position(|control_plane| control_plane.variant != SERVED));
    // A new one is started only if all others are in use.
    at.map(|at| free.remove(at)).or_else(|| free.pop())
}

fn new_folder() -> PathBuf {
    own_folder(&format!("pool-{}", FOLDERS.fetch_add(1, Ordering::SeqCst)))
}

impl ControlPlane {
    /// Starts a control plane, or restarts its processes with another variant.
    async fn start(dir: PathBuf, variant: String) -> Self {
        xtask::up(&dir, &[variant.clone(), "--no-services".to_owned()]).await;
        let objects = ClusterObjects::read(&client(&dir).await).await.expect("the objects of a new control plane");
        Self { dir, variant, objects }
    }

    /// Returns the control plane as it was before the test, or `None` if that is not possible.
    async fn clean(self, test: &str) -> Option<Self> {
        for (name, process) in processes::of(&self.dir) {
            if CONTROL_PLANE.contains(&name.as_str()) {
                if !process.is_alive() {
                    return None;
                }
                continue;
            }
            // Nothing of their state is needed, and webhook-server would wait for the ends of its connections.
            process.signal(Signal::KILL);
            process.wait_for_exit().await;
            let log = |prefix: &str| self.dir.join("log").join(format!("{prefix}{name}.log"));
            // A process that never started has none.
            _ = std::fs::rename(log(""), log(&format!("{test}.")));
        }
        let client = client(&self.dir).await;
        let mut last = None;
        let restored = timeout(CLEANING_TIMEOUT, async {
            loop {
                match self.objects.restore(&client).await {
                    Ok(found) if found.is_clean() => return found.missing.is_empty(),
                    found => last = Some(found),
                }
                sleep(CLEANING_INTERVAL).await;
            }
        });
        match restored.await {
            Ok(true) => Some(self),
            Ok(false) => Some(Self::start(self.dir, self.variant).await),
            Err(_) => {
                // libtest does not capture the output of this handle.
                let _ = writeln!(std::io::stderr(), "the control plane is replaced after {test}: {last:?}");
                None
            }
        }
    }
}

async fn client(dir: &Path) -> Client {
    let config = client_config(&dir.join("admin.kubeconfig")).await.expect("the kubeconfig of the control plane");
    Client::try_from(config).expect("a client")
}
