//! The flags of this service, beside those that every service has.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use grove_api_types::configuration::CertProvisionMode;
use grove_api_types::duration::Duration as Text;
use grove_api_types::syntax::is_dns_subdomain;

/// The names of the accounts by which Grove's own services act.
pub const GROVE_ACCOUNTS: [&str; 4] = ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"];

/// Renewals that follow one another more quickly would only keep the API server busy.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// Ten years.
const LONGEST_PERIOD: Duration = Duration::from_hours(10 * 365 * 24);

/// What concerns the webhooks; these win over the configuration file.
#[derive(Clone, Debug, clap::Args)]
pub struct WebhookArgs {
    /// Where the webhooks are served [default: 0.0.0.0:2750].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webhook_address: Option<SocketAddr>,

    /// Who makes the certificate: auto, this service; manual, somebody else, in `serverCertDir` [default: auto].
    #[arg(long, value_enum, value_name = "MODE")]
    pub cert_provision_mode: Option<Mode>,

    /// Further names and addresses by which the API server calls this service; those of its Service are always in the
    /// certificate.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host)]
    pub certificate_names: Vec<String>,

    /// After so long the certificate is replaced by another, well before it expires.
    #[arg(long, value_name = "DURATION", default_value = "1440h", value_parser = period)]
    pub certificate_period: Duration,

    /// After so long the authority behind it is replaced. Both are trusted for a while.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = period)]
    pub authority_period: Duration,

    /// After SIGTERM connections are taken until none came for so long, as the word has to spread that this process is not
    /// ready; at most 6s.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = linger)]
    pub shutdown_delay_duration: Duration,

    /// The accounts of Grove's own services, in the namespace of this one. They may change what Grove manages.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = GROVE_ACCOUNTS, value_parser = account)]
    pub grove_accounts: Vec<String>,
}

/// Who makes the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// This service.
    Auto,
    /// Somebody else.
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
    Text::new(text).value().ok_or_else(|| "must be a duration such as 15s or 1h30m".to_owned())
}

fn linger(text: &str) -> Result<Duration, String> {
    let most = crate::serve::LONGEST_DELAY;
    let given = duration(text)?;
    (given <= most).then_some(given).ok_or_else(|| format!("must be at most {most:?}, as this process ends soon after"))
}

fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if (SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&period) {
        Ok(period)
    } else {
        Err("must be at least 1s and at most 87600h, which is ten years".to_owned())
    }
}

fn host(text: &str) -> Result<String, String> {
    let is_host = is_dns_subdomain(text.strip_prefix("*.").unwrap_or(text)) || text.parse::<IpAddr>().is_ok();
    let name = is_host.then(|| text.to_owned());
    name.ok_or_else(|| "must be the name of a host, in lower case and without a port, or an IP address".to_owned())
}

fn account(text: &str) -> Result<String, String> {
    let name = is_dns_subdomain(text).then(|| text.to_owned());
    name.ok_or_else(|| "must be the name of a ServiceAccount, without its namespace".to_owned())
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

    fn read(flag: &str) -> Result<WebhookArgs, String> {
        let read = Args::try_parse_from(["webhook-server", flag]);
        read.map(|args| args.webhooks).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_that_makes_no_sense_is_refused_with_the_remedy() {
        for (flag, remedy) in [
            ("--certificate-period=60", "must be a duration such as 15s or 1h30m"),
            ("--certificate-period=0s", "must be at least 1s and at most 87600h"),
            ("--authority-period=999ms", "must be at least 1s and at most 87600h"),
            ("--authority-period=99999999999999999999h", "must be at least 1s and at most 87600h"),
            ("--shutdown-delay-duration=-5s", "must be a duration such as 15s or 1h30m"),
            ("--shutdown-delay-duration=6001ms", "must be at most 6s"),
            ("--certificate-names=localhost,https://localhost", "must be the name of a host"),
            ("--certificate-names=10.0.0.1:443", "must be the name of a host"),
            ("--certificate-names=", "must be the name of a host"),
            ("--grove-accounts=system:serviceaccount:grove-system:a", "must be the name of a ServiceAccount"),
        ] {
            let words = read(flag).expect_err(flag);
            assert!(words.contains(remedy), "{flag}: {words}");
        }
    }

    #[test]
    fn what_makes_sense_is_taken() {
        for flag in [
            "--certificate-period=1s",
            "--authority-period=87600h",
            "--shutdown-delay-duration=0s",
            "--shutdown-delay-duration=6s",
        ] {
            read(flag).expect(flag);
        }
        let names =
            read("--certificate-names=grove.example.com,*.example.com,10.0.0.1,::1").expect("names").certificate_names;
        assert_eq!(names, ["grove.example.com", "*.example.com", "10.0.0.1", "::1"]);
    }
}
