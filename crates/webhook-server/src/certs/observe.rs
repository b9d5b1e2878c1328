//! Observes the Secret and the webhook configurations through caches.

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY};
use grove_runtime::caches::{self, Cache, InformerOptions};
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
use crate::webhook_configurations::{MUTATING, VALIDATING};

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
        let mutating = runtime.start_informer(mutating_options());
        let validating = runtime.start_informer(validating_options());
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
            is_secret_protected: secret.as_ref().is_some_and(|secret| is_protected(secret)),
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

/// Selects the configurations of this service by name. Any client may give its own configurations the same labels.
fn mutating_options() -> InformerOptions<MutatingWebhookConfiguration> {
    InformerOptions::default().with_filter(|one| MUTATING.contains(&one.name_any().as_str()))
}

/// Like [`mutating_options`].
fn validating_options() -> InformerOptions<ValidatingWebhookConfiguration> {
    InformerOptions::default().with_filter(|one| VALIDATING.contains(&one.name_any().as_str()))
}

/// Whether the authorizer protects the Secret.
fn is_protected(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).is_some_and(|manager| manager == GROVE_OPERATOR)
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

#[cfg(test)]
mod tests {
    use grove_runtime::caches::Writer;
    use grove_test_support::check_watched_kind;
    use kube::core::ObjectMeta;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// Writes configurations of these names, all with the label of this service. Returns the names in the cache.
    fn cached<K>((cache, writer): (Cache<K>, Writer<K>), names: &[&str]) -> Vec<String>
    where
        K: Resource + DeserializeOwned,
    {
        let labels = json!({ "app.kubernetes.io/name": crate::NAME });
        let object = |name: &&str| json!({ "metadata": { "name": name, "labels": labels } });
        for name in names {
            writer.apply(serde_json::from_value(object(name)).unwrap());
        }
        cache.all().iter().map(|one| one.meta().name.clone().unwrap()).collect()
    }

    #[test]
    fn a_foreign_configuration_with_the_label_of_this_service_is_not_observed() {
        let mutating = ["aaa", "podcliqueset-defaulting-webhook", "scale-validating-webhook"];
        assert_eq!(cached(Cache::with_writer(mutating_options()), &mutating), ["podcliqueset-defaulting-webhook"]);
        let validating = ["aaa", "authorizer-webhook", "podcliqueset-defaulting-webhook", "scale-validating-webhook"];
        assert_eq!(
            cached(Cache::with_writer(validating_options()), &validating),
            ["authorizer-webhook", "scale-validating-webhook"]
        );
    }

    #[test]
    fn an_edited_secret_affects_no_other_secret() {
        let data = json!({ "tls.crt": "Y2VydGlmaWNhdGU=", "tls.key": "a2V5", "ca.crt": "" });
        check_watched_kind!(Secret, json!({ "type": "kubernetes.io/tls", "immutable": false, "data": data }));
    }

    #[test]
    fn an_edited_webhook_configuration_affects_no_other_webhook_configuration() {
        let service = json!({ "name": "s", "namespace": "ns", "path": "/webhooks", "port": 443 });
        let rule = json!({ "apiGroups": ["grove.io"], "apiVersions": ["v1alpha1"], "operations": ["CREATE"],
            "resources": ["podcliquesets"], "scope": "Namespaced" });
        let expression = json!({ "key": "k", "operator": "In", "values": ["v"] });
        let mut webhook = json!({
            "name": "a.grove.io", "clientConfig": { "service": service, "caBundle": "Y2VydGlmaWNhdGU=" }, "rules": [rule],
            "objectSelector": { "matchLabels": { "k": "v" }, "matchExpressions": [expression] }, "namespaceSelector": {},
            "matchConditions": [{ "name": "c", "expression": "true" }], "matchPolicy": "Exact", "failurePolicy": "Fail",
            "sideEffects": "None", "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
        });
        check_watched_kind!(ValidatingWebhookConfiguration, json!({ "webhooks": [webhook] }));
        webhook["reinvocationPolicy"] = json!("Never");
        check_watched_kind!(MutatingWebhookConfiguration, json!({ "webhooks": [webhook] }));
    }

    #[test]
    fn only_the_label_of_managed_objects_protects_the_secret() {
        for (manager, expected) in [(Some("grove-operator"), true), (Some("Helm"), false), (None, false)] {
            let labels = manager.map(|manager| [(MANAGED_BY.to_owned(), manager.to_owned())].into());
            let secret = Secret { metadata: ObjectMeta { labels, ..ObjectMeta::default() }, ..Secret::default() };
            assert_eq!(is_protected(&secret), expected, "{manager:?}");
        }
    }
}
