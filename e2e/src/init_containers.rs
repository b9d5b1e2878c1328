//! The kubelets' part for pods with the annotation `test.grove.io/behaviour: pending`, whose containers the simulated kubelets do not start: it runs
//! the real init container `grove-initc` of a pod, with the files of the pod's volumes, and when it has succeeded, starts the pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::POD_CLIQUE;
use grove_api_types::startup::{
    CA_FILE, INIT_CONTAINER, POD_INFO_DIR, POD_INFO_VOLUME, TOKEN_DIR, TOKEN_FILE, TOKEN_VOLUME,
};
use grove_dev_harness::kubeconfig::client_config;
use grove_dev_harness::live_objects::{changes, is_ready};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret, ServiceAccount, Volume};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::namespace::Namespace;
use crate::poll::poll_until;
use crate::snapshot::hostname;
use crate::standalone::program;
use crate::test_cluster::TestCluster;

/// Selects what a simulated kubelet does with a pod.
const BEHAVIOUR: &str = "test.grove.io/behaviour";
/// A simulated kubelet starts no container of a pod with this behaviour.
pub const PENDING: &str = "pending";

/// The longest delay of a container between its start and its readiness.
const MAX_DELAY: Duration = Duration::from_millis(1500);

/// The time until a failed init container runs again, and between two looks at a Secret that does not exist.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The kubelets of one namespace. They stop when the value is dropped.
pub struct InitContainers {
    history: Arc<Mutex<History>>,
    holds_secrets: Arc<AtomicBool>,
    kubelets: Arc<Kubelets>,
    task: JoinHandle<()>,
}

impl Drop for InitContainers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What happened so far.
#[derive(Default)]
struct History {
    /// The pods that became ready: their clique and their name, in the order in which the API server stored it.
    ready: Vec<(String, String)>,
    /// The running init containers, by the name of their pod.
    running: BTreeMap<String, i32>,
    /// The exit codes of the init containers that failed.
    failures: Vec<(String, Option<i32>)>,
}

/// What all kubelets of a namespace share.
struct Kubelets {
    client: Client,
    namespace: String,
    /// The host and the port of the API server.
    server: (String, String),
    folder: PathBuf,
    /// Seeds the delays until the containers are ready; without it there are none.
    seed: Option<u64>,
    history: Arc<Mutex<History>>,
    /// Whether the volumes of running pods stay as they are when their Secrets change.
    holds_secrets: Arc<AtomicBool>,
}

impl InitContainers {
    /// Starts the kubelets. With a seed, each pod is ready only some time after its init container has ended.
    ///
    /// # Panics
    /// If the folder for the files of the pods cannot be created.
    pub async fn start(cluster: &TestCluster, ns: &Namespace, seed: Option<u64>) -> Self {
        let config =
            client_config(&cluster.dir().join("admin.kubeconfig")).await.expect("the kubeconfig of the cluster");
        let url = config.cluster_url;
        let server = (url.host().expect("a host").to_owned(), url.port_u16().expect("a port").to_string());
        let folder = cluster.dir().join("init-containers").join(&ns.name);
        fs::create_dir_all(&folder).expect("a folder");
        let history = Arc::<Mutex<History>>::default();
        let holds_secrets = Arc::<AtomicBool>::default();
        let kubelets = Arc::new(Kubelets {
            client: ns.client.clone(),
            namespace: ns.name.clone(),
            server,
            folder,
            seed,
            history: Arc::clone(&history),
            holds_secrets: Arc::clone(&holds_secrets),
        });
        let task = tokio::spawn(Arc::clone(&kubelets).run());
        Self { history, holds_secrets, kubelets, task }
    }

    /// The cliques of the pods that became ready, in the order in which they did. A pod that became ready twice is in the list twice.
    pub fn ready(&self) -> Vec<String> {
        self.history.lock().ready.iter().map(|(clique, _)| clique.clone()).collect()
    }

    /// The exit codes of the init containers that failed, each with its pod.
    pub fn failures(&self) -> Vec<(String, Option<i32>)> {
        self.history.lock().failures.clone()
    }

    /// From now on, running pods keep their token, as they do until a kubelet notices another one.
    pub fn hold_tokens(&self) {
        self.holds_secrets.store(true, Ordering::SeqCst);
    }

    /// Running pods get the current token.
    ///
    /// # Panics
    /// If the Secrets cannot be listed.
    pub async fn update_tokens(&self) {
        self.holds_secrets.store(false, Ordering::SeqCst);
        let secrets = Api::<Secret>::namespaced(self.kubelets.client.clone(), &self.kubelets.namespace);
        let listed = secrets.list(&ListParams::default()).await.expect("the Secrets");
        listed.items.iter().for_each(|secret| self.kubelets.update_volumes(secret));
    }

    /// Waits until this many init containers run, and returns their pids by the names of their pods.
    ///
    /// # Panics
    /// If they do not in time.
    pub async fn wait_for_running(&self, count: usize) -> BTreeMap<String, i32> {
        poll_until(async || Some(self.history.lock().running.clone()).filter(|running| running.len() == count)).await
    }
}

