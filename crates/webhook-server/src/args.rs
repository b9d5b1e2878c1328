//! The flags of this service, in addition to the common flags of all services.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use grove_api_types::configuration::CertProvisionMode;
use grove_api_types::duration::GoDuration;
use grove_api_types::syntax::is_dns_subdomain;

/// The service accounts of Grove's own services. webhook-server is one of them: it must be able to renew its certificate
/// while the API server cannot call it.
pub const GROVE_ACCOUNTS: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", crate::NAME];

/// Shorter periods would only add load to the API server.
const MIN_PERIOD: Duration = Duration::from_secs(1);
/// Ten years.
const MAX_PERIOD: Duration = Duration::from_hours(10 * 365 * 24);

/// Flags of the webhooks. They override the configuration file.
#[derive(Clone, Debug, clap::Args)]
pub struct WebhookArgs {
    /// Address of the HTTPS server for the webhooks [default: [::]:2750].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webhook_address: Option<SocketAddr>,

    /// Source of the serving certificate: `auto` issues and rotates it, `manual` reads it from `serverCertDir`
    /// [default: auto].
    #[arg(long, value_enum, value_name = "MODE")]
    pub cert_provision_mode: Option<Mode>,

    /// Additional DNS names and IP addresses of the issued certificate. It always has the names of the Service.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host)]
    pub certificate_names: Vec<String>,

    /// Age at which the issued certificate is renewed. It is valid for twice as long, and for at least 24h.
    #[arg(long, value_name = "DURATION", default_value = "1440h", value_parser = period)]
    pub certificate_period: Duration,

    /// Age at which the CA of the issued certificate is renewed. The CA bundle keeps up to two previous CAs.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = period)]
    pub ca_period: Duration,

    /// Keep accepting connections after SIGTERM until none arrives for this long, so that endpoints can be updated
    /// first. At most 6s.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = shutdown_delay)]
    pub shutdown_delay_duration: Duration,

    /// Service accounts of Grove's services, in the namespace of this service. The authorizer allows them to change
    /// managed objects.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = GROVE_ACCOUNTS, value_parser = account)]
    pub grove_accounts: Vec<String>,
}

/// The source of the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// This service issues and rotates the certificate.
    Auto,
    /// The certificate is read from files.
    Manual,
}

impl From<Mode> for CertProvisionMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Auto => Self::Auto,
            Mode::Manual => Self::Manual,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    GoDuration::new(text).value().ok_or_else(|| "must be a duration such as 15s or 1h30m".to_owned())
}

fn shutdown_delay(text: &str) -> Result<Duration, String> {
    let max = crate::serve::MAX_SHUTDOWN_DELAY;
    let delay = duration(text)?;
    (delay <= max)
        .then_some(delay)
        .ok_or_else(|| format!("must be at most {max:?}, because the process ends soon after"))
}

fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if (MIN_PERIOD..=MAX_PERIOD).contains(&period) {
        Ok(period)
    } else {
        Err("must be at least 1s and at most 87600h (ten years)".to_owned())
    }
}

fn host(text: &str) -> Result<String, String> {
    let is_host = is_dns_subdomain(text.strip_prefix("*.").unwrap_or(text)) || text.parse::<IpAddr>().is_ok();
    let name = is_host.then(|| text.to_owned());
    name.ok_or_else(|| "must be a host name in lower case without a port, or an IP address".to_owned())
}

fn account(text: &str) -> Result<String, String> {
    let name = is_dns_subdomain(text).then(|| text.to_owned());
    name.ok_or_else(|| "must be the name of a ServiceAccount without its namespace".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Args {
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    fn parse(flag: &str) -> Result<WebhookArgs, String> {
        let parsed = Args::try_parse_from(["webhook-server", flag]);
        parsed.map(|args| args.webhooks).map_err(|error| error.to_string())
    }

    #[test]
    fn an_invalid_flag_is_rejected_with_the_remedy() {
        for (flag, remedy) in [
            ("--certificate-period=60", "must be a duration such as 15s or 1h30m"),
            ("--certificate-period=0s", "must be at least 1s and at most 87600h"),
            ("--ca-period=999ms", "must be at least 1s and at most 87600h"),
            ("--ca-period=99999999999999999999h", "must be at least 1s and at most 87600h"),
            ("--shutdown-delay-duration=-5s", "must be a duration such as 15s or 1h30m"),
            ("--shutdown-delay-duration=6001ms", "must be at most 6s"),
            ("--certificate-names=localhost,https://localhost", "must be a host name"),
            ("--certificate-names=10.0.0.1:443", "must be a host name"),
            ("--certificate-names=", "must be a host name"),
            ("--grove-accounts=system:serviceaccount:grove-system:a", "must be the name of a ServiceAccount"),
        ] {
            let error = parse(flag).expect_err(flag);
            assert!(error.contains(remedy), "{flag}: {error}");
        }
    }

    #[test]
    fn valid_flags_are_accepted() {
        for flag in [
            "--certificate-period=1s",
            "--ca-period=87600h",
            "--shutdown-delay-duration=0s",
            "--shutdown-delay-duration=6s",
        ] {
            parse(flag).expect(flag);
        }
        let names =
            parse("--certificate-names=grove.example.com,*.example.com,10.0.0.1,::1").expect("names").certificate_names;
        assert_eq!(names, ["grove.example.com", "*.example.com", "10.0.0.1", "::1"]);
    }
}
