//! The flags of this service, beside those that every service has.

use std::net::SocketAddr;
use std::time::Duration;

use grove_api_types::configuration::CertProvisionMode;
use grove_api_types::duration::Duration as Text;

/// The names of the accounts by which Grove's own services act.
pub const GROVE_ACCOUNTS: [&str; 4] = ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"];

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
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub certificate_names: Vec<String>,

    /// After so long the certificate is replaced by another, well before it expires.
    #[arg(long, value_name = "DURATION", default_value = "1440h", value_parser = duration)]
    pub certificate_period: Duration,

    /// After so long the authority behind it is replaced. Both are trusted for a while.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    pub authority_period: Duration,

    /// After SIGTERM connections are taken until none came for so long, as the word has to spread that this process is not
    /// ready; at most 12s.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = linger)]
    pub shutdown_delay_duration: Duration,

    /// The accounts of Grove's own services, in the namespace of this one. They may change what Grove manages.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = GROVE_ACCOUNTS)]
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
    let most = crate::serve::LONGEST_LINGER;
    let given = duration(text)?;
    (given <= most).then_some(given).ok_or_else(|| format!("must be at most {most:?}, as this process ends soon after"))
}
