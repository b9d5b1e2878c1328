//! The flags and environment variables of the daemon. NVIDIA's kubelet plugin and the `DaemonSet` set the variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::configuration::RateLimit;
use grove_process::telemetry::LogFormat;

use crate::command::Command;
use crate::feature_gates::FeatureGates;

/// Runs on each node of a ComputeDomain: registers the node, learns its peers, and runs the IMEX process.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// What the process does.
    #[command(subcommand)]
    pub verb: Verb,
    /// The domain and the node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// How the daemon synchronizes.
    #[command(flatten)]
    pub sync: SyncArgs,
    /// The IMEX process.
    #[command(flatten)]
    pub imex: ImexArgs,
    /// Addresses, logs and the API server.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// What the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Verb {
    /// Runs the daemon until SIGTERM.
    Run,
    /// Succeeds if IMEX is ready, or if the node has no `NVLink` fabric. For probes.
    Check,
}

/// The domain and the node of the daemon.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NodeArgs {
    /// The UID of the ComputeDomain. The kubelet plugin sets it.
    #[arg(long, env = "COMPUTE_DOMAIN_UUID", default_value = "", hide_default_value = true)]
    pub compute_domain_uuid: String,

    /// The name of the ComputeDomain. The kubelet plugin sets it.
    #[arg(long, env = "COMPUTE_DOMAIN_NAME", default_value = "", hide_default_value = true)]
    pub compute_domain_name: String,

    /// The namespace of the ComputeDomain. The kubelet plugin sets it.
    #[arg(long, env = "COMPUTE_DOMAIN_NAMESPACE", default_value = "", hide_default_value = true)]
    pub compute_domain_namespace: String,

    /// The clique of the node: the UUID of the fabric and the number of the partition. Empty on a node without `NVLink` fabric. The kubelet
    /// plugin sets it.
    #[arg(long, env = "CLIQUE_ID", default_value = "", hide_default_value = true)]
    pub clique_id: String,

    /// The name of the node.
    #[arg(long, env = "NODE_NAME", default_value = "", hide_default_value = true)]
    pub node_name: String,

    /// The name of the daemon's pod.
    #[arg(long, env = "POD_NAME", default_value = "", hide_default_value = true)]
    pub pod_name: String,

    /// The UID of the daemon's pod.
    #[arg(long, env = "POD_UID", default_value = "", hide_default_value = true)]
    pub pod_uid: String,

    /// The address of the daemon's pod.
    #[arg(long, env = "POD_IP", default_value = "", hide_default_value = true)]
    pub pod_ip: String,

    /// The namespace of the daemon's pod and of the objects of cliques.
    #[arg(long, env = "POD_NAMESPACE", default_value = "", hide_default_value = true)]
    pub pod_namespace: String,

    /// The number of nodes of a clique.
    #[arg(long, env = "MAX_NODES_PER_IMEX_DOMAIN", default_value_t = MAX_NODES_PER_CLIQUE, value_parser = parse_max_nodes)]
    pub max_nodes_per_imex_domain: usize,
}

/// How the daemon synchronizes the state of its domain.
#[derive(Clone, Debug, clap::Args)]
pub struct SyncArgs {
    /// Feature gates as `name=true,...`. Only `ComputeDomainCliques` has an effect.
    #[arg(long, env = "FEATURE_GATES", default_value = "", hide_default_value = true)]
    pub feature_gates: FeatureGates,

    /// The strategy; it overrides the feature gate.
    #[arg(long, env = "SYNC_STRATEGY", default_value = "", hide_default_value = true)]
    pub sync_strategy: SyncStrategy,

    /// The limit of requests per second to the API server [default: none].
    #[arg(long, env = "KUBE_API_QPS", requires = "kube_api_burst", value_parser = parse_qps)]
    pub kube_api_qps: Option<f64>,

    /// The requests that may exceed this limit.
    #[arg(long, env = "KUBE_API_BURST", requires = "kube_api_qps")]
    pub kube_api_burst: Option<u32>,
}

/// The IMEX process.
#[derive(Clone, Debug, clap::Args)]
pub struct ImexArgs {
    /// The command of the IMEX process, and its arguments, separated by spaces.
    #[arg(long, env = "IMEX_COMMAND", default_value = "nvidia-imex -c /imexd/imexd.cfg")]
    pub imex_command: Command,

