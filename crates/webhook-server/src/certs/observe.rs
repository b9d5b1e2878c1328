//! Observes the Secret and the webhook configurations through caches.

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use grove_runtime::caches::{self, Cache};
use grove_runtime::runtime::Runtime;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};

use super::observed::{Observed, WebhookConfigKind, WebhookConfigState};
use super::secret::{CA_BUNDLE, CERTIFICATE, CERTIFICATE_KEY, CertSecret};
use crate::webhook_configurations::WEBHOOK_LABEL;

/// cert-manager sets this annotation on the Secrets that it manages.
const CERT_MANAGER_SECRET: &str = "cert-manager.io/certificate-name";
/// Prefix of the annotations that ask cert-manager to inject a CA bundle.
const CERT_MANAGER_INJECT: &str = "cert-manager.io/inject-";

/// The caches that the rotation reads.
pub(crate) struct CertCaches {
    secrets: Cache<Secret>,
    mutating: Cache<MutatingWebhookConfiguration>,
    validating: Cache<ValidatingWebhookConfiguration>,
    namespace: String,
    secret: String,
}

impl CertCaches {
    /// Starts the informers. The stream has one item per watch event.
    pub(crate) fn start(runtime: &Runtime) -> (Self, BoxStream<'static, ()>) {
        let (namespace, secret) =
            (runtime.namespace().to_owned(), runtime.config().server.webhooks.secret_name.clone());
        let api = Api::<Secret>::namespaced(runtime.watch_client(), &namespace);
        let by_name = watcher::Config::default().fields(&["metadata.name=", secret.as_str()].concat());
        let ready = runtime.readiness().register("the Secret");
        let secrets = caches::start_informer(api, &(), by_name.into(), ready, runtime.metrics());
        let (key, value) = WEBHOOK_LABEL;
        let by_label = || watcher::Config::default().labels(&[key, "=", value].concat());
        let mutating = runtime.start_informer::<MutatingWebhookConfiguration>(by_label().into());
        let validating = runtime.start_informer::<ValidatingWebhookConfiguration>(by_label().into());
        let events = stream::select_all([
            secrets.subscribe().map(drop).boxed(),
            mutating.subscribe().map(drop).boxed(),
            validating.subscribe().map(drop).boxed(),
        ]);
        (Self { secrets, mutating, validating, namespace, secret }, events.boxed())
    }

    /// The current state, without `ca_injected_since`.
    pub(crate) fn observe(&self) -> Observed {
        let secret = self.secrets.get(&self.namespace, &self.secret);
        let mutating = self.mutating.all().into_iter().map(|one| {
            let webhooks = one.webhooks.iter().flatten();
            let webhooks = webhooks.map(|webhook| (&webhook.name, &webhook.client_config));
            configuration(WebhookConfigKind::Mutating, &*one, webhooks)
        });
        let validating = self.validating.all().into_iter().map(|one| {
            let webhooks = one.webhooks.iter().flatten();
            let webhooks = webhooks.map(|webhook| (&webhook.name, &webhook.client_config));
            configuration(WebhookConfigKind::Validating, &*one, webhooks)
        });
        let by_cert_manager = secret.as_ref().filter(|secret| secret.annotations().contains_key(CERT_MANAGER_SECRET));
        let ca_bundle = |secret: &Secret| secret.data.as_ref()?.get(CA_BUNDLE).cloned();
        let cert_manager_bundle = by_cert_manager.map(|secret| ca_bundle(secret).unwrap_or_default().0);
        let own = secret.as_ref().filter(|_| cert_manager_bundle.is_none());
        Observed {
            secret: own.and_then(|secret| CertSecret::parse(secret.data.as_ref()?)),
            cert_manager_bundle: cert_manager_bundle.map(|bundle| String::from_utf8_lossy(&bundle).into_owned()),
            secret_version: secret.map(|secret| secret.resource_version().unwrap_or_default()),
            configurations: mutating.chain(validating).collect(),
            ca_injected_since: None,
        }
    }

    /// The serving certificate and its key, as they are in the Secret.
    pub(crate) fn serving_cert(&self) -> Option<(ByteString, ByteString)> {
        let secret = self.secrets.get(&self.namespace, &self.secret)?;
        let data = secret.data.as_ref()?;
        Some((data.get(CERTIFICATE)?.clone(), data.get(CERTIFICATE_KEY)?.clone()))
    }
}

fn configuration<'a>(
    kind: WebhookConfigKind,
    object: &impl Resource,
    webhooks: impl Iterator<Item = (&'a String, &'a WebhookClientConfig)>,
) -> WebhookConfigState {
    let ca_bundle = |config: &WebhookClientConfig| config.ca_bundle.clone().unwrap_or_default().0;
    WebhookConfigState {
        kind,
        name: object.name_any(),
        resource_version: object.resource_version().unwrap_or_default(),
        ca_bundles: webhooks.map(|(name, config)| (name.clone(), ca_bundle(config))).collect(),
        uses_cert_manager: object.annotations().keys().any(|key| key.starts_with(CERT_MANAGER_INJECT)),
    }
}
