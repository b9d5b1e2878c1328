//! Executes one rotation step: issues certificates and writes them.

use std::collections::BTreeMap;

use grove_runtime::api_error::ApiError;
use grove_runtime::clock::Clock;
use k8s_openapi::ByteString;

use super::ca::{self, CertKeyPair};
use super::cert_writer::CertWriter;
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
    Write(#[from] ApiError),
}

impl RotationExecutor {
    pub(crate) async fn execute(&self, observed: &Observed, step: &RotationStep) -> Result<(), Error> {
        match (step, &observed.secret) {
            (RotationStep::IssueCa, Some(secret)) => self.issue_ca(observed, secret).await,
            (RotationStep::IssueServingCert, Some(secret)) => self.issue_serving_cert(observed, secret).await,
            (RotationStep::InjectCaBundle(targets), _) => {
                self.inject_ca_bundle(targets, observed.ca_bundle().unwrap_or_default()).await
            }
            (RotationStep::Bootstrap | RotationStep::IssueCa | RotationStep::IssueServingCert, _) => {
                self.bootstrap(observed).await
            }
            (RotationStep::WaitUntil(_), _) => Ok(()),
        }
    }

    async fn bootstrap(&self, observed: &Observed) -> Result<(), Error> {
        let ca = ca::issue_ca(self.clock.now(), self.policy.ca_period)?;
        let CertKeyPair { certificate, key } = self.serving_cert((&ca.certificate, &ca.key))?;
        let data = [
            (CA_BUNDLE, ca.certificate.clone()),
            (CA_KEY, ca.key.clone()),
            (CERTIFICATE, certificate),
            (CERTIFICATE_KEY, key),
        ];
        self.write(observed, data).await?;
        tracing::info!("issued a CA and a serving certificate");
        Ok(())
    }

    async fn issue_ca(&self, observed: &Observed, secret: &CertSecret) -> Result<(), Error> {
        let now = self.clock.now();
        let CertKeyPair { certificate, key } = ca::issue_ca(now, self.policy.ca_period)?;
        let ca_bundle = secret.ca_bundle_with(&certificate, now, MAX_CAS);
        self.write(observed, [(CA_BUNDLE, ca_bundle), (CA_KEY, key)]).await?;
        tracing::info!("issued a new CA; it signs serving certificates once every caBundle contains it");
        Ok(())
    }

    async fn issue_serving_cert(&self, observed: &Observed, secret: &CertSecret) -> Result<(), Error> {
        let CertKeyPair { certificate, key } = self.serving_cert((&secret.ca.pem, &secret.ca_key))?;
        Ok(self.write(observed, [(CERTIFICATE, certificate), (CERTIFICATE_KEY, key)]).await?)
    }

    fn serving_cert(&self, ca: (&str, &str)) -> Result<CertKeyPair, rcgen::Error> {
        let RotationPolicy { subject_alt_names, certificate_period, ca_period: _ } = &self.policy;
        ca::issue_serving_cert(ca, subject_alt_names, self.clock.now(), *certificate_period)
    }

    /// Writes the CA bundle into every target, also after an error. Returns the first error.
    async fn inject_ca_bundle(&self, targets: &[WebhookConfigState], bundle: &str) -> Result<(), Error> {
        let mut result = Ok(());
        for target in targets {
            match self.writer.inject_ca_bundle(target, bundle).await {
                Ok(()) => tracing::info!(configuration = target.name, "injected the CA bundle"),
                Err(error) => result = result.and(Err(Error::Write(error))),
            }
        }
        result
    }

    async fn write<const N: usize>(&self, observed: &Observed, data: [(&str, String); N]) -> Result<(), ApiError> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect();
        self.writer.write_secret(observed, data).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grove_runtime::metrics::Metrics;
    use grove_test_support::mock_api_server::{self, MockResponse, RequestLog};
    use serde_json::json;

    use super::*;
    use crate::certs::observed::WebhookConfigKind;

    /// An executor, and the requests that it sends. The server rejects every write of the object with this name.
    fn executor(rejected: &'static str) -> (RotationExecutor, RequestLog) {
        let (client, log) = mock_api_server::client(move |request| {
            if request.path.ends_with(rejected) {
                return MockResponse::error(403, "Forbidden");
            }
            MockResponse::ok(json!({ "metadata": { "name": "written" } }))
        });
        let writer = CertWriter {
            client,
            metrics: Metrics::new().unwrap(),
            namespace: "grove-system".to_owned(),
            secret: "certificate".to_owned(),
        };
        let hour = Duration::from_hours(1);
        let subject_alt_names = vec!["webhook-server".to_owned()];
        let policy = RotationPolicy { subject_alt_names, certificate_period: hour, ca_period: hour };
        (RotationExecutor { writer, policy, clock: Clock::system() }, log)
    }

    #[tokio::test]
    async fn one_rejected_configuration_does_not_prevent_the_injection_into_the_others() {
        let (executor, log) = executor("/a");
        let targets = ["a", "b"].map(|name| WebhookConfigState {
            kind: WebhookConfigKind::Validating,
            name: name.to_owned(),
            resource_version: "1".to_owned(),
            ca_bundles: BTreeMap::from([("hook".to_owned(), vec![])]),
            uses_cert_manager: false,
        });
        let step = RotationStep::InjectCaBundle(targets.to_vec());
        let result = executor.execute(&Observed::default(), &step).await;
        assert!(result.is_err_and(|error| error.to_string().contains("Forbidden")));
        assert_eq!(log.methods_and_names(), ["PATCH a", "PATCH b"]);
    }

    #[tokio::test]
    async fn a_write_of_the_secret_removes_the_label_that_the_authorizer_selects() {
        for (is_secret_protected, expected) in
            [(true, json!({ "app.kubernetes.io/managed-by": null })), (false, json!(null))]
        {
            let (executor, log) = executor("/none");
            let secret_version = Some("1".to_owned());
            let observed = Observed { secret_version, is_secret_protected, ..Observed::default() };
            executor.execute(&observed, &RotationStep::Bootstrap).await.unwrap();
            assert_eq!(log.requests()[0].body["metadata"]["labels"], expected);
        }
        let (executor, log) = executor("/none");
        executor.execute(&Observed::default(), &RotationStep::Bootstrap).await.unwrap();
        let labels = &log.requests()[0].body["metadata"]["labels"];
        assert_eq!(*labels, json!({ "app.kubernetes.io/part-of": "grove", "app.kubernetes.io/component": "webhook" }));
    }
}
