//! The live reads of the templates of missing claims. The cache of templates contains only their identities: a spec is needed once, and
//! a claim gets the content that the template has when the claim is created.

use grove_api_types::raw::RawResourceClaimTemplateSpec;
use grove_api_types::resource_claim::ClaimTemplate;
use grove_api_types::resource_sharing::claim_source::{ExternalTemplate, TemplateReference};
use grove_controller::reconcile_error::ReconcileError;
use grove_runtime::api_error::ApiError;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use k8s_openapi::api::resource::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize;

use super::observed::Observed;
use super::observed::claims::TemplateState;

/// A template without its metadata, into which any client may write values that cannot be decoded.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = v1::ResourceClaimTemplate)]
struct TemplateContent {
    #[serde(skip)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<RawResourceClaimTemplateSpec>,
}

/// Reads the templates that the plan needs, one request each. Returns the error of a template that could not be read: its claims wait, and
/// the reconcile is retried with backoff.
pub(super) async fn read_templates(client: &Client, observed: &mut Observed) -> Option<ReconcileError> {
    let own_namespace = observed.clique.namespace().unwrap_or_default();
    let mut failure = None;
    for at in observed.templates_to_read() {
        let Some(own) = observed.claims.own.get_mut(at) else { continue };
        let TemplateReference::External(ExternalTemplate { namespace, name }) = own.claim.template() else { continue };
        let api: Api<TemplateContent> = Api::namespaced(client.clone(), namespace.unwrap_or(&own_namespace));
        own.template = match with_timeout(REQUEST_TIMEOUT, api.get_opt(name)).await {
            Ok(Some(TemplateContent { metadata: _, spec })) => {
                TemplateState::Read(spec.as_ref().map(ClaimTemplate::from).unwrap_or_default())
            }
            Ok(None) => TemplateState::NotFound,
            Err(source) => {
                let (reason, name) = (ApiError::from(&source).to_string(), name.to_owned());
                failure = failure.or(Some(ReconcileError::Read { name, source }));
                TemplateState::Failed(reason)
            }
        };
    }
    failure
}
