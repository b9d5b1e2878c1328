//! What the API server is told to ask, and about what: the webhook configurations, as they are written into `deploy/`.
//!
//! Names of configurations and webhooks that the Go operator has, too, are its own, so that applying ours replaces those.

use grove_api_types::admission::{ALWAYS_EXEMPT, RULED};
use grove_api_types::labels::{MANAGED_BY, MANAGER};
use grove_runtime::rbac::SYSTEM_NAMESPACE;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;

use crate::NAME;
use crate::args::GROVE_ACCOUNTS;
use crate::question::Question;

/// The label by which this service finds the configurations.
pub const OURS: (&str, &str) = ("app.kubernetes.io/name", NAME);

const DEFAULT_SET: &str = "podcliqueset-defaulting-webhook";
const DEFAULT_TOPOLOGY: &str = "clustertopology-defaulting-webhook";
const VALIDATE_SET: &str = "podcliqueset-validating-webhook";
const VALIDATE_TOPOLOGY: &str = "clustertopology-validating-webhook";
const VALIDATE_SCALE: &str = "scale-validating-webhook";
const AUTHORIZE: &str = "authorizer-webhook";

/// The names of the mutating configurations.
pub const MUTATING: [&str; 2] = [DEFAULT_SET, DEFAULT_TOPOLOGY];
/// The names of the validating configurations.
pub const VALIDATING: [&str; 4] = [VALIDATE_SET, VALIDATE_TOPOLOGY, VALIDATE_SCALE, AUTHORIZE];

/// After so many seconds the API server gives up.
const TIMEOUT: i32 = 10;
/// The port of the `Service`.
const PORT: i32 = 443;

const GROVE: &str = "grove.io";
const CREATE: &str = "CREATE";
const UPDATE: &str = "UPDATE";
const DELETE: &str = "DELETE";

/// What is being deleted is judged no more, and finalizers may always go.
const STAYS: (&str, &str) = ("stays", "!has(object.metadata.deletionTimestamp)");
const CHANGES_SPEC: (&str, &str) = ("changes-the-spec", "oldObject == null || object.spec != oldObject.spec");
/// Where a scale has no replicas it has none.
const SCALES: (&str, &str) = ("scales", "object.spec.?replicas.orValue(0) != oldObject.spec.?replicas.orValue(0)");

/// The configurations that fill in.
pub fn mutating() -> Vec<MutatingWebhookConfiguration> {
    vec![
        mutating_configuration(DEFAULT_SET, of_sets("pcs.defaulting.webhooks.grove.io", Question::DefaultSet)),
        mutating_configuration(
            DEFAULT_TOPOLOGY,
            of_topologies(
                "clustertopology.defaulting.webhooks.grove.io",
                Question::DefaultTopology,
                &["clustertopologies"],
            ),
        ),
    ]
}

/// The configurations that accept or refuse, but for the one that protects what Grove manages.
pub fn validating() -> Vec<ValidatingWebhookConfiguration> {
    let topologies = ["clustertopologies", "clustertopologybindings"];
    let scales = ["podcliquesets/scale", "podcliquescalinggroups/scale", "podcliques/scale"];
    vec![
        validating_configuration(VALIDATE_SET, of_sets("pcs.validating.webhooks.grove.io", Question::ValidateSet)),
        validating_configuration(
            VALIDATE_TOPOLOGY,
            of_topologies("clustertopology.validating.webhooks.grove.io", Question::ValidateTopology, &topologies),
        ),
        validating_configuration(
            VALIDATE_SCALE,
            Webhook {
                name: "scale.validating.webhooks.grove.io",
                question: Question::ValidateScale,
                rules: vec![rule(GROVE, "v1alpha1", &scales, &[UPDATE], NAMESPACED)],
                conditions: vec![SCALES.into()],
                selector: None,
            },
        ),
    ]
}

