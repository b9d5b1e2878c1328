//! The webhook configurations. `cargo xtask generate` writes them into `deploy/`.
//!
//! Configurations and webhooks that the Go operator also has keep its names: `kubectl apply` of these configurations
//! replaces those of the Go operator.

use grove_api_types::admission::{ALWAYS_EXEMPT, validated_keys, validating_admission_policy};
use grove_api_types::labels::{GROVE_OPERATOR, MANAGED_BY, RESOURCE_CLAIMS};
use grove_api_types::resource_sharing::template_access::REVIEWING_WEBHOOK;
use grove_api_types::{SERVICE_USER_PREFIX, SYSTEM_NAMESPACE};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use crate::NAME;
use crate::args::GROVE_ACCOUNTS;
use crate::webhook::Webhook;

/// Key and value of a label on the configurations. This service finds them by name, because the label is not reserved.
const WEBHOOK_LABEL: (&str, &str) = ("app.kubernetes.io/name", NAME);

const DEFAULT_SET: &str = "podcliqueset-defaulting-webhook";
const DEFAULT_TOPOLOGY: &str = "clustertopology-defaulting-webhook";
const VALIDATE_SET: &str = "podcliqueset-validating-webhook";
const VALIDATE_TEMPLATES: &str = REVIEWING_WEBHOOK;
const VALIDATE_TOPOLOGY: &str = "clustertopology-validating-webhook";
const VALIDATE_SCALE: &str = "scale-validating-webhook";
const AUTHORIZE: &str = "authorizer-webhook";

/// The names of the mutating configurations.
pub const MUTATING: [&str; 2] = [DEFAULT_SET, DEFAULT_TOPOLOGY];
/// The names of the validating configurations.
pub const VALIDATING: [&str; 5] = [VALIDATE_SET, VALIDATE_TEMPLATES, VALIDATE_TOPOLOGY, VALIDATE_SCALE, AUTHORIZE];

/// Seconds that the API server waits for a response.
const TIMEOUT_SECONDS: i32 = 10;
/// The port of the core/v1 Service.
const PORT: i32 = 443;

const GROVE: &str = "grove.io";
const CREATE: &str = "CREATE";
const UPDATE: &str = "UPDATE";
const DELETE: &str = "DELETE";

const NOT_TERMINATING: (&str, &str) = ("not-terminating", validating_admission_policy::NOT_TERMINATING);
const SPEC_CHANGED: (&str, &str) = ("spec-changed", "oldObject == null || object.spec != oldObject.spec");
/// A `Scale` with zero replicas has no field `replicas`.
const REPLICAS_CHANGED: (&str, &str) =
    ("replicas-changed", "object.spec.?replicas.orValue(0) != oldObject.spec.?replicas.orValue(0)");

/// The configurations of the defaulting webhooks.
pub fn mutating() -> Vec<MutatingWebhookConfiguration> {
    vec![
        mutating_configuration(DEFAULT_SET, for_sets("pcs.defaulting.webhooks.grove.io", Webhook::DefaultSet)),
        mutating_configuration(
            DEFAULT_TOPOLOGY,
            for_topologies(
                "clustertopology.defaulting.webhooks.grove.io",
                Webhook::DefaultTopology,
                &["clustertopologies"],
            ),
        ),
    ]
}

/// The configurations of the validating webhooks, without the [`authorizer`].
pub fn validating() -> Vec<ValidatingWebhookConfiguration> {
    let topologies = ["clustertopologies", "clustertopologybindings"];
    let scales = ["podcliquesets/scale", "podcliquescalinggroups/scale", "podcliques/scale"];
    vec![
        validating_configuration(VALIDATE_SET, [for_sets("pcs.validating.webhooks.grove.io", Webhook::ValidateSet)]),
        validating_configuration(VALIDATE_TEMPLATES, [templates_of_sets(), templates_of_cliques()]),
        validating_configuration(
            VALIDATE_TOPOLOGY,
            [
                for_topologies("clustertopology.validating.webhooks.grove.io", Webhook::ValidateTopology, &topologies),
                for_deletions_of_topologies(&topologies),
            ],
        ),
        validating_configuration(
            VALIDATE_SCALE,
            [Registration {
                name: "scale.validating.webhooks.grove.io",
                webhook: Webhook::ValidateScale,
                rules: vec![rule(GROVE, "v1alpha1", &scales, &[UPDATE], NAMESPACED)],
                conditions: vec![REPLICAS_CHANGED.into()],
                selector: None,
                is_optional: false,
            }],
        ),
    ]
}

