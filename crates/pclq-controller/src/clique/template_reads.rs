//! The live reads of the templates of missing claims.

use grove_api_types::resource_sharing::claim_source::{ExternalTemplate, TemplateReference};
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::resource_claims::{TemplateReadFailure, read_template};
use kube::{Client, ResourceExt};

use super::observed::Observed;
use super::observed::claims::TemplateState;

/// Reads the templates that the plan needs, one request each. Returns the error of a template that could not be read: its claims wait, and
/// the reconcile is retried with backoff.
pub(super) async fn read_templates(client: &Client, observed: &mut Observed) -> Option<ReconcileError> {
    let own_namespace = observed.clique.namespace().unwrap_or_default();
    let mut failure = TemplateReadFailure::default();
    for at in observed.templates_to_read() {
        let Some(own) = observed.claims.own.get_mut(at) else { continue };
        let TemplateReference::External(ExternalTemplate { namespace, name }) = own.claim.template() else { continue };
        own.template = match read_template(client, namespace.unwrap_or(&own_namespace), name).await {
            Ok(Some(template)) => TemplateState::Read(template),
            Ok(None) => TemplateState::NotFound,
            Err(source) => TemplateState::Failed(failure.record(name.to_owned(), source)),
        };
        if failure.is_general() {
            break;
        }
    }
    failure.into_error()
}
