//! The command lines of etcd, the API server, the controller manager, the scheduler and KWOK: stock security, every
//! port on the loopback address.

use crate::credentials;
use crate::ports::Ports;
use crate::processes::ProcessSpec;
use crate::workload_api::WorkloadApi;
use crate::workspace;
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(crate) const ETCD: &str = "etcd";
pub(crate) const API_SERVER: &str = "kube-apiserver";
const ETCD_PEER: &str = "etcd-peer";
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";
pub(crate) const KWOK: &str = "kwok";

/// The names of all ports of the control plane.
pub(crate) const PORTS: [&str; 6] = [ETCD, ETCD_PEER, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK];

/// Go collects garbage when the heap is eight times the live heap, instead of twice, or reaches the limit: less processor time for more
/// memory.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "700"), ("GOMEMLIMIT", "2GiB")];

/// The controllers of Kubernetes that have nothing to do in a dev cluster, but cost time: those of volumes and certificates, which no pod has,
/// those of clouds, and those of `Endpoints`, which only old clients read beside `EndpointSlice`s.
const UNUSED_CONTROLLERS: [&str; 13] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "endpoints-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "service-lb-controller",
    "volumeattributesclass-protection-controller",
];

/// The parts of the control plane of one dev cluster, as processes.
pub(crate) struct ControlPlane<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) binaries: &'a Path,
    pub(crate) ports: &'a Ports,
    pub(crate) workload_api: WorkloadApi,
}

impl ControlPlane<'_> {
    pub(crate) fn etcd(&self) -> Result<ProcessSpec> {
        let client = format!("http://127.0.0.1:{}", self.ports.get(ETCD)?);
        let peer = format!("http://127.0.0.1:{}", self.ports.get(ETCD_PEER)?);
        Ok(self.process(
            ETCD,
            vec![
                format!("--data-dir={}", self.dir.join("etcd").display()),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                "--log-level=warn".to_owned(),
                "--quota-backend-bytes=4294967296".to_owned(),
                // The data need not survive a power failure. Waiting for the disk would dominate all times.
                "--unsafe-no-fsync".to_owned(),
            ],
        ))
    }

    pub(crate) fn api_server(&self) -> Result<ProcessSpec> {
        let pki = self.dir.join("pki");
        let in_pki = |file: &str| pki.join(file).display().to_string();
        let process = self.process(
            API_SERVER,
            vec![
                format!("--etcd-servers=http://127.0.0.1:{}", self.ports.get(ETCD)?),
                format!("--secure-port={}", self.ports.get(API_SERVER)?),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", pki.display()),
                format!("--service-account-key-file={}", in_pki("service-accounts.pub")),
                format!("--service-account-signing-key-file={}", in_pki("service-accounts.key")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--token-auth-file={}", in_pki("tokens.csv")),
                "--authorization-mode=Node,RBAC".to_owned(),
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
                "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
                "--allow-privileged=true".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                format!("--audit-policy-file={}", workspace::control_plane().join("audit-policy.yaml").display()),
                format!("--audit-log-path={}", self.dir.join("audit.log").display()),
                // No test writes as much, so a run fits in one file. A dev cluster that runs for long rotates the file.
                "--audit-log-maxsize=1000".to_owned(),
                "--audit-log-maxbackup=1".to_owned(),
                "--max-requests-inflight=1200".to_owned(),
                "--max-mutating-requests-inflight=600".to_owned(),
            ]
            .into_iter()
            .chain(self.workload_api.api_server_flags())
            .collect(),
        );
        // After SIGTERM it would wait for the ends of open watches. It has no state to store.
        Ok(ProcessSpec { is_killed: true, ..process })
    }

    /// The clients of the API server. Once the API server is ready, they may start in any order.
    pub(crate) fn api_clients(&self) -> Result<[ProcessSpec; 3]> {
        Ok([self.controller_manager()?, self.scheduler()?, self.kwok()?])
    }

    fn controller_manager(&self) -> Result<ProcessSpec> {
        let mut arguments = self.client_arguments(CONTROLLER_MANAGER)?;
        arguments.extend([
            format!("--service-account-private-key-file={}", self.dir.join("pki/service-accounts.key").display()),
            format!("--root-ca-file={}", self.dir.join("pki/apiserver.crt").display()),
            "--use-service-account-credentials=true".to_owned(),
            // The nodes have no heartbeats.
            "--node-monitor-grace-period=8760h".to_owned(),
            format!("--controllers=*,{}", UNUSED_CONTROLLERS.map(|name| format!("-{name}")).join(",")),
        ]);
        arguments.extend(self.workload_api.controller_manager_flag());
        Ok(self.process(CONTROLLER_MANAGER, arguments))
    }

    fn scheduler(&self) -> Result<ProcessSpec> {
        let mut arguments = self.client_arguments(SCHEDULER)?;
        arguments.extend(self.workload_api.scheduler_flag());
        Ok(self.process(SCHEDULER, arguments))
    }

    fn client_arguments(&self, name: &str) -> Result<Vec<String>> {
        Ok(vec![
            format!("--kubeconfig={}", credentials::kubeconfig(self.dir, name).display()),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.ports.get(name)?),
            format!("--cert-dir={}", self.dir.join("pki").join(name).display()),
        ])
    }

    fn kwok(&self) -> Result<ProcessSpec> {
        let stages: Vec<PathBuf> = workspace::yaml_files(&workspace::control_plane().join("stages"))?;
        let mut arguments = vec![
            format!("--kubeconfig={}", credentials::kubeconfig(self.dir, KWOK).display()),
            "--manage-all-nodes=true".to_owned(),
            // With leases, a restarted KWOK waits until those of its predecessor have expired, and loses pods that change in that time.
            "--node-lease-duration-seconds=0".to_owned(),
            "--cidr=10.64.0.1/10".to_owned(),
            format!("--server-address=127.0.0.1:{}", self.ports.get(KWOK)?),
        ];
        arguments.extend(stages.iter().map(|stage| format!("--config={}", stage.display())));
        Ok(ProcessSpec { inputs: stages, ..self.process(KWOK, arguments) })
    }

    fn process(&self, name: &str, arguments: Vec<String>) -> ProcessSpec {
        let process = ProcessSpec::new(name, self.binaries.join(name), arguments);
        ProcessSpec { environment: GARBAGE_COLLECTION.to_vec(), ..process }
    }
}