/// The configuration of the webhook that protects managed objects. It is an optional component of the deployment.
pub fn authorizer() -> ValidatingWebhookConfiguration {
    let every = &[CREATE, UPDATE, DELETE][..];
    let change = &[UPDATE, DELETE][..];
    let rules = vec![
        rule(GROVE, "v1alpha1", &["podcliques", "podcliquescalinggroups"], every, NAMESPACED),
        rule("scheduler.grove.io", "v1alpha1", &["podgangs"], every, NAMESPACED),
        rule("", "v1", &["secrets", "serviceaccounts", "services"], change, NAMESPACED),
        // Users may delete pods if RBAC allows it.
        rule("", "v1", &["pods"], &[UPDATE], NAMESPACED),
        rule("rbac.authorization.k8s.io", "v1", &["roles", "rolebindings"], change, NAMESPACED),
        rule("autoscaling", "v2", &["horizontalpodautoscalers"], change, NAMESPACED),
        rule("resource.k8s.io", "v1", &["resourceclaims"], change, NAMESPACED),
        // A finalizer delays its deletion, so a delete request needs no check.
        rule("resource.nvidia.com", "v1beta1", &["computedomains"], &[UPDATE], NAMESPACED),
    ];
    let selector = LabelSelector {
        match_labels: Some([(MANAGED_BY.to_owned(), GROVE_OPERATOR.to_owned())].into()),
        ..LabelSelector::default()
    };
    let non_exempt = Condition { name: "user-is-not-exempt", expression: non_exempt_users() };
    validating_configuration(
        AUTHORIZE,
        [Registration {
            name: "authorizer.webhooks.grove.io",
            webhook: Webhook::Authorize,
            rules,
            conditions: vec![non_exempt],
            selector: Some(selector),
            is_optional: false,
        }],
    )
}

/// A webhook for sets with claim templates that are created or change.
fn templates_of_sets() -> Registration {
    let shares =
        |list: &str| format!("object.spec.template.?{list}.orValue([]).exists(item, has(item.resourceSharing))");
    let (of_groups, of_cliques) = (shares("podCliqueScalingGroups"), shares("cliques"));
    let expression = format!("has(object.spec.template.resourceSharing) || {of_groups} || {of_cliques}");
    Registration {
        name: "pcs.claimtemplates.webhooks.grove.io",
        webhook: Webhook::ValidateTemplates,
        rules: vec![rule(GROVE, "v1alpha1", &["podcliquesets"], &[CREATE, UPDATE], NAMESPACED)],
        conditions: vec![SPEC_CHANGED.into(), Condition { name: "shares-claims", expression }],
        selector: None,
        is_optional: false,
    }
}

/// A webhook for `PodClique`s of other users than Grove's services whose annotation about claims is added or changed.
fn templates_of_cliques() -> Registration {
    let annotation = |object: &str| format!("{object}.metadata.?annotations[?'{RESOURCE_CLAIMS}']");
    let (new, old) = (annotation("object"), annotation("oldObject"));
    let changed = format!("{new}.hasValue() && (oldObject == null || {new} != {old})");
    let not_own = format!("!({})", is_own_user());
    Registration {
        name: "pclq.claimtemplates.webhooks.grove.io",
        webhook: Webhook::ValidateTemplates,
        rules: vec![rule(GROVE, "v1alpha1", &["podcliques"], &[CREATE, UPDATE], NAMESPACED)],
        conditions: vec![
            Condition { name: "user-is-not-grove", expression: not_own },
            Condition { name: "claims-changed", expression: changed },
        ],
        selector: None,
        is_optional: false,
    }
}

/// Whether the user is a service of Grove. `deploy/namespace.yaml` replaces the third part between colons by another namespace.
fn is_own_user() -> String {
    let accounts = cel_list(GROVE_ACCOUNTS.iter().map(|account| (*account).to_owned()));
    format!("request.userInfo.username in [{accounts}].map(account, '{SERVICE_USER_PREFIX}' + account)")
}

/// Matches all users except Grove's services and the Kubernetes controllers that delete objects. These work also while no
/// replica of this service responds.
fn non_exempt_users() -> String {
    let exempt = cel_list(ALWAYS_EXEMPT.map(str::to_owned));
    format!("!({} || request.userInfo.username in [{exempt}])", is_own_user())
}

/// Matches changes of the fields that the rules about sets read: the spec and some labels and annotations.
fn validated_fields_changed() -> Condition {
    let changed = |map: &str| format!("object.metadata.?{map}[?key] != oldObject.metadata.?{map}[?key]");
    let expression = format!(
        "oldObject == null || object.spec != oldObject.spec || [{}].exists(key, {} || {})",
        cel_list(validated_keys().map(str::to_owned)),
        changed("labels"),
        changed("annotations")
    );
    Condition { name: "validated-fields-changed", expression }
}

/// The items of a CEL list of strings.
fn cel_list(texts: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<_> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    quoted.join(", ")
}

const NAMESPACED: &str = "Namespaced";
const CLUSTER: &str = "Cluster";

