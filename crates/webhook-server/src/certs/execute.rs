//! Executes one rotation step: issues certificates and writes them.

use std::collections::BTreeMap;

use grove_runtime::clock::Clock;
use k8s_openapi::ByteString;

use super::ca::{self, CertKeyPair};
use super::cert_writer::{self, CertWriter};
use super::observed::{Observed, WebhookConfigState};
use super::plan::{RotationPolicy, RotationStep};
use super::secret::{CA_BUNDLE, CA_KEY, CERTIFICATE, CERTIFICATE_KEY, CertSecret};

/// Size of the CA bundle: the newest CA, the CA that signed the serving certificate, and one more for slow replicas.
const MAX_CAS: usize = 3;

/// Executes rotation steps.
pub(crate) struct RotationExecutor {
    pub(crate) writer: CertWriter,
    pub(crate) policy: RotationPolicy,
    pub(crate) clock: Clock,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot issue a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    #[error("cannot write the certificate or the CA bundle: {0}")]
    Write(#[from] cert_writer::Error),
}

impl RotationExecutor {
    pub(crate) async fn execute(&self, observed: &Observed, step: &RotationStep) -> Result<(), Error> {
        let version = observed.secret_version.as_deref();
        match (step, &observed.secret) {
            (RotationStep::IssueCa, Some(secret)) => self.issue_ca(version, secret).await,
            (RotationStep::IssueServingCert, Some(secret)) => self.issue_serving_cert(version, secret).await,
            (RotationStep::InjectCaBundle(targets), _) => {
                self.inject_ca_bundle(targets, observed.ca_bundle().unwrap_or_default()).await
            }
            (RotationStep::Bootstrap | RotationStep::IssueCa | RotationStep::IssueServingCert, _) => {
                self.bootstrap(version).await
            }
            (RotationStep::WaitUntil(_), _) => Ok(()),
        }
    }

    async fn bootstrap(&self, version: Option<&str>) -> Result<(), Error> {
        let ca = ca::issue_ca(self.clock.now(), self.policy.ca_period)?;
        let CertKeyPair { certificate, key } = self.serving_cert((&ca.certificate, &ca.key))?;
        let data = [
            (CA_BUNDLE, ca.certificate.clone()),
            (CA_KEY, ca.key.clone()),
            (CERTIFICATE, certificate),
            (CERTIFICATE_KEY, key),
        ];
        self.write(version, data).await?;
        tracing::info!("issued a CA and a serving certificate");
        Ok(())
    }

    async fn issue_ca(&self, version: Option<&str>, secret: &CertSecret) -> Result<(), Error> {
        let now = self.clock.now();
        let CertKeyPair { certificate, key } = ca::issue_ca(now, self.policy.ca_period)?;
        let ca_bundle = secret.ca_bundle_with(&certificate, now, MAX_CAS);
        self.write(version, [(CA_BUNDLE, ca_bundle), (CA_KEY, key)]).await?;
        tracing::info!("issued a new CA; it signs serving certificates once every caBundle contains it");
        Ok(())
    }

    async fn issue_serving_cert(&self, version: Option<&str>, secret: &CertSecret) -> Result<(), Error> {
        let CertKeyPair { certificate, key } = self.serving_cert((&secret.ca.pem, &secret.ca_key))?;
        Ok(self.write(version, [(CERTIFICATE, certificate), (CERTIFICATE_KEY, key)]).await?)
    }

    fn serving_cert(&self, ca: (&str, &str)) -> Result<CertKeyPair, rcgen::Error> {
        let RotationPolicy { subject_alt_names, certificate_period, ca_period: _ } = &self.policy;
        ca::issue_serving_cert(ca, subject_alt_names, self.clock.now(), *certificate_period)
    }

    async fn inject_ca_bundle(&self, targets: &[WebhookConfigState], bundle: &str) -> Result<(), Error> {
        for target in targets {
            self.writer.inject_ca_bundle(target, bundle).await?;
            tracing::info!(configuration = target.name, "injected the CA bundle");
        }
        Ok(())
    }

    async fn write<const N: usize>(
        &self,
        version: Option<&str>,
        data: [(&str, String); N],
    ) -> Result<(), cert_writer::Error> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect();
        self.writer.write_secret(version, data).await
    }
}