    /// The command that prints READY if IMEX is ready.
    #[arg(long, env = "IMEX_STATUS_COMMAND", default_value = "nvidia-imex-ctl -c /imexd/imexd.cfg -q")]
    pub imex_status_command: Command,

    /// The directory of imexd.cfg and nodes.cfg.
    #[arg(long, env = "IMEX_DIR", default_value = "/imexd", value_name = "DIR")]
    pub imex_dir: PathBuf,

    /// The file with the addresses of the peers' host names.
    #[arg(long, env = "HOSTS_FILE", default_value = "/etc/hosts", value_name = "FILE")]
    pub hosts_file: PathBuf,
}

/// Addresses, logs and the API server.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessArgs {
    /// Kubeconfig of the cluster [default: the service account of the pod].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the probes /healthz and /readyz.
    #[arg(long, default_value = "[::]:2751", value_name = "ADDRESS:PORT")]
    pub probe_address: SocketAddr,

    /// Address of /metrics.
    #[arg(long, default_value = "[::]:2752", value_name = "ADDRESS:PORT")]
    pub metrics_address: SocketAddr,

    /// Format of the log lines.
    #[arg(long, value_enum, default_value = "json")]
    pub log_format: LogFormat,

    /// Verbosity of the log, as of NVIDIA's driver: from 6 on, debug messages are logged too.
    #[arg(long, env = "LOG_VERBOSITY", default_value_t = 1)]
    pub log_verbosity: u8,
}

/// A variable without which the daemon cannot register.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is empty: {remedy}")]
pub struct MissingVariable {
    variable: &'static str,
    remedy: &'static str,
}

const OF_PLUGIN: &str = "the kubelet plugin of the driver sets it for a pod with the claim of a ComputeDomain's daemon; check that \
                         the plugin runs on this node and that the pod has the claim";
const OF_DAEMON_SET: &str = "the DaemonSet of the daemons sets it from the fields of the pod; check its template";

impl NodeArgs {
    /// The identity of the daemon.
    ///
    /// # Errors
    /// If one of the variables is empty, except `CLIQUE_ID`.
    pub fn identity(&self) -> Result<Identity, MissingVariable> {
        for (variable, value, remedy) in [
            ("COMPUTE_DOMAIN_UUID", &self.compute_domain_uuid, OF_PLUGIN),
            ("COMPUTE_DOMAIN_NAME", &self.compute_domain_name, OF_PLUGIN),
            ("COMPUTE_DOMAIN_NAMESPACE", &self.compute_domain_namespace, OF_PLUGIN),
            ("NODE_NAME", &self.node_name, OF_DAEMON_SET),
            ("POD_NAME", &self.pod_name, OF_DAEMON_SET),
            ("POD_UID", &self.pod_uid, OF_DAEMON_SET),
            ("POD_IP", &self.pod_ip, OF_DAEMON_SET),
            ("POD_NAMESPACE", &self.pod_namespace, OF_DAEMON_SET),
        ] {
            if value.is_empty() {
                return Err(MissingVariable { variable, remedy });
            }
        }
        Ok(Identity {
            domain_namespace: self.compute_domain_namespace.clone(),
            domain_name: self.compute_domain_name.clone(),
            domain_uid: self.compute_domain_uuid.clone(),
            driver_namespace: self.pod_namespace.clone(),
            clique: self.clique_id.clone(),
            node: self.node_name.clone(),
            pod_name: self.pod_name.clone(),
            pod_uid: self.pod_uid.clone(),
            pod_ip: self.pod_ip.clone(),
            max_nodes: self.max_nodes_per_imex_domain,
        })
    }
}

impl SyncArgs {
    /// The strategy of the daemon.
    pub fn strategy(&self) -> Strategy {
        Strategy::configured(self.feature_gates.has_cliques, self.sync_strategy.0)
    }

    /// The limit of the requests.
    pub fn rate_limit(&self) -> Option<RateLimit> {
        let (qps, burst) = self.kube_api_qps.zip(self.kube_api_burst)?;
        (burst > 0).then_some(RateLimit { qps, burst })
    }
}

