//! Admission rules as CEL in the CRDs, with the messages of the webhook. They apply also when no webhook is installed.
//!
//! The API server estimates the cost of a rule from the maximum length of each list, so the webhook alone compares lists with
//! one another. Most rules ratchet: an update passes if the stored object violates the rule too. In a rule, `@` is the object;
//! for ratcheting it is replaced by the stored object.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, ValidationRule,
};

use crate::admission::messages::{
    BoundsMessages, CLIQUE_BOUNDS, CLIQUES_CHANGED, DELAY_NOT_POSITIVE, EMPTY_FILTER, EMPTY_NAME, EMPTY_REFERENCE_NAME,
    GROUP_BOUNDS, GROUPS_CHANGED, IMMUTABLE, INVALID_CLIQUE_NAME, INVALID_GROUP_NAME, MAX_UNAVAILABLE_INVALID,
    MIN_AVAILABLE_ABOVE_REPLICAS, NO_CLIQUES, NOT_POSITIVE, ROLLING_UPDATE_ON_DELETE, SET_NAME_WITH_DOTS,
    TOPOLOGY_WITHOUT_CONSTRAINT,
};
use crate::admission::validating_admission_policy::NAMES_AND_SPECS;

const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const ZERO_DURATION: &str = r"^\\+?((0+(\\.0*)?|\\.0+)(ns|us|µs|μs|ms|s|m|h))+$";
/// The initial replicas of a clique of a template: 0 means 1.
const REPLICAS: &str = "(@.replicas == 0 ? 1 : @.replicas)";

/// The reason of a validation rule.
#[derive(Clone, Copy)]
enum Reason {
    Invalid,
    Required,
    Forbidden,
}

/// The schema that a rule belongs to.
struct Location<'a> {
    kind: &'a str,
    /// The fields from the root of the schema; `[]` is an item of a list.
    path: &'a str,
}

/// A rule about the object `@`, with ratcheting.
fn ratcheting(rule: &str, message: &str, (field, reason): (&str, Reason)) -> ValidationRule {
    let stored = rule.replace('@', "oldSelf.value()");
    let rule = format!("({}) || (oldSelf.hasValue() && !({stored}))", rule.replace('@', "self"));
    ValidationRule { optional_old_self: Some(true), ..transition(&rule, message, (field, reason)) }
}

/// A transition rule with `self` and `oldSelf`.
fn transition(rule: &str, message: &str, (field, reason): (&str, Reason)) -> ValidationRule {
    let reason = match reason {
        Reason::Invalid => None,
        Reason::Required => Some("FieldValueRequired"),
        Reason::Forbidden => Some("FieldValueForbidden"),
    };
    ValidationRule {
        rule: rule.to_owned(),
        message: Some(message.to_owned()),
        field_path: (!field.is_empty()).then(|| field.to_owned()),
        reason: reason.map(str::to_owned),
        ..ValidationRule::default()
    }
}

/// An optional immutable field.
fn immutable(field: &str, default: &str) -> ValidationRule {
    immutable_part(field, "", default)
}

/// An optional field of which this part is immutable: a suffix of the expression of the field.
fn immutable_part(field: &str, part: &str, default: &str) -> ValidationRule {
    let value = |of: &str| format!("(has({of}.{field}) ? {of}.{field}{part} : {default})");
    let rule = format!("{} == {}", value("self"), value("oldSelf"));
    transition(&rule, IMMUTABLE, (&format!(".{field}"), Reason::Invalid))
}

/// The rules about the autoscaler in the field `config`.
fn bounds(config: &str, (min_available, replicas): (&str, &str), messages: &BoundsMessages) -> Vec<ValidationRule> {
    let min = format!("(has(@.{config}.minReplicas) ? @.{config}.minReplicas : {replicas})");
    let rule = |rule: String, message: &str, field: &str| {
        ratcheting(&format!("!has(@.{config}) || {rule}"), message, (&format!(".{config}.{field}"), Reason::Invalid))
    };
    vec![
        rule(
            format!("!has(@.{config}.minReplicas) || @.{config}.minReplicas >= {min_available}"),
            messages.min_below_min_available,
            "minReplicas",
        ),
        rule(format!("@.{config}.maxReplicas >= {min}"), messages.max_below_min, "maxReplicas"),
        rule(format!("@.{config}.maxReplicas >= {replicas}"), messages.max_below_replicas, "maxReplicas"),
    ]
}

