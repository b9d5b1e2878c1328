//! What is shown in TLS handshakes: a certificate and its key, exchanged at any time between two handshakes.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::observed::Parsed;
use crate::metrics::Counters;

/// The certificate that is served now. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the certificate cannot be read: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    #[error("there is no certificate")]
    Empty,
    #[error("the key cannot be read: {0}")]
    Key(rustls::pki_types::pem::Error),
    #[error("the key does not fit the certificate: {0}")]
    Mismatch(rustls::Error),
}

impl Identity {
    /// Serves this certificate, with what certifies it, from the next handshake on. Says whether it is another one than
    /// before.
    pub(crate) fn assume(&self, certificates: &[u8], key: &[u8]) -> Result<bool, Error> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>().map_err(Error::Certificate)?;
        if chain.is_empty() {
            return Err(Error::Empty);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::Key)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key).map_err(Error::Mismatch)?;
        let fresh = CertifiedKey::new(chain, key);
        fresh.keys_match().map_err(Error::Mismatch)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = current.as_ref().is_none_or(|current| current.cert != fresh.cert);
        *current = Some(Arc::new(fresh));
        Ok(is_new)
    }

    /// Whether there is a certificate to serve.
    pub(crate) fn is_there(&self) -> bool {
        self.current().is_some()
    }

    /// The certificate that is served.
    #[cfg(test)]
    pub(crate) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.current().and_then(|current| current.cert.first().cloned())
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        // Nobody panics while holding the lock.
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

/// Says what is served from now on, in the log and among the metrics.
pub(crate) fn tell(certificates: &str, counters: &Counters) {
    let Some(served) = Parsed::all(certificates).and_then(|all| all.into_iter().next()) else {
        return tracing::info!("another certificate is served");
    };
    counters.serves_until(served.expires.as_second());
    tracing::info!(names = ?served.names, expires = %served.expires, "another certificate is served");
}
