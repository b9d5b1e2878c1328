//! Writes the Secret with the certificates, and the authorities into the configurations: the narrowest patches, each of
//! the version that was seen.

use std::collections::BTreeMap;
use std::future::Future;

use grove_runtime::api_error::ApiError;
use grove_runtime::client::REQUEST_TIMEOUT;
use grove_runtime::metrics::Metrics;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::observed::{Configuration, Kind};

/// Whom the Secret belongs to, as the Go operator labels its own.
const LABELS: [(&str, &str); 3] = [
    ("app.kubernetes.io/managed-by", "grove-operator"),
    ("app.kubernetes.io/part-of", "grove"),
    ("app.kubernetes.io/component", "webhook"),
];

/// Writes what the keeper decides.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) namespace: String,
    pub(crate) secret: String,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Refused(ApiError),
    #[error("the API server did not answer within {REQUEST_TIMEOUT:?}")]
    Silent,
}

impl Error {
    /// Whether somebody else was faster; what they did is on its way to the caches.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Refused(failure) => [404, 409].contains(&failure.code),
            Self::Silent => false,
        }
    }
}

impl Publisher {
    /// Writes the Secret, over the version that was seen if there was one.
    pub(crate) async fn secret(&self, seen: Option<&str>, data: BTreeMap<String, ByteString>) -> Result<(), Error> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let Some(version) = seen else {
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
            return self.counted::<Secret, _>("create", secrets.create(&PostParams::default(), &secret)).await;
        };
        let change = json!({ "metadata": { "resourceVersion": version }, "data": data });
        self.patched(&secrets, &self.secret, &Patch::Merge(change)).await
    }

    /// Writes the authorities into all webhooks of a configuration.
    pub(crate) async fn inject(&self, into: &Configuration, bundle: &str) -> Result<(), Error> {
        let Configuration { kind, name, version, bundles, asks_cert_manager: _ } = into;
        let bundle = ByteString(bundle.as_bytes().to_vec());
        let webhook = |name: &String| json!({ "name": name, "clientConfig": { "caBundle": bundle } });
        let webhooks: Vec<Value> = bundles.keys().map(webhook).collect();
        let change = Patch::Strategic(json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks }));
        match kind {
            Kind::Mutating => {
                self.patched(&Api::<MutatingWebhookConfiguration>::all(self.client.clone()), name, &change).await
            }
            Kind::Validating => {
                self.patched(&Api::<ValidatingWebhookConfiguration>::all(self.client.clone()), name, &change).await
            }
        }
    }

    async fn patched<K>(&self, api: &Api<K>, name: &str, change: &Patch<Value>) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        self.counted::<K, _>("patch", api.patch(name, &PatchParams::default(), change)).await
    }

    async fn counted<K: Resource<DynamicType = ()>, T>(
        &self,
        verb: &str,
        write: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<(), Error> {
        let result = match timeout(REQUEST_TIMEOUT, write).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::Refused(ApiError::from(&error))),
            Err(_) => Err(Error::Silent),
        };
        let code = match &result {
            Ok(()) => "success".to_owned(),
            Err(Error::Refused(failure)) => failure.code.to_string(),
            Err(Error::Silent) => "0".to_owned(),
        };
        self.metrics.record_write(verb, &K::kind(&()), &code);
        result
    }
}
