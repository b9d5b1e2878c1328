//! Follows the Secret and the configurations: the caches, and what is seen in them.

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

use super::observed::{ASKS_CERT_MANAGER, AUTHORITIES, Configuration, Kept, Kind, OF_CERT_MANAGER, Observed};
use crate::registration::OURS;

/// What is followed.
pub(crate) struct Seen {
    secrets: Cache<Secret>,
    mutating: Cache<MutatingWebhookConfiguration>,
    validating: Cache<ValidatingWebhookConfiguration>,
    namespace: String,
    secret: String,
}

/// Starts the watches; the stream has an item for each change.
pub(crate) fn follow(service: &Runtime) -> (Seen, BoxStream<'static, ()>) {
    let (namespace, secret) = (service.namespace().to_owned(), service.config().server.webhooks.secret_name.clone());
    let api = Api::<Secret>::namespaced(service.watch_client(), &namespace);
    let named = watcher::Config::default().fields(&["metadata.name=", secret.as_str()].concat());
    let ready = service.ready().register("the Secret");
    let (secrets, of_secrets) = caches::start_informer(api, named, ready, (None, None), service.metrics());
    let (key, value) = OURS;
    let ours = || watcher::Config::default().labels(&[key, "=", value].concat());
    let (mutating, of_mutating) = service.watch(ours(), None);
    let (validating, of_validating) = service.watch(ours(), None);
    let changes = stream::select_all([
        of_secrets.map(drop).boxed(),
        of_mutating.map(drop).boxed(),
        of_validating.map(drop).boxed(),
    ]);
    (Seen { secrets, mutating, validating, namespace, secret }, changes.boxed())
}

impl Seen {
    pub(crate) fn observed(&self) -> Observed {
        let secret = self.secrets.get(&self.namespace, &self.secret);
        let mutating = self.mutating.all().into_iter().map(|one| {
            let webhooks = one.webhooks.iter().flatten();
            configuration(Kind::Mutating, &*one, webhooks.map(|webhook| (&webhook.name, &webhook.client_config)))
        });
        let validating = self.validating.all().into_iter().map(|one| {
            let webhooks = one.webhooks.iter().flatten();
            configuration(Kind::Validating, &*one, webhooks.map(|webhook| (&webhook.name, &webhook.client_config)))
        });
        let theirs = secret.as_ref().filter(|secret| secret.annotations().contains_key(OF_CERT_MANAGER));
        let authorities = |secret: &Secret| secret.data.as_ref()?.get(AUTHORITIES).cloned();
        let theirs = theirs.map(|secret| authorities(secret).unwrap_or_default().0);
        let ours = secret.as_ref().filter(|_| theirs.is_none());
        Observed {
            kept: ours.and_then(|secret| Kept::read(secret.data.as_ref()?)),
            theirs: theirs.map(|bundle| String::from_utf8_lossy(&bundle).into_owned()),
            secret: secret.map(|secret| secret.resource_version().unwrap_or_default()),
            configurations: mutating.chain(validating).collect(),
            trusted_since: None,
        }
    }

    /// The certificate and the key that the Secret holds.
    pub(crate) fn pair(&self) -> Option<(ByteString, ByteString)> {
        let secret = self.secrets.get(&self.namespace, &self.secret)?;
        let data = secret.data.as_ref()?;
        Some((data.get(super::observed::CERTIFICATE)?.clone(), data.get(super::observed::CERTIFICATE_KEY)?.clone()))
    }
}

fn configuration<'a>(
    kind: Kind,
    object: &impl Resource,
    webhooks: impl Iterator<Item = (&'a String, &'a WebhookClientConfig)>,
) -> Configuration {
    let bundle = |config: &WebhookClientConfig| config.ca_bundle.clone().unwrap_or_default().0;
    Configuration {
        kind,
        name: object.name_any(),
        version: object.resource_version().unwrap_or_default(),
        bundles: webhooks.map(|(name, config)| (name.clone(), bundle(config))).collect(),
        asks_cert_manager: object.annotations().keys().any(|key| key.starts_with(ASKS_CERT_MANAGER)),
    }
}
