//! The live reads of the templates of missing claims.

use grove_api_types::resource_sharing::MAX_REFERENCES;
use grove_api_types::resource_sharing::claim_source::{ExternalTemplate, TemplateReference};
use grove_controller::resource_claims::{TemplateReadErrors, read_template};
use kube::{Client, ResourceExt};

use super::observed::Observed;
use super::observed::claims::TemplateState;

/// Reads the templates that the plan needs, one request each and at most [`MAX_REFERENCES`]: the creates of their claims trigger the
/// next reconcile. The claims of a template that was not read wait.
pub(super) async fn read_templates(client: &Client, observed: &mut Observed) -> TemplateReadErrors {
    let own_namespace = observed.clique.namespace().unwrap_or_default();
    let mut errors = TemplateReadErrors::default();
    for at in observed.templates_to_read().into_iter().take(MAX_REFERENCES) {
        let Some(own) = observed.claims.own.get_mut(at) else { continue };
        let TemplateReference::External(ExternalTemplate { namespace, name }) = own.claim.template() else { continue };
        own.template = match read_template(client, namespace.unwrap_or(&own_namespace), name).await {
            Ok(Some(template)) => TemplateState::Read(template),
            Ok(None) => TemplateState::NotFound,
            Err(error) => TemplateState::Failed(errors.record(name.to_owned(), &error)),
        };
        if errors.is_outage() {
            break;
        }
    }
    errors
}
