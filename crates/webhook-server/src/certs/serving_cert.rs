//! The certificate for TLS handshakes. It can be replaced while the server runs.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::x509::Certificate;
use crate::metrics::WebhookMetrics;

/// The current serving certificate. Clones share the same certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServingCert {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot parse the certificate: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    #[error("there is no certificate")]
    Empty,
    #[error("cannot parse the key: {0}")]
    Key(rustls::pki_types::pem::Error),
    #[error("the key does not match the certificate: {0}")]
    Mismatch(rustls::Error),
}

impl ServingCert {
    /// Serves this certificate chain from the next handshake on. If it differs from the previous one, logs it and records its
    /// expiry as a metric.
    pub(crate) fn load(&self, certificates: &[u8], key: &[u8], metrics: &WebhookMetrics) -> Result<(), Error> {
        if self.swap(certificates, key)? {
            log_and_record(&String::from_utf8_lossy(certificates), metrics);
        }
        Ok(())
    }

    /// Serves this certificate chain from the next handshake on. Returns whether the chain differs from the previous
    /// one.
    pub(crate) fn swap(&self, certificates: &[u8], key: &[u8]) -> Result<bool, Error> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(Error::Certificate)?;
        if chain.is_empty() {
            return Err(Error::Empty);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::Key)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(Error::Mismatch)?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(Error::Mismatch)?;
        let mut current = self.current.write();
        let is_new = current.as_ref().is_none_or(|current| current.cert != certified.cert);
        *current = Some(Arc::new(certified));
        Ok(is_new)
    }

    /// Whether there is a certificate to serve.
    pub(crate) fn is_loaded(&self) -> bool {
        self.current().is_some()
    }

    /// The certificate without its chain.
    #[cfg(test)]
    pub(crate) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.current().and_then(|current| current.cert.first().cloned())
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.current.read().clone()
    }
}

impl ResolvesServerCert for ServingCert {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

fn log_and_record(certificates: &str, metrics: &WebhookMetrics) {
    let Some(certificate) = Certificate::parse_all(certificates).and_then(|all| all.into_iter().next()) else {
        return tracing::info!("serving a new certificate");
    };
    let Certificate { subject_alt_names, not_after, .. } = certificate;
    metrics.set_certificate_expiry(not_after.as_second());
    tracing::info!(names = ?subject_alt_names, expires = %not_after, "serving a new certificate");
}