/// The parts in which one webhook differs from the others.
struct Registration {
    name: &'static str,
    webhook: Webhook,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<Condition>,
    selector: Option<LabelSelector>,
    /// Whether requests pass while no replica of this service responds.
    is_optional: bool,
}

/// A webhook for sets that are created or whose validated fields change.
fn for_sets(name: &'static str, webhook: Webhook) -> Registration {
    let rules = vec![rule(GROVE, "v1alpha1", &["podcliquesets"], &[CREATE, UPDATE], NAMESPACED)];
    Registration {
        name,
        webhook,
        rules,
        conditions: vec![NOT_TERMINATING.into(), validated_fields_changed()],
        selector: None,
        is_optional: false,
    }
}

/// A webhook for topologies of these kinds that are created or whose spec changes.
fn for_topologies(name: &'static str, webhook: Webhook, kinds: &[&str]) -> Registration {
    let rules = vec![rule(GROVE, "v1alpha1", kinds, &[CREATE, UPDATE], CLUSTER)];
    let conditions = vec![NOT_TERMINATING.into(), SPEC_CHANGED.into()];
    Registration { name, webhook, rules, conditions, selector: None, is_optional: false }
}

/// It prevents a mistake, so it does not block deletions while no replica responds.
fn for_deletions_of_topologies(kinds: &[&str]) -> Registration {
    Registration {
        name: "clustertopology.deletion.webhooks.grove.io",
        webhook: Webhook::ValidateTopology,
        rules: vec![rule(GROVE, "v1alpha1", kinds, &[DELETE], CLUSTER)],
        conditions: vec![NOT_TERMINATING.into()],
        selector: None,
        is_optional: true,
    }
}

/// A match condition: the API server calls the webhook only if the CEL expression is true.
struct Condition {
    name: &'static str,
    expression: String,
}

impl From<(&'static str, &'static str)> for Condition {
    fn from((name, expression): (&'static str, &'static str)) -> Self {
        Self { name, expression: expression.to_owned() }
    }
}

impl From<Condition> for MatchCondition {
    fn from(Condition { name, expression }: Condition) -> Self {
        Self { name: name.to_owned(), expression }
    }
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = [WEBHOOK_LABEL, ("app.kubernetes.io/part-of", "grove")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str], scope: &str) -> RuleWithOperations {
    let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
    RuleWithOperations {
        api_groups: texts(&[group]),
        api_versions: texts(&[version]),
        resources: texts(resources),
        operations: texts(operations),
        scope: Some(scope.to_owned()),
    }
}

fn client_config(webhook: Webhook) -> WebhookClientConfig {
    let service = ServiceReference {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        path: Some(webhook.path().to_owned()),
        port: Some(PORT),
    };
    WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
}

fn mutating_configuration(name: &str, registration: Registration) -> MutatingWebhookConfiguration {
    let Registration { name: webhook_name, webhook, rules, conditions, selector, is_optional: _ } = registration;
    let webhook = MutatingWebhook {
        name: webhook_name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(webhook),
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(conditions.into_iter().map(Into::into).collect()),
        match_policy: Some("Equivalent".to_owned()),
        object_selector: selector,
        // Webhooks that run later may add fields that need defaults.
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..MutatingWebhook::default()
    };
    MutatingWebhookConfiguration { metadata: metadata(name), webhooks: Some(vec![webhook]) }
}

fn validating_configuration(
    name: &str,
    registrations: impl IntoIterator<Item = Registration>,
) -> ValidatingWebhookConfiguration {
    let webhooks = registrations.into_iter().map(validating_webhook).collect();
    ValidatingWebhookConfiguration { metadata: metadata(name), webhooks: Some(webhooks) }
}

fn validating_webhook(registration: Registration) -> ValidatingWebhook {
    let Registration { name, webhook, rules, conditions, selector, is_optional } = registration;
    ValidatingWebhook {
        name: name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(webhook),
        failure_policy: Some(if is_optional { "Ignore" } else { "Fail" }.to_owned()),
        match_conditions: Some(conditions.into_iter().map(Into::into).collect()),
        match_policy: Some("Equivalent".to_owned()),
        object_selector: selector,
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_does_not_call_the_authorizer_for_a_service_of_grove() {
        let webhooks = authorizer().webhooks.unwrap();
        let conditions = webhooks[0].match_conditions.as_ref().unwrap();
        let expression = &conditions[0].expression;
        let accounts =
            "['pcs-controller', 'pclq-controller', 'topology-controller', 'mnnvl-controller', 'webhook-server']";
        let own = format!(
            "request.userInfo.username in {accounts}.map(account, 'system:serviceaccount:grove-system:' + account)"
        );
        assert!(expression.starts_with(&format!("!({own} ||")), "{expression}");
        assert_eq!(expression.split(':').nth(2), Some("grove-system"), "deploy/namespace.yaml replaces this part");
    }
}
