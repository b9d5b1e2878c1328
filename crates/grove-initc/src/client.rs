//! The connection to the API server with the token of the pod, as client-go connects inside a cluster.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use grove_api_types::startup::{CA_FILE, GANG_FILE, NAMESPACE_FILE, TOKEN_FILE};
use http::header::{AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower::util::MapRequestLayer;

use crate::args::Args;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A watch that transfers nothing for this long is repeated. The API server sends a bookmark about every minute.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// The namespace and the gang of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// The namespace.
    pub namespace: String,
    /// The name of the `PodGang`.
    pub gang: String,
}

impl PodInfo {
    /// Reads the files of the volume with the fields of the pod.
    ///
    /// # Errors
    /// If a file cannot be read, or is empty.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self { namespace: read(&dir.join(NAMESPACE_FILE))?, gang: read(&dir.join(GANG_FILE))? })
    }
}

/// The client. It reads the token for each request, because the kubelet renews the file; there are few requests.
///
/// # Errors
/// If the address, the certificate or the token cannot be used.
pub fn connect(args: &Args) -> anyhow::Result<Client> {
    // An error means that the process already has a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (token, ca) = (args.token_dir.join(TOKEN_FILE), args.token_dir.join(CA_FILE));
    read(&token)?;
    let certificates = CertificateDer::pem_file_iter(&ca)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificates in {}", ca.display()))?;
    let mut config = Config::new(server(&args.api_server_host, args.api_server_port)?);
    config.root_cert = Some(certificates.iter().map(|certificate| certificate.to_vec()).collect());
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // The waiter retries with its own backoff.
    config.default_retry = false;
    let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    let client = ClientBuilder::try_from(config).context("cannot create the client")?;
    let authorize = MapRequestLayer::new(move |mut request: Request<Body>| {
        // Without a token, the API server rejects the request, which is repeated.
        request.headers_mut().extend(authorization(&token).map(|value| (AUTHORIZATION, value)));
        request
    });
    Ok(client.with_layer(&authorize).build())
}

fn authorization(token: &Path) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", read(token).ok()?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The URL of the API server. An IPv6 address needs brackets.
fn server(host: &str, port: u16) -> anyhow::Result<Uri> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let url = format!("https://{host}:{port}");
    url.parse().with_context(|| format!("{url} is not the URL of an API server"))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    anyhow::ensure!(!text.trim().is_empty(), "{} is empty", file.display());
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_gets_brackets() {
        for (host, expected) in [("10.0.0.1", "https://10.0.0.1:443/"), ("fd00::1", "https://[fd00::1]:443/")] {
            assert_eq!(server(host, 443).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn a_missing_file_is_an_error_with_its_path() {
        let error = PodInfo::read(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/namespace");
    }
}
