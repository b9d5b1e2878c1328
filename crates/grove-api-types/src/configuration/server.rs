//! `server`: where a service listens, and where the webhook's certificate comes from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::document::Section;
use crate::syntax::is_dns_subdomain;

/// Where a service listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// `server.webhooks`
    pub webhooks: WebhookServer,
    /// `server.healthProbes`: `/healthz`, `/readyz`.
    pub health_probes: Address<2751>,
    /// `server.metrics`: `/metrics`.
    pub metrics: Address<2752>,
}

/// An address that a service listens on; `PORT` unless another is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<const PORT: u16>(pub SocketAddr);

impl<const PORT: u16> Default for Address<PORT> {
    fn default() -> Self {
        Self(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT))
    }
}

/// How the API server reaches the webhooks, and how it knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookServer {
    /// `bindAddress` and `port`.
    pub address: Address<2750>,
    /// The folder with `tls.crt` and `tls.key`.
    pub server_cert_dir: String,
    /// The Secret that the certificate is kept in.
    pub secret_name: String,
    /// Who makes the certificate.
    pub cert_provision_mode: CertProvisionMode,
}

/// Who makes the webhook's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertProvisionMode {
    /// The webhook server itself.
    #[default]
    Auto,
    /// Somebody else, who puts it into the folder.
    Manual,
}

impl CertProvisionMode {
    const ALL: [(&'static str, Self); 2] = [("auto", Self::Auto), ("manual", Self::Manual)];
}

impl Default for WebhookServer {
    fn default() -> Self {
        Self {
            address: Address::default(),
            server_cert_dir: "/etc/grove-operator/webhook-certs".into(),
            secret_name: "grove-webhook-server-cert".into(),
            cert_provision_mode: CertProvisionMode::default(),
        }
    }
}

impl Server {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let probes = section.section("healthProbes");
        if probes.flag("enable") == Some(false) {
            probes.warn("enable", "has no effect, probes are always served");
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
        let secret_name = section.written("secretName").unwrap_or(default.secret_name);
        if !is_dns_subdomain(&secret_name) {
            section.invalid("secretName", "must be the name of a Secret");
        }
        Self {
            address: Address::read(section),
            server_cert_dir: section.written("serverCertDir").unwrap_or(default.server_cert_dir),
            secret_name,
            cert_provision_mode: section.one_of("certProvisionMode", &CertProvisionMode::ALL).unwrap_or_default(),
        }
    }
}

impl<const PORT: u16> Address<PORT> {
    fn read(section: &Section<'_>) -> Self {
        let Self(default) = Self::default();
        let host = section.written("bindAddress").map(|host| parse_host(&host));
        if host == Some(None) {
            section.invalid("bindAddress", "must be an IP address; leave it out to listen on all of the machine's");
        }
        // Zero is unset, as in the Go operator.
        let port = section.whole("port").filter(|port| *port != 0).map(|port| u16::try_from(port).ok());
        if port == Some(None) {
            section.invalid("port", "must be between 1 and 65535");
        }
        Self(SocketAddr::new(host.flatten().unwrap_or(default.ip()), port.flatten().unwrap_or(PORT)))
    }
}

fn parse_host(host: &str) -> Option<IpAddr> {
    if host == "localhost" { Some(Ipv4Addr::LOCALHOST.into()) } else { host.parse().ok() }
}