/// The log of the init container of a pod.
///
/// # Panics
/// If the pod has none.
pub fn log(cluster: &TestCluster, ns: &Namespace, pod: &str) -> String {
    let file = cluster.dir().join("init-containers").join(&ns.name).join(pod).join("log");
    fs::read_to_string(file).expect("the log of the init container")
}

/// Ends the start of a pod, as if its containers had started: the simulated kubelet makes it ready.
async fn start_containers(pods: &Api<Pod>, name: &str) {
    let annotations = json!({ "metadata": { "annotations": { BEHAVIOUR: null } } });
    // A deleted pod does not start.
    drop(pods.patch(name, &PatchParams::default(), &Patch::Merge(annotations)).await);
}

impl Kubelets {
    async fn run(self: Arc<Self>) {
        let mut pods = Box::pin(changes::<Pod>(&self.client, &self.namespace));
        let mut secrets = Box::pin(changes::<Secret>(&self.client, &self.namespace));
        // Ends the init containers with this task.
        let (mut runs, mut started, mut ready) = (JoinSet::new(), BTreeMap::new(), BTreeSet::new());
        loop {
            tokio::select! {
                Some(changed) = pods.next() => {
                    for change in changed {
                        let Some(pod) = change.object else {
                            self.end_init_container(started.remove(&change.name), &change.name);
                            continue;
                        };
                        let uid = pod.uid().unwrap_or_default();
                        if !is_ready(&pod) {
                            ready.remove(&uid);
                        } else if ready.insert(uid.clone()) {
                            let clique = pod.labels().get(POD_CLIQUE).cloned().unwrap_or_default();
                            self.history.lock().ready.push((clique, pod.name_any()));
                        }
                        if is_bound_and_pending(&pod) && !started.contains_key(&pod.name_any()) {
                            started.insert(pod.name_any(), runs.spawn(Arc::clone(&self).start_pod(pod)));
                        }
                    }
                }
                Some(changed) = secrets.next() => {
                    // As the kubelet does, in the volumes of all pods.
                    let is_held = self.holds_secrets.load(Ordering::SeqCst);
                    for secret in changed.into_iter().filter_map(|change| change.object).filter(|_| !is_held) {
                        self.update_volumes(&secret);
                    }
                }
                else => return,
            }
        }
    }

    /// Runs the init container of the pod, if it has one, until it succeeds, and starts the other containers.
    async fn start_pod(self: Arc<Self>, pod: Pod) {
        let (name, pods) = (pod.name_any(), Api::<Pod>::namespaced(self.client.clone(), &self.namespace));
        if let Some(container) = init_container(&pod) {
            self.mount_volumes(&pod).await;
            while !self.run_init_container(&name, container).await {
                let is_deleted =
                    pods.get_opt(&name).await.is_ok_and(|live| live.is_none_or(|live| is_terminating(&live)));
                if is_deleted {
                    return;
                }
                sleep(RETRY_DELAY).await;
            }
        }
        if let Some(seed) = self.seed {
            sleep(delay(seed, hostname(&pod))).await;
        }
        start_containers(&pods, &name).await;
    }

    /// Runs the program once. Returns whether it succeeded.
    async fn run_init_container(&self, pod: &str, container: &Container) -> bool {
        let folder = self.folder.join(pod);
        let mut process = self.spawn(&folder, container);
        if let Some(pid) = process.id().and_then(|pid| i32::try_from(pid).ok()) {
            self.history.lock().running.insert(pod.to_owned(), pid);
        }
        let status = process.wait().await.expect("the exit status");
        let mut history = self.history.lock();
        history.running.remove(pod);
        if !status.success() {
            history.failures.push((pod.to_owned(), status.code()));
        }
        status.success()
    }

    /// As the kubelet does when a pod is deleted: its process ends with the task.
    fn end_init_container(&self, task: Option<AbortHandle>, pod: &str) {
        task.inspect(AbortHandle::abort);
        self.history.lock().running.remove(pod);
    }