impl ProcessArgs {
    /// The level of the log.
    pub fn log_level(&self) -> &'static str {
        if self.log_verbosity >= 6 { "debug" } else { "info" }
    }
}

/// A strategy. The empty text means that of the feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncStrategy(pub Option<Strategy>);

impl FromStr for SyncStrategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Ok(Self(None));
        }
        let known = Strategy::ALL.iter().find(|(known, _)| *known == name);
        let names: Vec<_> = Strategy::ALL.iter().map(|(name, _)| *name).collect();
        let unknown = || format!("supported values: {}", names.join(", "));
        known.map(|(_, strategy)| Self(Some(*strategy))).ok_or_else(unknown)
    }
}

fn parse_max_nodes(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|number| (1..=9999).contains(number)).ok_or("must be from 1 to 9999")
}

fn parse_qps(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|rate| (0.001..=1e6).contains(rate)).ok_or("must be from 0.001 to 1000000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["compute-domain-daemon"].iter().chain(arguments).chain(&["run"]))
    }

    #[test]
    fn a_missing_variable_is_named_with_its_remedy() {
        let complete = NodeArgs {
            compute_domain_uuid: "uid".to_owned(),
            compute_domain_name: "llm-0".to_owned(),
            compute_domain_namespace: "team".to_owned(),
            clique_id: String::new(),
            node_name: "node".to_owned(),
            pod_name: "pod".to_owned(),
            pod_uid: "pod-uid".to_owned(),
            pod_ip: "10.0.0.1".to_owned(),
            pod_namespace: "grove-system".to_owned(),
            max_nodes_per_imex_domain: 18,
        };
        let identity = complete.identity().unwrap();
        assert_eq!((identity.domain_uid.as_str(), identity.driver_namespace.as_str()), ("uid", "grove-system"));
        let without_domain = NodeArgs { compute_domain_uuid: String::new(), ..complete.clone() };
        let error = without_domain.identity().unwrap_err().to_string();
        assert!(error.starts_with("COMPUTE_DOMAIN_UUID is empty: the kubelet plugin"), "{error}");
        let without_address = NodeArgs { pod_ip: String::new(), ..complete };
        let error = without_address.identity().unwrap_err().to_string();
        assert!(error.starts_with("POD_IP is empty: the DaemonSet"), "{error}");
    }

    #[test]
    fn the_strategy_overrides_the_feature_gate() {
        let strategy = |arguments: &[&str]| parse(arguments).unwrap().sync.strategy();
        let gate = "--feature-gates=ComputeDomainCliques=true,DynamicMIG=false";
        assert_eq!(strategy(&[]), Strategy::SsaStatus);
        assert_eq!(strategy(&["--sync-strategy="]), Strategy::SsaStatus);
        assert_eq!(strategy(&[gate]), Strategy::ControllerClique);
        assert_eq!(strategy(&[gate, "--sync-strategy=rmw-status"]), Strategy::RmwStatus);
        let error = parse(&["--sync-strategy=fast"]).unwrap_err().to_string();
        assert!(error.contains("rmw-status, ssa-status, rmw-clique, ssa-clique, controller-clique"), "{error}");
    }

    #[test]
    fn a_rate_limit_needs_both_flags() {
        assert_eq!(parse(&[]).unwrap().sync.rate_limit(), None);
        let limited = parse(&["--kube-api-qps=5", "--kube-api-burst=10"]).unwrap().sync.rate_limit();
        assert_eq!(limited, Some(RateLimit { qps: 5.0, burst: 10 }));
        for invalid in
            ["--kube-api-qps=5", "--kube-api-qps=inf --kube-api-burst=1", "--kube-api-qps=0 --kube-api-burst=1"]
        {
            assert!(parse(&invalid.split(' ').collect::<Vec<_>>()).is_err(), "{invalid}");
        }
        assert!(parse(&["--max-nodes-per-imex-domain=0"]).is_err());
    }

    #[test]
    fn the_log_has_debug_messages_from_verbosity_6_on() {
        let level = |verbosity: &str| parse(&["--log-verbosity", verbosity]).unwrap().process.log_level();
        assert_eq!(["0", "5", "6"].map(level), ["info", "info", "debug"]);
    }
}
