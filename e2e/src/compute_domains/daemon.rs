//! Real daemons of a domain, as the kubelet and NVIDIA's kubelet plugin start them: each has a pod of the `DaemonSet`, the token of this pod,
//! the variables of the plugin, and files of its own. A shell script takes the place of IMEX.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_api_types::deletion::is_terminating;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::{Child, Command};

use super::set_node_label;
use crate::poll::poll_until;
use crate::service_replica::signal_and_wait;
use crate::standalone::program;

/// The clique of all nodes.
pub const CLIQUE: &str = "0a0a0a0a-0000-4000-8000-000000000000.7";

const PROGRAM: &str = "compute-domain-daemon";
/// Adds a word to its log for each start and each signal.
const IMEX: &str = "#!/bin/sh
trap 'echo signal >> $0.log' USR1
trap 'exit 0' TERM
echo start >> $0.log
# It ends with the daemon, as the processes of a container do.
while kill -0 $PPID 2> /dev/null; do sleep 0.1; done
";

/// A running daemon. It is killed when the value is dropped; its pod stays.
pub struct Daemon {
    /// Its pod when it was started.
    pub pod: Pod,
    client: Client,
    folder: PathBuf,
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    process: Child,
}

impl Daemon {
    /// Labels the node with the domain, as NVIDIA's kubelet plugin does, and runs the daemon of the pod that the `DaemonSet` gets there.
    ///
    /// # Panics
    /// If one of these steps fails.
    pub async fn start(dir: &Path, client: &Client, domain: &ComputeDomain, node: &str) -> Self {
        let uid = domain.uid().expect("a UID");
        set_node_label(&Api::all(client.clone()), node, Some(uid.clone())).await.expect("the node is labelled");
        let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let params =
            ListParams::default().labels(&format!("{DOMAIN_LABEL}={uid}")).fields(&format!("spec.nodeName={node}"));
        let pod = poll_until(async || pods.list(&params).await.ok()?.items.into_iter().find(is_runnable));
        Self::run(dir, client, domain, pod.await).await
    }

    /// Runs the daemon of a pod that has an address, as the kubelet does: with the token of the pod, and with the variables of its template and
    /// of the kubelet plugin. Its files are in a folder of the dev cluster's `dir`.
    ///
    /// # Panics
    /// If the daemon cannot be started.
    pub async fn run(dir: &Path, client: &Client, domain: &ComputeDomain, pod: Pod) -> Self {
        let folder = dir.join("daemons").join(pod.name_any());
        fs::create_dir_all(&folder).expect("a folder");
        let kubeconfig = write_kubeconfig(dir, client, &pod, &folder).await;
        let imex = folder.join("imex");
        fs::write(&imex, IMEX).expect("the script is written");
        fs::set_permissions(&imex, fs::Permissions::from_mode(0o755)).expect("the script is executable");
        let text = |path: &Path| path.display().to_string();
        let of_plugin = [
            ("COMPUTE_DOMAIN_UUID", domain.uid().expect("a UID")),
            ("COMPUTE_DOMAIN_NAME", domain.name_any()),
            ("COMPUTE_DOMAIN_NAMESPACE", domain.namespace().expect("a namespace")),
            ("CLIQUE_ID", CLIQUE.to_owned()),
            ("IMEX_COMMAND", text(&imex)),
            ("IMEX_DIR", text(&folder)),
            ("HOSTS_FILE", text(&folder.join("hosts"))),
        ];
        let of_plugin = of_plugin.map(|(name, value)| (name.to_owned(), value));
        let environment = template_variables(&pod).into_iter().chain(of_plugin).collect();
        let any_port = "127.0.0.1:0";
        let flags = ["--probe-address", any_port, "--metrics-address", any_port, "--kubeconfig", &kubeconfig];
        let arguments = container(&pod).args.clone().unwrap_or_default();
        let command = flags.map(str::to_owned).into_iter().chain(arguments).collect::<Vec<_>>();
        let process = spawn(&folder, &command, &environment);
        Self { pod, client: client.clone(), folder, command, environment, process }
    }

    /// The address of its pod.
    pub fn address(&self) -> String {
        address(&self.pod)
    }

    /// The addresses in its hosts file by the end of the host name, which is the index. Indices without daemon have none.
    pub fn hosts(&self) -> BTreeMap<i64, String> {
        let text = fs::read_to_string(self.folder.join("hosts")).unwrap_or_default();
        let entry = |line: &str| {
            let (address, name) = line.split_once('\t')?;
            let index = name.rsplit_once('-')?.1.parse().ok()?;
            (address != "127.0.0.2").then(|| (index, address.to_owned()))
        };
        text.lines().filter_map(entry).collect()
    }