fn template_rules() -> Vec<ValidationRule> {
    let packed = "!has(@.clusterTopologyName) || @.clusterTopologyName == '' || has(@.topologyConstraint) || \
                  @.cliques.exists(clique, has(clique.topologyConstraint)) || (has(@.podCliqueScalingGroups) && \
                  @.podCliqueScalingGroups.exists(group, has(group.topologyConstraint)))";
    let size = |of: &str| format!("(has({of}.podCliqueScalingGroups) ? {of}.podCliqueScalingGroups.size() : 0)");
    let delay = format!("!has(@.terminationDelay) || !@.terminationDelay.matches('{ZERO_DURATION}')");
    vec![
        ratcheting("@.cliques.size() > 0", NO_CLIQUES, (".cliques", Reason::Required)),
        ratcheting(&delay, DELAY_NOT_POSITIVE, (".terminationDelay", Reason::Invalid)),
        ratcheting(packed, TOPOLOGY_WITHOUT_CONSTRAINT, (".clusterTopologyName", Reason::Invalid)),
        transition("self.cliques.size() == oldSelf.cliques.size()", CLIQUES_CHANGED, (".cliques", Reason::Forbidden)),
        transition(
            &format!("{} == {}", size("self"), size("oldSelf")),
            GROUPS_CHANGED,
            (".podCliqueScalingGroups", Reason::Forbidden),
        ),
        transition(
            "self.cliqueStartupType == oldSelf.cliqueStartupType",
            IMMUTABLE,
            (".cliqueStartupType", Reason::Invalid),
        ),
        immutable_part("resourceClaimTemplates", NAMES_AND_SPECS, "[]"),
        immutable("resourceSharing", "[]"),
    ]
}

fn name_rules(message: &str) -> Vec<ValidationRule> {
    let blank = r"@.name.matches('^\\s*$')";
    vec![
        ratcheting(&format!("!{blank}"), EMPTY_NAME, (".name", Reason::Required)),
        ratcheting(&format!("{blank} || @.name.matches('{LABEL}')"), message, (".name", Reason::Invalid)),
    ]
}

fn clique_spec_rules() -> Vec<ValidationRule> {
    let min_available = format!("(has(@.minAvailable) ? @.minAvailable : {REPLICAS})");
    let at_most_replicas = format!("!has(@.minAvailable) || @.minAvailable <= {REPLICAS}");
    // A PUT without minAvailable keeps the stored value.
    let same_min_available =
        "!has(self.minAvailable) || !has(oldSelf.minAvailable) || self.minAvailable == oldSelf.minAvailable";
    let mut rules = vec![
        ratcheting("!has(@.minAvailable) || @.minAvailable > 0", NOT_POSITIVE, (".minAvailable", Reason::Invalid)),
        ratcheting(&at_most_replicas, MIN_AVAILABLE_ABOVE_REPLICAS, (".minAvailable", Reason::Invalid)),
        transition(same_min_available, IMMUTABLE, (".minAvailable", Reason::Invalid)),
        immutable("roleName", "''"),
        immutable("startsAfter", "[]"),
    ];
    rules.extend(bounds("autoScalingConfig", (&min_available, REPLICAS), &CLIQUE_BOUNDS));
    rules
}

fn group_rules() -> Vec<ValidationRule> {
    let mut rules = vec![
        ratcheting(&format!("@.name.matches('{LABEL}')"), INVALID_GROUP_NAME, (".name", Reason::Invalid)),
        ratcheting("@.replicas > 0", NOT_POSITIVE, (".replicas", Reason::Invalid)),
        ratcheting("@.minAvailable > 0", NOT_POSITIVE, (".minAvailable", Reason::Invalid)),
        ratcheting("@.minAvailable <= @.replicas", MIN_AVAILABLE_ABOVE_REPLICAS, (".minAvailable", Reason::Invalid)),
        transition("self.minAvailable == oldSelf.minAvailable", IMMUTABLE, (".minAvailable", Reason::Invalid)),
        transition("self.cliqueNames == oldSelf.cliqueNames", IMMUTABLE, (".cliqueNames", Reason::Invalid)),
    ];
    rules.extend(bounds("scaleConfig", ("@.minAvailable", "@.replicas"), &GROUP_BOUNDS));
    rules
}

fn strategy_rules() -> Vec<ValidationRule> {
    let has_effect = "!has(@.rollingUpdate) || @.type != 'OnDelete'";
    vec![ratcheting(has_effect, ROLLING_UPDATE_ON_DELETE, (".rollingUpdate", Reason::Forbidden))]
}

