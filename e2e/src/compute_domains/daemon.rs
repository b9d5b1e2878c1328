//! Real daemons of a domain, as the kubelet and NVIDIA's kubelet plugin start them: each has a pod, the token of this pod, the variables of
//! the plugin, and files of its own. A shell script takes the place of IMEX.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_dev_harness::devices::create;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::poll::poll_until;
use crate::service_replica::signal_and_wait;
use crate::standalone::program;
use crate::test_cluster::TestCluster;

const PROGRAM: &str = "compute-domain-daemon";
/// Adds a word to its log for each start and each signal.
const IMEX: &str = "#!/bin/sh
trap 'echo signal >> $0.log' USR1
trap 'exit 0' TERM
echo start >> $0.log
# It ends with the daemon, as the processes of a container do.
while kill -0 $PPID 2> /dev/null; do sleep 0.1; done
";

/// Where a daemon runs, and for which domain.
#[derive(Clone, Copy)]
pub struct DaemonSpec<'a> {
    /// The domain.
    pub domain: &'a ComputeDomain,
    /// The clique of the node.
    pub clique: &'a str,
    /// The name of the pod.
    pub pod: &'a str,
    /// The node.
    pub node: &'a str,
    /// Flags of the daemon.
    pub flags: &'a [&'a str],
}

/// A running daemon. It is killed when the value is dropped; its pod stays.
pub struct Daemon {
    /// Its pod when it was started.
    pub pod: Pod,
    folder: PathBuf,
    command: Vec<String>,
    environment: BTreeMap<&'static str, String>,
    process: Child,
}

impl Daemon {
    /// Creates the pod, waits until it has an address, and starts the daemon with the token of the pod.
    ///
    /// # Panics
    /// If one of these steps fails.
    pub async fn start(cluster: &TestCluster, spec: DaemonSpec<'_>) -> Self {
        let client = cluster.client().await;
        let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM_NAMESPACE);
        let uid = spec.domain.uid().expect("a UID");
        // The namespace admits only restricted pods. No container runs in this one.
        let limits = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsNonRoot": true,
            "seccompProfile": { "type": "RuntimeDefault" } });
        let container = json!({ "name": PROGRAM, "image": "registry.k8s.io/pause:3.10", "securityContext": limits });
        let object = json!({ "metadata": { "name": spec.pod, "labels": { DOMAIN_LABEL: uid } },
            "spec": { "serviceAccountName": PROGRAM, "nodeName": spec.node, "containers": [container] } });
        create(&pods, object).await.expect("the pod is created");
        let pod = poll_until(async || {
            let pod = pods.get(spec.pod).await.ok()?;
            pod.status.as_ref()?.pod_ip.is_some().then_some(pod)
        });
        let pod = pod.await;
        let folder = cluster.dir().join("daemons").join(spec.pod);
        fs::create_dir_all(&folder).expect("a folder");
        let kubeconfig = write_kubeconfig(cluster, &client, &pod, &folder).await;
        let imex = folder.join("imex");
        fs::write(&imex, IMEX).expect("the script is written");
        fs::set_permissions(&imex, fs::Permissions::from_mode(0o755)).expect("the script is executable");
        let text = |path: &Path| path.display().to_string();
        let environment = BTreeMap::from([
            ("COMPUTE_DOMAIN_UUID", uid),
            ("COMPUTE_DOMAIN_NAME", spec.domain.name_any()),
            ("COMPUTE_DOMAIN_NAMESPACE", spec.domain.namespace().expect("a namespace")),
            ("CLIQUE_ID", spec.clique.to_owned()),
            ("NODE_NAME", spec.node.to_owned()),
            ("POD_NAME", spec.pod.to_owned()),
            ("POD_NAMESPACE", SYSTEM_NAMESPACE.to_owned()),
            ("POD_UID", pod.uid().expect("a UID")),
            ("POD_IP", address(&pod)),
            ("IMEX_COMMAND", text(&imex)),
            ("IMEX_DIR", text(&folder)),
            ("HOSTS_FILE", text(&folder.join("hosts"))),
        ]);
        let any_port = "127.0.0.1:0";
        let fixed = ["--probe-address", any_port, "--metrics-address", any_port, "--kubeconfig", &kubeconfig];
        let command: Vec<_> = fixed.iter().chain(spec.flags).chain(&["run"]).map(|part| (*part).to_owned()).collect();
        let process = spawn(&folder, &command, &environment);
        Self { pod, folder, command, environment, process }
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

    /// Stops the process by SIGTERM, as the kubelet does, and deletes the pod.
    ///
    /// # Panics
    /// If the process does not exit with code 0.
    pub async fn stop(mut self, client: &Client) {
        let status = signal_and_wait(&mut self.process, Signal::TERM).await;
        assert!(status.success(), "{status}; {}", self.log());
        delete_pod(client, &self.pod.name_any()).await;
    }
}

fn spawn(folder: &Path, command: &[String], environment: &BTreeMap<&'static str, String>) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).expect("the log");
    let mut process = Command::new(program(PROGRAM));
    process.args(command).envs(environment).kill_on_drop(true);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("the daemon starts")
}

async fn delete_pod(client: &Client, name: &str) {
    let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let params = DeleteParams::default().grace_period(0);
    pods.delete(name, &params).await.expect("the pod is deleted");
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address")
}

/// The kubeconfig of the account of the daemons, with a token that ends with the pod.
async fn write_kubeconfig(cluster: &TestCluster, client: &Client, pod: &Pod, folder: &Path) -> String {
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
    let mut config = Kubeconfig::read_from(cluster.dir().join("sa/mnnvl-controller/kubeconfig")).expect("a kubeconfig");
    for named in &mut config.auth_infos {
        let auth = named.auth_info.as_mut().expect("the credentials");
        auth.token_file = Some(token.display().to_string());
    }
    let file = folder.join("kubeconfig");
    fs::write(&file, json!(config).to_string()).expect("the kubeconfig is written");
    file.display().to_string()
}
