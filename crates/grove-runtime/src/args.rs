//! The flags that every service has.

use std::{net::SocketAddr, path::PathBuf};

use crate::telemetry::LogFormat;

/// The flags that every service has; they win over the configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CommonArgs {
    /// Kubeconfig of the cluster; without it the service uses the pod it runs in. The variable KUBECONFIG is ignored.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// `OperatorConfiguration`; without it everything has its default.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What this replica is called among those of its service [default: the host's name and a random number]. No two may
    /// have one name at a time; one that comes back under its name takes its lease up again at once.
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,

    /// Where /healthz and /readyz are served [default: 0.0.0.0:2751].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub probe_address: Option<SocketAddr>,

    /// Where /metrics is served [default: 0.0.0.0:2752].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics_address: Option<SocketAddr>,

    /// How log lines look [default: json].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,

    /// error, info or debug, or a filter such as `info,kube=debug` [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
}