/// The rules about the bounds of updates at one level. The API server assumes that the value of `maxUnavailable` may be as long as a request, so a
/// regular expression would cost too much.
fn rolling_update_rules(has_deadline: bool) -> Vec<ValidationRule> {
    let percentages: Vec<_> = (1..=100).map(|percentage| format!("'{percentage}%'")).collect();
    let percentages = percentages.join(",");
    let max_unavailable = format!(
        "!has(@.maxUnavailable) || (type(@.maxUnavailable) == int ? @.maxUnavailable > 0 : @.maxUnavailable in [{percentages}])"
    );
    let deadline = format!("!has(@.progressDeadline) || !@.progressDeadline.matches('{ZERO_DURATION}')");
    let mut rules = vec![ratcheting(&max_unavailable, MAX_UNAVAILABLE_INVALID, (".maxUnavailable", Reason::Invalid))];
    let deadline = has_deadline.then(|| ratcheting(&deadline, NOT_POSITIVE, (".progressDeadline", Reason::Invalid)));
    rules.extend(deadline);
    rules
}

fn sharing_rules() -> Vec<ValidationRule> {
    let listed = |list: &str| format!("(has(@.filter.{list}) && @.filter.{list}.size() > 0)");
    let filter = format!("!has(@.filter) || {} || {}", listed("childCliqueNames"), listed("childScalingGroupNames"));
    vec![
        ratcheting("@.name != ''", EMPTY_REFERENCE_NAME, (".name", Reason::Required)),
        ratcheting(&filter, EMPTY_FILTER, (".filter", Reason::Required)),
    ]
}

fn unique(list: &str, field: &str, message: &str) -> ValidationRule {
    let rule =
        format!("!has(@.{list}) || @.{list}.all(item, @.{list}.exists_one(other, other.{field} == item.{field}))");
    ratcheting(&rule, message, (&format!(".{list}"), Reason::Invalid))
}

fn binding_rules() -> Vec<ValidationRule> {
    vec![
        unique("levels", "domain", "each domain must be unique"),
        unique("levels", "key", "each node label must be unique"),
        unique("schedulerTopologyBindings", "schedulerName", "each scheduler must be unique"),
    ]
}

fn all() -> Vec<(Location<'static>, Vec<ValidationRule>)> {
    let set = |path| Location { kind: "PodCliqueSet", path };
    // A name is immutable, so the rule ignores stored objects.
    let dots = "oldSelf.hasValue() || !self.metadata.name.contains('.')";
    let dots = ValidationRule {
        optional_old_self: Some(true),
        ..transition(dots, SET_NAME_WITH_DOTS, (".metadata.name", Reason::Invalid))
    };
    vec![
        (set(""), vec![dots]),
        (set("spec.updateStrategy"), strategy_rules()),
        (set("spec.updateStrategy.rollingUpdate"), rolling_update_rules(false)),
        (set("spec.template.cliques[].rollingUpdate"), rolling_update_rules(true)),
        (set("spec.template.podCliqueScalingGroups[].rollingUpdate"), rolling_update_rules(true)),
        (set("spec.template"), template_rules()),
        (set("spec.template.cliques[]"), name_rules(INVALID_CLIQUE_NAME)),
        (set("spec.template.cliques[].spec"), clique_spec_rules()),
        (set("spec.template.podCliqueScalingGroups[]"), group_rules()),
        (set("spec.template.resourceSharing[]"), sharing_rules()),
        (Location { kind: "ClusterTopologyBinding", path: "spec" }, binding_rules()),
    ]
}

/// Adds the rules of a kind to its schema.
pub(super) fn add(kind: &str, root: &mut JSONSchemaProps) {
    if kind == "PodCliqueSet" {
        declare_name(root);
    }
    for (location, rules) in all().into_iter().filter(|(location, _)| location.kind == kind) {
        if let Some(schema) = schema_at(root, location.path) {
            schema.x_kubernetes_validations.get_or_insert_default().extend(rules);
        }
    }
}

/// Adds `metadata.name` to the schema: a rule may use only fields of the schema.
fn declare_name(root: &mut JSONSchemaProps) {
    let text = |kind: &str| JSONSchemaProps { type_: Some(kind.to_owned()), ..JSONSchemaProps::default() };
    let metadata = JSONSchemaProps { properties: Some([("name".to_owned(), text("string"))].into()), ..text("object") };
    root.properties.get_or_insert_default().insert("metadata".to_owned(), metadata);
}

/// The schema at the end of a path.
fn schema_at<'a>(root: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut schema = root;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let (field, is_item) = step.strip_suffix("[]").map_or((step, false), |field| (field, true));
        schema = schema.properties.as_mut()?.get_mut(field)?;
        if is_item {
            let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items else { return None };
            schema = items;
        }
    }
    Some(schema)
}