    fn spawn(&self, folder: &Path, container: &Container) -> Child {
        let log = File::options().create(true).append(true).open(folder.join("log")).expect("the log");
        let mounts =
            container.volume_mounts.iter().flatten().map(|mount| (mount.name.as_str(), mount.mount_path.as_str()));
        let mounts: Vec<_> = mounts.collect();
        assert_eq!(mounts, [(POD_INFO_VOLUME, POD_INFO_DIR), (TOKEN_VOLUME, TOKEN_DIR)]);
        let mut process = Command::new(program(INIT_CONTAINER));
        process.args(container.args.iter().flatten());
        process
            .arg("--token-dir")
            .arg(folder.join(TOKEN_VOLUME))
            .arg("--pod-info-dir")
            .arg(folder.join(POD_INFO_VOLUME));
        process.env("KUBERNETES_SERVICE_HOST", &self.server.0).env("KUBERNETES_SERVICE_PORT", &self.server.1);
        process.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log).kill_on_drop(true);
        process.spawn().expect("the init container starts")
    }

    /// Writes the files of the two volumes. As the kubelet, waits for the Secret.
    async fn mount_volumes(&self, pod: &Pod) {
        let folder = self.folder.join(pod.name_any());
        for volume in [TOKEN_VOLUME, POD_INFO_VOLUME] {
            fs::create_dir_all(folder.join(volume)).expect("a folder");
        }
        let object = json!(pod);
        let items = volume(pod, POD_INFO_VOLUME).downward_api.as_ref().and_then(|api| api.items.clone());
        for item in items.expect("the fields of the pod") {
            let path = item.field_ref.expect("a field").field_path;
            // `metadata.labels['<key>']`, or a path of names.
            let value = match path.strip_prefix("metadata.labels['").and_then(|rest| rest.strip_suffix("']")) {
                Some(key) => object["metadata"]["labels"][key].clone(),
                None => object.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or_default(),
            };
            fs::write(folder.join(POD_INFO_VOLUME).join(item.path), value.as_str().expect("a text")).expect("the file");
        }
        let token = volume(pod, TOKEN_VOLUME);
        if token.projected.is_some() {
            let (token, ca) = (self.projected_token(pod).await, self.root_ca().await);
            self.write_token(&folder, token.as_bytes(), ca.as_bytes());
            return;
        }
        let name = token.secret.as_ref().and_then(|secret| secret.secret_name.clone()).expect("a Secret");
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let secret = loop {
            let found = secrets.get_opt(&name).await.ok().flatten();
            match found.filter(|secret| secret.data.is_some()) {
                Some(secret) => break secret,
                None => sleep(RETRY_DELAY).await,
            }
        };
        // Names the Secret, so that the file follows it.
        fs::write(folder.join("secret"), &name).expect("the file");
        self.write_secret(&folder, &secret);
    }

    fn update_volumes(&self, secret: &Secret) {
        for folder in fs::read_dir(&self.folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path())) {
            if fs::read_to_string(folder.join("secret")).is_ok_and(|name| name == secret.name_any()) {
                self.write_secret(&folder, secret);
            }
        }
    }

    fn write_secret(&self, folder: &Path, secret: &Secret) {
        let value = |key: &str| secret.data.as_ref()?.get(key).map(|value| value.0.clone());
        if let Some((token, ca)) = value(TOKEN_FILE).zip(value(CA_FILE)) {
            self.write_token(folder, &token, &ca);
        }
    }

    #[expect(clippy::unused_self, reason = "the volumes belong to the kubelets")]
    fn write_token(&self, folder: &Path, token: &[u8], ca: &[u8]) {
        // The start of a pod and a change of its Secret may write at the same time.
        static WRITES: AtomicUsize = AtomicUsize::new(0);
        for (file, content) in [(TOKEN_FILE, token), (CA_FILE, ca)] {
            let number = WRITES.fetch_add(1, Ordering::SeqCst);
            let (path, fresh) = (folder.join(TOKEN_VOLUME).join(file), folder.join(format!("{file}.{number}")));
            fs::write(&fresh, content).and_then(|()| fs::rename(&fresh, path)).expect("the file");
        }
    }

    async fn projected_token(&self, pod: &Pod) -> String {
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).expect("an account");
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), &self.namespace);
        let issued = accounts.create_token_request(&account, &PostParams::default(), &request).await.expect("a token");
        issued.status.and_then(|status| status.token).expect("a token")
    }

    async fn root_ca(&self) -> String {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let map = maps.get("kube-root-ca.crt").await.expect("the CA of the namespace");
        map.data.and_then(|data| data.get(CA_FILE).cloned()).expect("a certificate")
    }
}

fn is_bound_and_pending(pod: &Pod) -> bool {
    let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    is_bound && !is_terminating(pod) && pod.annotations().get(BEHAVIOUR).is_some_and(|behaviour| behaviour == PENDING)
}

/// The init container of Grove in the pod.
pub fn init_container(pod: &Pod) -> Option<&Container> {
    pod.spec.as_ref()?.init_containers.iter().flatten().find(|container| container.name == INIT_CONTAINER)
}

fn volume<'p>(pod: &'p Pod, name: &str) -> &'p Volume {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.find(|volume| volume.name == name).unwrap_or_else(|| panic!("no volume {name}"))
}

/// A delay that depends on the seed, and on the clique and the index of the pod.
fn delay(seed: u64, hostname: &str) -> Duration {
    // FNV-1a: small, and good enough to choose delays.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = seed.to_le_bytes().into_iter().chain(hostname.bytes()).fold(0xcbf2_9ce4_8422_2325, fold);
    MAX_DELAY.mul_f64(f64::from(u16::try_from(hash >> 48).unwrap_or_default()) / f64::from(u16::MAX))
}