/// The configuration that protects what Grove manages; applied only where that is wanted.
pub fn authorizer() -> ValidatingWebhookConfiguration {
    let every = &[CREATE, UPDATE, DELETE][..];
    let change = &[UPDATE, DELETE][..];
    let rules = vec![
        rule(GROVE, "v1alpha1", &["podcliques", "podcliquescalinggroups"], every, NAMESPACED),
        rule("scheduler.grove.io", "v1alpha1", &["podgangs"], every, NAMESPACED),
        rule("", "v1", &["secrets", "serviceaccounts", "services"], change, NAMESPACED),
        // To delete a pod is everybody's right who may.
        rule("", "v1", &["pods"], &[UPDATE], NAMESPACED),
        rule("rbac.authorization.k8s.io", "v1", &["roles", "rolebindings"], change, NAMESPACED),
        rule("autoscaling", "v2", &["horizontalpodautoscalers"], change, NAMESPACED),
        rule("resource.k8s.io", "v1", &["resourceclaims"], change, NAMESPACED),
        // Its finalizer holds it, so its deletion may be asked for.
        rule("resource.nvidia.com", "v1beta1", &["computedomains"], &[UPDATE], NAMESPACED),
    ];
    let selector = LabelSelector {
        match_labels: Some([(MANAGED_BY.to_owned(), MANAGER.to_owned())].into()),
        ..LabelSelector::default()
    };
    let strangers = Condition { name: "is-no-account-that-always-may", expression: strangers() };
    validating_configuration(
        AUTHORIZE,
        Webhook {
            name: "authorizer.webhooks.grove.io",
            question: Question::Authorize,
            rules,
            conditions: vec![strangers],
            selector: Some(selector),
        },
    )
}

/// Our own services and the controllers that clear away need not ask, also while nobody answers.
fn strangers() -> String {
    let ours = GROVE_ACCOUNTS.iter().map(|account| format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"));
    let all = ours.chain(ALWAYS_EXEMPT.map(str::to_owned));
    format!("!(request.userInfo.username in [{}])", quoted(all))
}

/// Nothing that a rule about sets reads is anywhere else.
fn changes_what_rules_read() -> Condition {
    let changes = |map: &str| format!("object.metadata.?{map}[?key] != oldObject.metadata.?{map}[?key]");
    let expression = format!(
        "oldObject == null || object.spec != oldObject.spec || [{}].exists(key, {} || {})",
        quoted(RULED.map(str::to_owned)),
        changes("labels"),
        changes("annotations")
    );
    Condition { name: "changes-what-rules-read", expression }
}

fn quoted(texts: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<_> = texts.into_iter().map(|text| format!("'{text}'")).collect();
    quoted.join(", ")
}

const NAMESPACED: &str = "Namespaced";
const CLUSTER: &str = "Cluster";

/// One webhook, mutating or validating.
struct Webhook {
    name: &'static str,
    question: Question,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<Condition>,
    selector: Option<LabelSelector>,
}

/// Asked when a set is created, or changed where a rule reads.
fn of_sets(name: &'static str, question: Question) -> Webhook {
    let rules = vec![rule(GROVE, "v1alpha1", &["podcliquesets"], &[CREATE, UPDATE], NAMESPACED)];
    Webhook { name, question, rules, conditions: vec![STAYS.into(), changes_what_rules_read()], selector: None }
}

/// Asked when a topology of these kinds is created, or its spec changed.
fn of_topologies(name: &'static str, question: Question, kinds: &[&str]) -> Webhook {
    let rules = vec![rule(GROVE, "v1alpha1", kinds, &[CREATE, UPDATE], CLUSTER)];
    Webhook { name, question, rules, conditions: vec![STAYS.into(), CHANGES_SPEC.into()], selector: None }
}

/// A condition in CEL without which the API server does not ask.
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
    let labels = [OURS, ("app.kubernetes.io/part-of", "grove")];
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

fn client(question: Question) -> WebhookClientConfig {
    let service = ServiceReference {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        path: Some(question.path().to_owned()),
        port: Some(PORT),
    };
    WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
}

fn mutating_configuration(name: &str, webhook: Webhook) -> MutatingWebhookConfiguration {
    let Webhook { name: webhook_name, question, rules, conditions, selector } = webhook;
    let webhook = MutatingWebhook {
        name: webhook_name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client(question),
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(conditions.into_iter().map(Into::into).collect()),
        match_policy: Some("Equivalent".to_owned()),
        object_selector: selector,
        // What others change after us gets its defaults, too.
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT),
        ..MutatingWebhook::default()
    };
    MutatingWebhookConfiguration { metadata: metadata(name), webhooks: Some(vec![webhook]) }
}

fn validating_configuration(name: &str, webhook: Webhook) -> ValidatingWebhookConfiguration {
    let Webhook { name: webhook_name, question, rules, conditions, selector } = webhook;
    let webhook = ValidatingWebhook {
        name: webhook_name.to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client(question),
        failure_policy: Some("Fail".to_owned()),
        match_conditions: Some(conditions.into_iter().map(Into::into).collect()),
        match_policy: Some("Equivalent".to_owned()),
        object_selector: selector,
        rules: Some(rules),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT),
        ..ValidatingWebhook::default()
    };
    ValidatingWebhookConfiguration { metadata: metadata(name), webhooks: Some(vec![webhook]) }
}
