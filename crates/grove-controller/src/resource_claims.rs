//! What the controllers with `ResourceClaim`s have in common: the metric, the message while the API is not available, and templates.

use grove_api_types::{
    conditions::resource_claims_created,
    error_codes,
    resource_claim::{
        API_VERSION, ClaimTemplate, ResourceClaim, ResourceClaimTemplate, SharingLevel, SlimResourceClaimTemplate,
    },
};
use grove_runtime::{
    api_error::ApiError,
    caches::{Availability, Cache, Delta, IndexScope, Sum},
    client::{REQUEST_TIMEOUT, with_timeout},
};
use kube::{Api, Client, Resource};

use crate::{
    manager::Manager,
    plan::{Plan, Waiting},
    reconcile_error::ReconcileError,
    requeue::Requeue,
    scraped_gauge::{GaugeValue, register_scraped_gauge},
};

/// The number of shared claims, by level. The informer of claims needs it for [`register_metric`].
pub const CLAIMS_BY_LEVEL: Sum<ResourceClaim> =
    Sum { name: "level", value: level_of_claim, amount: |_| 1, scope: IndexScope::Cluster };

fn level_of_claim(claim: &ResourceClaim) -> Option<String> {
    claim.level().map(|level| level.as_str().to_owned())
}

/// Registers the metric `grove_resource_claims` with the levels that the service manages.
///
/// # Errors
/// If a metric of this name is already registered.
pub fn register_metric(
    manager: &Manager,
    claims: &Cache<ResourceClaim>,
    levels: &[SharingLevel],
) -> anyhow::Result<()> {
    let count = |level: &SharingLevel| {
        let (claims, level) = (claims.clone(), level.as_str());
        let count: GaugeValue = Box::new(move || claims.sum(&CLAIMS_BY_LEVEL, level));
        (level, count)
    };
    let metric = ("grove_resource_claims", "Number of ResourceClaims that pods share, per level.");
    Ok(register_scraped_gauge(manager.metrics().registry(), metric, "level", levels.iter().map(count).collect())?)
}

/// Why `service` cannot read the objects of the kind, which are claims or templates; `None` if it can.
pub fn unavailable<K: Resource<DynamicType = ()>>(availability: Availability, service: &str) -> Option<Waiting> {
    match availability {
        Availability::Served => None,
        Availability::NotServed => Some(Waiting::new(
            resource_claims_created::RESOURCE_CLAIMS_NOT_SERVED,
            format!(
                "the API server does not serve {API_VERSION}; run Kubernetes 1.34 or later, and enable dynamic resource allocation"
            ),
        )),
        Availability::Forbidden => Some(Waiting::new(
            resource_claims_created::RESOURCE_CLAIMS_FORBIDDEN,
            format!("{service} must not read {}s; apply its rules in deploy/base", K::kind(&())),
        )),
    }
}

/// The template, if the delta creates it: objects may wait for it. Later changes and the deletion of a template change no claim.
pub fn created_template(delta: &Delta<SlimResourceClaimTemplate>) -> Option<&SlimResourceClaimTemplate> {
    let new = delta.new.as_deref()?;
    delta.old.as_ref().is_none_or(|old| old.metadata.uid != new.metadata.uid).then_some(new)
}

/// The code and the description of each template that does not exist, for `lastErrors` of the owner of the claims.
pub fn template_errors<Owner: Resource<DynamicType = ()>>(plan: &Plan) -> impl Iterator<Item = (String, String)> {
    let code = error_codes::for_write(&Owner::kind(&()), &ResourceClaim::kind(&()), "create");
    let is_missing = |waiting: &&Waiting| waiting.reason == resource_claims_created::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND;
    plan.waiting.iter().filter(is_missing).map(move |waiting| (code.to_owned(), waiting.message.clone()))
}

/// Reads a template; `None` if it does not exist. The cache of templates contains only their identities: a spec is needed once, and a
/// claim gets the content that the template has when the claim is created.
///
/// # Errors
/// The error of the request.
pub async fn read_template(client: &Client, namespace: &str, name: &str) -> Result<Option<ClaimTemplate>, kube::Error> {
    let api: Api<ResourceClaimTemplate> = Api::namespaced(client.clone(), namespace);
    let template = with_timeout(REQUEST_TIMEOUT, api.get_opt(name)).await?;
    Ok(template.as_ref().map(ClaimTemplate::from))
}

/// The errors of the live reads of the templates of one object.
#[derive(Clone, Debug, Default)]
pub struct TemplateReadErrors {
    /// The first one, and the name of its template.
    first: Option<(String, ApiError)>,
    is_outage: bool,
}

impl TemplateReadErrors {
    /// Records that the template of this name could not be read. Returns the reason, for the claims that need the template.
    pub fn record(&mut self, name: String, error: &kube::Error) -> String {
        // An object that cannot be decoded concerns only its own claims.
        let is_decoded = !matches!(error, kube::Error::SerdeError(_));
        let error = ApiError::from(error);
        let reason = error.to_string();
        self.is_outage |= is_decoded && error.is_outage();
        self.first.get_or_insert((name, error));
        reason
    }

    /// Whether the API server responds to no request at this time. Then no further template is read: each read may take until its timeout.
    pub fn is_outage(&self) -> bool {
        self.is_outage
    }

    /// The first error, with which a reconcile fails after it has executed its plan: it is retried with backoff, and not later than `requeue`.
    pub fn into_error(self, requeue: Requeue) -> Option<ReconcileError> {
        self.first.map(|(name, source)| ReconcileError::Read { name, source, requeue })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Status;

    use super::*;

    fn rejected(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, ..Status::default() }))
    }

    #[test]
    fn only_an_outage_concerns_further_templates() {
        let undecodable = serde_json::from_str::<i32>("x").expect_err("no number");
        for (error, expected) in [
            (rejected(403), false),
            (rejected(500), false),
            (rejected(503), true),
            (rejected(429), true),
            (kube::Error::SerdeError(undecodable), false),
            (kube::Error::LinesCodecMaxLineLengthExceeded, true),
        ] {
            let mut errors = TemplateReadErrors::default();
            errors.record("t".to_owned(), &error);
            assert_eq!(errors.is_outage(), expected, "{error}");
        }
    }

    #[test]
    fn the_first_error_retries_the_reconcile_and_drops_no_deadline() {
        let deadline = Requeue::After(Duration::from_secs(10));
        assert!(TemplateReadErrors::default().into_error(deadline).is_none());
        let mut errors = TemplateReadErrors::default();
        assert_eq!(errors.record("first".to_owned(), &rejected(403)), "403 : ");
        errors.record("second".to_owned(), &rejected(403));
        let error = errors.into_error(deadline).expect("an error");
        assert_eq!((error.to_string().as_str(), error.requeue()), ("could not read first", deadline));
    }
}
