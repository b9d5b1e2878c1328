//! The observed state: the Secret, and the CA bundles in the webhook configurations.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::secret::CertSecret;

/// The input of the decision about the next rotation step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The resourceVersion of the Secret; `None` if there is no Secret.
    pub(crate) secret_version: Option<String>,
    /// Whether the Secret has the label of managed objects, so that the authorizer protects it. An older version or
    /// the chart of the Go operator created it.
    pub(crate) is_secret_protected: bool,
    /// The Secret, if it is complete and cert-manager does not manage it.
    pub(crate) secret: Option<CertSecret>,
    /// The CA bundle of the Secret, if cert-manager manages it.
    pub(crate) cert_manager_bundle: Option<String>,
    /// The webhook configurations of this service.
    pub(crate) configurations: Vec<WebhookConfigState>,
    /// Since when all configurations contain the newest CA.
    pub(crate) ca_injected_since: Option<Timestamp>,
}

/// The kind of a webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WebhookConfigKind {
    Mutating,
    Validating,
}

/// The state of one webhook configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WebhookConfigState {
    pub(crate) kind: WebhookConfigKind,
    pub(crate) name: String,
    pub(crate) resource_version: String,
    /// The `caBundle` of each webhook, by the name of the webhook.
    pub(crate) ca_bundles: BTreeMap<String, Vec<u8>>,
    /// Whether an annotation asks cert-manager to inject the CA bundle. cert-manager does so once it manages the
    /// Secret.
    pub(crate) uses_cert_manager: bool,
}

impl Observed {
    /// The CA bundle that the configurations must contain.
    pub(crate) fn ca_bundle(&self) -> Option<&str> {
        self.cert_manager_bundle.as_deref().or(self.secret.as_ref().map(|secret| secret.ca_bundle.as_str()))
    }

    /// The configurations with another CA bundle. If cert-manager manages the Secret, a configuration may contain
    /// further CAs.
    pub(crate) fn missing_ca_bundle(&self) -> impl Iterator<Item = &WebhookConfigState> {
        let is_current = |configuration: &WebhookConfigState, bundle| match self.cert_manager_bundle {
            Some(_) => configuration.contains(bundle),
            None => configuration.is_equal_to(bundle),
        };
        let bundle = self.ca_bundle();
        self.configurations.iter().filter(move |one| bundle.is_some_and(|bundle| !is_current(one, bundle)))
    }
}

impl WebhookConfigState {
    /// Whether each webhook has exactly this CA bundle.
    pub(crate) fn is_equal_to(&self, bundle: &str) -> bool {
        self.ca_bundles.values().all(|current| current == bundle.as_bytes())
    }

    /// Whether the CA bundle of each webhook contains this one.
    fn contains(&self, bundle: &str) -> bool {
        self.ca_bundles.values().all(|current| String::from_utf8_lossy(current).contains(bundle.trim()))
    }
}