    /// The starts and signals of its IMEX process.
    pub fn imex_log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("imex.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The log of the daemon.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Kills the process, as a crash of its container does, and starts it again in the same pod.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn crash(&mut self) {
        signal_and_wait(&mut self.process, Signal::KILL).await;
        self.process = spawn(&self.folder, &self.command, &self.environment);
    }

    /// The same, with another strategy.
    pub async fn crash_as(&mut self, strategy: Strategy) {
        self.environment.insert("SYNC_STRATEGY".to_owned(), strategy.name().to_owned());
        self.crash().await;
    }

    /// Kills the process, and starts it again with probes at a port, which it returns.
    ///
    /// # Panics
    /// If no port is free, or the process cannot be started.
    pub async fn crash_and_serve_probes(&mut self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        self.command[1] = address.to_string();
        self.crash().await;
        address.port()
    }

    /// Kills the process and its pod, as after the loss of the node. The entry stays.
    pub async fn lose(mut self) {
        signal_and_wait(&mut self.process, Signal::KILL).await;
        self.leave().await;
    }

    /// Stops the process by SIGTERM, as the kubelet does; its node leaves the domain.
    ///
    /// # Panics
    /// If the process does not exit with code 0.
    pub async fn stop(mut self) {
        let status = self.terminate().await;
        assert!(status.success(), "{status}; {}", self.log());
        self.leave().await;
    }

    /// Stops the process by SIGTERM.
    pub async fn terminate(&mut self) -> ExitStatus {
        signal_and_wait(&mut self.process, Signal::TERM).await
    }

    /// Removes the label of the node, and waits until the `DaemonSet` has no pod there.
    async fn leave(&self) {
        let node = self.environment.get("NODE_NAME").expect("the node");
        set_node_label(&Api::all(self.client.clone()), node, None).await.expect("the label is removed");
        let pods = Api::<Pod>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let name = self.pod.name_any();
        poll_until(async || pods.get_opt(&name).await.ok()?.is_none().then_some(())).await;
    }
}

/// Whether the kubelet can run the containers of the pod: it has an address, and does not terminate.
pub(super) fn is_runnable(pod: &Pod) -> bool {
    let has_address = pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some());
    has_address && !is_terminating(pod)
}

fn container(pod: &Pod) -> &Container {
    pod.spec.as_ref().and_then(|spec| spec.containers.first()).expect("a container")
}

/// The variables of the container with the fields of the pod that they refer to.
fn template_variables(pod: &Pod) -> BTreeMap<String, String> {
    let object = json!(pod);
    let value = |variable: &EnvVar| {
        let field = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let of_field = field.and_then(|field| {
            let pointer = ["/", &field.field_path.replace('.', "/")].concat();
            Some(object.pointer(&pointer)?.as_str()?.to_owned())
        });
        (variable.name.clone(), variable.value.clone().or(of_field).unwrap_or_default())
    };
    container(pod).env.iter().flatten().map(value).collect()
}

fn spawn(folder: &Path, command: &[String], environment: &BTreeMap<String, String>) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("the log");
    let mut process = Command::new(program(PROGRAM));
    process.args(command).envs(environment).kill_on_drop(true);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("the daemon starts")
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address")
}

/// The kubeconfig of the account of the daemons, with a token that ends with the pod.
async fn write_kubeconfig(dir: &Path, client: &Client, pod: &Pod, folder: &Path) -> String {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        uid: pod.uid(),
    };
    let spec = Some(TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() });
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let issued = accounts.create_token_request(PROGRAM, &PostParams::default(), &request).await.expect("a token");
    let token = folder.join("token");
    let text = issued.status.and_then(|status| status.token).expect("a token");
    fs::write(&token, text).expect("the token is written");
    let mut config = Kubeconfig::read_from(dir.join("sa/mnnvl-controller/kubeconfig")).expect("a kubeconfig");
    for named in &mut config.auth_infos {
        let auth = named.auth_info.as_mut().expect("the credentials");
        auth.token_file = Some(token.display().to_string());
    }
    let file = folder.join("kubeconfig");
    fs::write(&file, json!(config).to_string()).expect("the kubeconfig is written");
    file.display().to_string()
}
