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
    caches::{Availability, Cache, Delta, Sum},
    client::{REQUEST_TIMEOUT, with_timeout},
};
use kube::{Api, Client, Resource};

use crate::{
    manager::Manager,
    plan::{Plan, Waiting},
    reconcile_error::ReconcileError,
    scraped_gauge::{GaugeValue, register_scraped_gauge},
};

/// The number of shared claims, by level. The informer of claims needs it for [`register_metric`].
pub const CLAIMS_BY_LEVEL: Sum<ResourceClaim> = Sum { name: "level", value: level_of_claim, amount: |_| 1 };

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

/// Why `service` cannot read the objects of the kind, which are claims or templates; `None` if it can. Then it creates no claims that
/// need them.
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

/// The outcome of the live reads of the templates of one object.
#[derive(Debug, Default)]
pub struct TemplateReadFailure {
    error: Option<ReconcileError>,
    is_general: bool,
}

impl TemplateReadFailure {
    /// Records that the template could not be read. Returns the reason for its claims.
    pub fn record(&mut self, name: String, source: kube::Error) -> String {
        let error = ApiError::from(&source);
        self.is_general |= !error.is_object_specific();
        self.error.get_or_insert(ReconcileError::Read { name, source });
        error.to_string()
    }

    /// Whether the API server would not return other templates, either. Waiting for each of them would occupy a worker for a long time.
    pub fn is_general(&self) -> bool {
        self.is_general
    }

    /// The first error, with which the reconcile is retried.
    pub fn into_error(self) -> Option<ReconcileError> {
        self.error
    }
}
