//! The flags that all services share.

use std::{net::SocketAddr, path::PathBuf};

use crate::telemetry::LogFormat;

/// The flags that all services share. A flag overrides the same setting of the configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CommonArgs {
    /// Kubeconfig of the cluster [default: the service account of the pod]. The service ignores the variable KUBECONFIG.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// File with an `OperatorConfiguration` [default: the default of every setting].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Identity of this replica in the leader election [default: host name and a random number]. Two running replicas of
    /// a service must not share an identity. A replica that restarts with the same identity resumes its lease at once.
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,

    /// Address of the probes /healthz and /readyz [default: [::]:2751].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub probe_address: Option<SocketAddr>,

    /// Address of /metrics [default: [::]:2752].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics_address: Option<SocketAddr>,

    /// Format of the log lines [default: json].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,

    /// Log level: error, info, debug, or a filter such as `info,kube=debug` [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
}
