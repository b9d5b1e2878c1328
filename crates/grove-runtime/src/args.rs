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

/// The name of a flag or the key of a setting in the configuration, and its value if it is set.
type Setting<'a, T> = (&'a str, Option<T>);

/// The value of `flag`, or that of the configuration, or the default. A flag that overrides another configured value causes a warning.
pub fn flag_or_configured<T: Default + PartialEq + Display>(flag: Setting<'_, T>, configured: Setting<'_, T>) -> T {
    if let Some(warning) = override_warning(&flag, &configured) {
        tracing::warn!("{warning}");
    }
    flag.1.or(configured.1).unwrap_or_default()
}

fn override_warning<T: PartialEq + Display>(
    (name, flag): &Setting<'_, T>,
    (key, configured): &Setting<'_, T>,
) -> Option<String> {
    let (flag, configured) = (flag.as_ref()?, configured.as_ref()?);
    (flag != configured).then(|| format!("{name} {flag} overrides {key} of the configuration, which is {configured}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_precedence() {
        let value = |flag, configured| flag_or_configured(("--metrics-address", flag), ("server.metrics", configured));
        assert_eq!(value(Some(1), Some(2)), 1);
        assert_eq!(value(None, Some(2)), 2);
        assert_eq!(value(None, None), 0);
    }

    #[test]
    fn a_flag_overrides_a_configured_value_with_a_warning() {
        let warning = |flag, configured| override_warning(&("--a", flag), &("server.a", configured));
        // The configured value is the default.
        let text = "--a 2 overrides server.a of the configuration, which is 0";
        assert_eq!(warning(Some(2), Some(0)).as_deref(), Some(text));
        for (flag, configured) in [(None, Some(1)), (Some(1), Some(1)), (Some(1), None)] {
            assert_eq!(warning(flag, configured), None, "{flag:?} {configured:?}");
        }
    }
}
