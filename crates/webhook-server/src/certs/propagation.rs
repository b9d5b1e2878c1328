//! Measures how long all webhook configurations have contained the newest CA.

use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;

/// The newest CA that all configurations contain, and since when.
#[derive(Debug, Default)]
pub(crate) struct CaPropagation {
    injected: Option<(String, Timestamp)>,
}

impl CaPropagation {
    /// Sets `ca_injected_since`. The time starts again when a configuration changes or a new CA is issued.
    pub(crate) fn update(&mut self, observed: &mut Observed, now: Timestamp) {
        let secret = observed.secret.as_ref();
        let secret =
            secret.filter(|secret| observed.configurations.iter().all(|one| one.is_equal_to(&secret.ca_bundle)));
        self.injected = secret.map(|secret| match self.injected.take() {
            // `min`: after a clock was ahead and is corrected, the recorded time lies in the future.
            Some((ca, since)) if ca == secret.ca.pem => (ca, since.min(now)),
            Some(_) | None => (secret.ca.pem.clone(), now),
        });
        observed.ca_injected_since = self.injected.as_ref().map(|(_, since)| *since);
    }
}
