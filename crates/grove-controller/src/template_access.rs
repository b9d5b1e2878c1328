//! Whether claims may be created from `ResourceClaimTemplate`s of other namespaces. The controllers read templates with their own accounts, so
//! a user without the permission to read a template must not refer to it. webhook-server checks that, and its webhook configuration shows that it does.

use futures::{Stream, StreamExt, stream};
use grove_api_types::{
    conditions::resource_claims_created,
    configuration::CrossNamespaceTemplates,
    resource_claim::identity,
    resource_sharing::{claim_source::ExternalTemplate, template_access::REVIEWING_WEBHOOK},
};
use grove_runtime::{
    caches::{Cache, Delta, InformerOptions},
    rbac::{PolicyRule, Verb},
    runtime::Runtime,
};
use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource,
    runtime::{reflector::ObjectRef, watcher},
};
use serde::Deserialize;

use crate::plan::Waiting;

/// A webhook configuration in a cache: only its identity.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = ValidatingWebhookConfiguration)]
pub struct SlimWebhookConfiguration {
    /// The metadata.
    #[serde(default, deserialize_with = "identity")]
    pub metadata: ObjectMeta,
}

/// The decision for all templates of other namespaces. A clone shares the cache.
#[derive(Clone, Debug)]
pub struct TemplateAccess {
    /// The webhook configuration; `None` if the configuration allows all templates.
    webhook: Option<Cache<SlimWebhookConfiguration>>,
}

impl TemplateAccess {
    /// Starts the informer of the webhook configuration, if the configuration of the service requires reviews. Without the permission to
    /// read it, no template of another namespace is used.
    pub fn start(runtime: &Runtime) -> Self {
        let by_name = watcher::Config::default().fields(&format!("metadata.name={REVIEWING_WEBHOOK}"));
        let is_reviewed =
            runtime.config().resource_sharing.cross_namespace_templates == CrossNamespaceTemplates::Reviewed;
        Self::new(is_reviewed.then(|| runtime.start_informer(InformerOptions::from(by_name).optional())))
    }

    /// The decision by a cache of webhook configurations; without a cache, all templates may be used.
    pub fn new(webhook: Option<Cache<SlimWebhookConfiguration>>) -> Self {
        Self { webhook }
    }

    /// The permission of the informer.
    pub fn rule() -> PolicyRule {
        let reason = "use claim templates of other namespaces only while a webhook checks the users that refer to them";
        PolicyRule::for_resource::<ValidatingWebhookConfiguration>(&[Verb::List, Verb::Watch], reason)
            .resource_names(&[REVIEWING_WEBHOOK])
    }

    /// Why no claim is created from templates of other namespaces; `None` if they may be used.
    pub fn denied(&self) -> Option<Waiting> {
        let webhook = self.webhook.as_ref().filter(|webhook| !webhook.contains("", REVIEWING_WEBHOOK))?;
        let missing = if webhook.is_forbidden() { "must not be read" } else { "does not exist" };
        Some(Waiting::new(
            resource_claims_created::RESOURCE_CLAIMS_FORBIDDEN,
            format!(
                "no claim is created from a ResourceClaimTemplate of another namespace, because no webhook checks the users that refer to it: \
                 ValidatingWebhookConfiguration {REVIEWING_WEBHOOK} {missing}; install webhook-server, or set \
                 resourceSharing.crossNamespaceTemplates to Allowed"
            ),
        ))
    }

    /// All cached owners, whenever the decision changes.
    pub fn owners_after_change<K>(
        &self,
        owners: &Cache<K>,
    ) -> impl Stream<Item = ObjectRef<K>> + Send + 'static + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let owners = owners.clone();
        let deltas = self.webhook.as_ref().map(Cache::subscribe);
        let changes = stream::iter(deltas).flatten();
        let changes = changes.filter(|delta| std::future::ready(is_creation_or_deletion(delta)));
        changes.flat_map(move |_| stream::iter(owners.all()).map(|owner| ObjectRef::from_obj(&*owner)))
    }
}

/// Why this template cannot be used by an object of the namespace; `denied` is the decision for templates of other namespaces.
pub fn denied_template<'w>(
    denied: Option<&'w Waiting>,
    namespace: &str,
    template: ExternalTemplate<'_>,
) -> Option<&'w Waiting> {
    template.other_namespace(namespace).and(denied)
}

fn is_creation_or_deletion(delta: &Delta<SlimWebhookConfiguration>) -> bool {
    delta.old.is_none() || delta.new.is_none()
}

#[cfg(test)]
mod tests {
    use grove_test_support::check_watched_kind;
    use serde_json::json;

    use super::*;

    fn configuration(name: &str) -> SlimWebhookConfiguration {
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": "u" }, "webhooks": [] })).unwrap()
    }

    fn access(names: &[&str]) -> TemplateAccess {
        TemplateAccess::new(Some(Cache::from_objects(names.iter().map(|name| configuration(name)))))
    }

    #[test]
    fn templates_of_other_namespaces_need_the_webhook_or_the_configuration() {
        assert_eq!(access(&[REVIEWING_WEBHOOK]).denied(), None);
        assert_eq!(TemplateAccess::new(None).denied(), None);
        let denied = access(&["podcliqueset-validating-webhook"]).denied().unwrap();
        assert_eq!(denied.reason, "ResourceClaimsForbidden");
        assert!(denied.message.contains("claim-templates-validating-webhook does not exist"), "{}", denied.message);
    }

    #[test]
    fn the_decision_concerns_only_templates_of_other_namespaces() {
        let denied = access(&[]).denied();
        let is_denied = |namespace| {
            denied_template(denied.as_ref(), "team-a", ExternalTemplate { namespace, name: "gpus" }).is_some()
        };
        assert_eq!([None, Some("team-a"), Some("team-b")].map(is_denied), [false, false, true]);
    }

    #[tokio::test]
    async fn the_deletion_of_the_webhook_triggers_all_owners_and_an_update_triggers_none() {
        let (webhook, writer) = Cache::with_writer(InformerOptions::default());
        let owners = Cache::from_objects([configuration("an-owner")]);
        let triggers = TemplateAccess::new(Some(webhook)).owners_after_change(&owners);
        writer.replace(vec![configuration(REVIEWING_WEBHOOK)]);
        let mut updated = configuration(REVIEWING_WEBHOOK);
        updated.meta_mut().resource_version = Some("2".to_owned());
        writer.replace(vec![updated]);
        writer.replace(vec![]);
        drop(writer);
        let names: Vec<_> = triggers.take(2).map(|owner| owner.name).collect().await;
        assert_eq!(names, ["an-owner", "an-owner"]);
    }

    #[test]
    fn an_edited_webhook_configuration_affects_no_other_one() {
        check_watched_kind!(SlimWebhookConfiguration, json!({ "webhooks": [] }));
    }
}
