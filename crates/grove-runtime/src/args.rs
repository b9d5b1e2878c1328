//! The flags that all services share.

use std::{fmt::Display, net::SocketAddr, path::PathBuf};

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

/// The name of a flag, and its value if it is set.
type Flag<'a, T> = (&'a str, Option<T>);
/// The key of a setting in the configuration, its value, and the default.
type Configured<'a, T> = (&'a str, T, T);

/// The value of `flag`, or that of the configuration. A flag that overrides another configured value than the default causes a warning.
pub fn flag_or_configured<T: PartialEq + Display>(flag: Flag<'_, T>, configured: Configured<'_, T>) -> T {
    if let Some(warning) = override_warning(&flag, &configured) {
        tracing::warn!("{warning}");
    }
    flag.1.unwrap_or(configured.1)
}

fn override_warning<T: PartialEq + Display>(
    (name, flag): &Flag<'_, T>,
    (key, configured, default): &Configured<'_, T>,
) -> Option<String> {
    let flag = flag.as_ref().filter(|flag| configured != default && configured != *flag)?;
    Some(format!("{name} {flag} overrides {key} of the configuration, which is {configured}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_precedence() {
        let key = ("server.metrics", 2, 3);
        assert_eq!(flag_or_configured(("--metrics-address", Some(1)), key), 1);
        assert_eq!(flag_or_configured(("--metrics-address", None), key), 2);
    }

    #[test]
    fn a_flag_overrides_a_configured_value_with_a_warning() {
        let warning = |flag, configured| override_warning(&("--a", flag), &("server.a", configured, 2));
        assert_eq!(warning(Some(2), 1).as_deref(), Some("--a 2 overrides server.a of the configuration, which is 1"));
        for (flag, configured) in [(None, 1), (Some(1), 1), (Some(1), 2)] {
            assert_eq!(warning(flag, configured), None, "{flag:?} {configured}");
        }
    }
}
