//! `server`: the addresses of a service, and the certificate of the webhook.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::document::Section;
use crate::syntax::is_dns_subdomain;

/// The addresses of a service, and the certificate of the webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `server.webhooks`
    pub webhooks: WebhookServer,
    /// `server.healthProbes`: serves `/healthz` and `/readyz`. Default port: 2751.
    pub health_probes: Option<Address<2751>>,
    /// `server.metrics`: serves `/metrics`. Default port: 2752.
    pub metrics: Option<Address<2752>>,
}

/// An address that a service listens on. `PORT` is the default port.
///
/// It and the other settings that a flag overrides are `Option`s: a service warns if its flag overrides what the file contains, also
/// if the file contains the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<const PORT: u16>(pub SocketAddr);

impl<const PORT: u16> Default for Address<PORT> {
    fn default() -> Self {
        Self(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT))
    }
}

impl<const PORT: u16> Display for Address<PORT> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The address and the certificate of the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookServer {
    /// `bindAddress` and `port`. Default port: 2750.
    pub address: Option<Address<2750>>,
    /// The directory with `tls.crt` and `tls.key`.
    pub server_cert_dir: String,
    /// The Secret that contains the certificate.
    pub secret_name: String,
    /// The issuer of the certificate. Default: `auto`.
    pub cert_provision_mode: Option<CertProvisionMode>,
}

/// The issuer of the webhook's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertProvisionMode {
    /// webhook-server issues and rotates it.
    #[default]
    Auto,
    /// An administrator or another controller writes it into the directory.
    Manual,
}

impl CertProvisionMode {
    const ALL: [(&'static str, Self); 2] = [("auto", Self::Auto), ("manual", Self::Manual)];
}

impl Display for CertProvisionMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
        })
    }
}

impl Default for WebhookServer {
    fn default() -> Self {
        Self {
            address: None,
            server_cert_dir: "/etc/grove-operator/webhook-certs".into(),
            secret_name: "grove-webhook-server-cert".into(),
            cert_provision_mode: None,
        }
    }
}

impl Server {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let probes = section.section("healthProbes");
        if probes.bool("enable") == Some(false) {
            probes.warn("enable", "has no effect: the services always serve probes");
        }
        Self {
            webhooks: WebhookServer::read(&section.section("webhooks")),
            health_probes: Address::read(&probes),
            metrics: Address::read(&section.section("metrics")),
        }
    }
}

impl WebhookServer {
    fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let secret_name = section.non_empty_string("secretName").unwrap_or(default.secret_name);
        if !is_dns_subdomain(&secret_name) {
            section.invalid("secretName", "must be the name of a Secret");
        }
        Self {
            address: Address::read(section),
            server_cert_dir: section.non_empty_string("serverCertDir").unwrap_or(default.server_cert_dir),
            secret_name,
            cert_provision_mode: section.enum_value("certProvisionMode", &CertProvisionMode::ALL),
        }
    }
}

impl<const PORT: u16> Address<PORT> {
    fn read(section: &Section<'_>) -> Option<Self> {
        let Self(default) = Self::default();
        let host = section.non_empty_string("bindAddress").map(|host| parse_host(&host));
        if host == Some(None) {
            section.invalid("bindAddress", "must be an IP address; omit it to listen on all addresses");
        }
        // 0 means unset, as in the Go operator.
        let port = section.integer("port").filter(|port| *port != 0).map(|port| u16::try_from(port).ok());
        if port == Some(None) {
            section.invalid("port", "must be between 1 and 65535");
        }
        let is_set = host.is_some() || port.is_some();
        is_set.then(|| Self(SocketAddr::new(host.flatten().unwrap_or(default.ip()), port.flatten().unwrap_or(PORT))))
    }
}

fn parse_host(host: &str) -> Option<IpAddr> {
    if host == "localhost" { Some(Ipv4Addr::LOCALHOST.into()) } else { host.parse().ok() }
}
