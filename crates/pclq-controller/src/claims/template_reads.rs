//! The live reads of the templates of missing claims.

use grove_api_types::resource_sharing::MAX_REFERENCES;
use grove_api_types::resource_sharing::claim_source::{ExternalTemplate, TemplateReference};
use grove_controller::resource_claims::read_template;
use kube::{Client, ResourceExt};

use super::observed::{ObservedClaims, TemplateState};
use crate::observed::ObservedClique;

/// Reads the templates that the plan needs, one request each and at most [`MAX_REFERENCES`]: the creates of their claims trigger the
/// next reconcile. The claims of a template that was not read wait.
pub(crate) async fn read_templates(client: &Client, clique: &ObservedClique, claims: &mut ObservedClaims) {
    let own_namespace = clique.clique.namespace().unwrap_or_default();
    for at in claims.templates_to_read(clique).into_iter().take(MAX_REFERENCES) {
        let Some(own) = claims.own.get_mut(at) else { continue };
        let TemplateReference::External(ExternalTemplate { namespace, name }) = own.claim.template() else { continue };
        own.template = match read_template(client, namespace.unwrap_or(&own_namespace), name).await {
            Ok(Some(template)) => TemplateState::Read(template),
            Ok(None) => TemplateState::NotFound,
            Err(error) => TemplateState::Failed(claims.read_errors.record(name.to_owned(), &error)),
        };
        if claims.read_errors.is_outage() {
            break;
        }
    }
}
