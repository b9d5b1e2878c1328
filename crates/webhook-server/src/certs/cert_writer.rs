//! Writes the Secret, and the CA bundles of the webhook configurations. Each patch contains only the changed fields and
//! the observed resourceVersion.

use std::collections::BTreeMap;
use std::future::Future;

use grove_api_types::labels::MANAGED_BY;
use grove_runtime::api_error::ApiError;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use grove_runtime::metrics::Metrics;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::observed::{Observed, WebhookConfigKind, WebhookConfigState};

/// The labels of the Secret. The Go operator also sets the label of managed objects. With that label the authorizer would
/// protect the Secret, and block the repair of a broken certificate, because the API server cannot call the authorizer.
const LABELS: [(&str, &str); 2] = [("app.kubernetes.io/part-of", "grove"), ("app.kubernetes.io/component", "webhook")];

/// The client of the rotation.
#[derive(Clone)]
pub(crate) struct CertWriter {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) namespace: String,
    /// Name of the Secret.
    pub(crate) secret: String,
}

impl CertWriter {
    /// Creates the Secret, or patches it if it still has the observed resourceVersion.
    #[expect(clippy::disallowed_methods, reason = "the certificate rotation writes its objects here")]
    pub(crate) async fn write_secret(
        &self,
        observed: &Observed,
        data: BTreeMap<String, ByteString>,
    ) -> Result<(), ApiError> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let Some(version) = &observed.secret_version else {
            let labels = LABELS.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.secret.clone()),
                    labels: Some(labels.into()),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data: Some(data),
                ..Secret::default()
            };
            return self.send::<Secret, _>("create", secrets.create(&PostParams::default(), &secret)).await;
        };
        let metadata = if observed.is_secret_protected {
            json!({ "resourceVersion": version, "labels": { MANAGED_BY: null } })
        } else {
            json!({ "resourceVersion": version })
        };
        let body = json!({ "metadata": metadata, "data": data });
        self.patch(&secrets, &self.secret, &Patch::Merge(body)).await
    }

    /// Writes the CA bundle into all webhooks of a configuration.
    pub(crate) async fn inject_ca_bundle(&self, target: &WebhookConfigState, bundle: &str) -> Result<(), ApiError> {
        let WebhookConfigState { kind, name, resource_version, ca_bundles, uses_cert_manager: _ } = target;
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let webhook = |name: &String| json!({ "name": name, "clientConfig": { "caBundle": bundle } });
        let webhooks: Vec<Value> = ca_bundles.keys().map(webhook).collect();
        let body = json!({ "metadata": { "resourceVersion": resource_version }, "webhooks": webhooks });
        let patch = Patch::Strategic(body);
        match kind {
            WebhookConfigKind::Mutating => {
                self.patch(&Api::<MutatingWebhookConfiguration>::all(self.client.clone()), name, &patch).await
            }
            WebhookConfigKind::Validating => {
                self.patch(&Api::<ValidatingWebhookConfiguration>::all(self.client.clone()), name, &patch).await
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the certificate rotation writes its objects here")]
    async fn patch<K>(&self, api: &Api<K>, name: &str, patch: &Patch<Value>) -> Result<(), ApiError>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        self.send::<K, _>("patch", api.patch(name, &PatchParams::default(), patch)).await
    }

    /// Sends the request with a timeout, and counts it.
    async fn send<K: Resource<DynamicType = ()>, T>(
        &self,
        verb: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<(), ApiError> {
        let result = with_timeout(REQUEST_TIMEOUT, request).await.map_err(|error| ApiError::from(&error));
        let code = result.as_ref().map_or_else(|error| error.code.to_string(), |_| "success".to_owned());
        self.metrics.record_write(verb, &K::kind(&()), &code);
        result.map(drop)
    }
}
