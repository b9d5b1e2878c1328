//! Rules of admission that a definition can tell by itself, in CEL: they hold when no webhook answers, and in the same words.
//!
//! A rule within a list costs what its longest list would, so what compares lists with one another is left to the webhook.
//! Most rules let pass what the stored object broke already: `@` stands for the object and, for that, for the stored one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, ValidationRule,
};

use crate::admission::texts::{
    ABOVE_REPLICAS, ABOVE_ZERO, Bounds, CLIQUE_BOUNDS, CLIQUE_NAME, CLIQUES_CHANGE, GROUP_BOUNDS, GROUP_NAME,
    GROUPS_CHANGE, IMMUTABLE, NO_CLIQUE, NO_DELAY, NO_FILTER, NO_NAME, NO_SHARED_NAME, NOTHING_PACKED, SET_NAME,
};

const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const NO_TIME: &str = r"^\\+?((0+(\\.0*)?|\\.0+)(ns|us|µs|μs|ms|s|m|h))+$";
/// What a clique of a template begins with: 0 means 1.
const REPLICAS: &str = "(@.replicas == 0 ? 1 : @.replicas)";

/// How a rule is told apart from the others by an API server.
#[derive(Clone, Copy)]
enum Reason {
    Invalid,
    Required,
    Forbidden,
}

/// Where a rule stands, what it says, and at which field.
struct Place<'a> {
    kind: &'a str,
    /// Fields from the root of the schema; `[]` is an item of a list.
    at: &'a str,
}

/// A rule for what is written: `@` is the object.
fn holds(rule: &str, message: &str, (field, reason): (&str, Reason)) -> ValidationRule {
    let stored = rule.replace('@', "oldSelf.value()");
    let rule = format!("({}) || (oldSelf.hasValue() && !({stored}))", rule.replace('@', "self"));
    ValidationRule { optional_old_self: Some(true), ..stays(&rule, message, (field, reason)) }
}

/// A rule for what is changed: it has both `self` and `oldSelf`.
fn stays(rule: &str, message: &str, (field, reason): (&str, Reason)) -> ValidationRule {
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

/// A field that may be left out and does not change.
fn immutable(field: &str, if_absent: &str) -> ValidationRule {
    let value = |of: &str| format!("(has({of}.{field}) ? {of}.{field} : {if_absent})");
    let rule = format!("{} == {}", value("self"), value("oldSelf"));
    stays(&rule, IMMUTABLE, (&format!(".{field}"), Reason::Invalid))
}

/// The rules of an autoscaler, which stands in the field `config` beside the numbers that bound it.
fn bounds(config: &str, (least, replicas): (&str, &str), says: &Bounds) -> Vec<ValidationRule> {
    let min = format!("(has(@.{config}.minReplicas) ? @.{config}.minReplicas : {replicas})");
    let of = |rule: String, says: &str, field: &str| {
        holds(&format!("!has(@.{config}) || {rule}"), says, (&format!(".{config}.{field}"), Reason::Invalid))
    };
    vec![
        of(format!("!has(@.{config}.minReplicas) || @.{config}.minReplicas >= {least}"), says.least, "minReplicas"),
        of(format!("@.{config}.maxReplicas >= {min}"), says.min, "maxReplicas"),
        of(format!("@.{config}.maxReplicas >= {replicas}"), says.most, "maxReplicas"),
    ]
}

fn of_template() -> Vec<ValidationRule> {
    let packed = "!has(@.clusterTopologyName) || @.clusterTopologyName == '' || has(@.topologyConstraint) || \
                  @.cliques.exists(clique, has(clique.topologyConstraint)) || (has(@.podCliqueScalingGroups) && \
                  @.podCliqueScalingGroups.exists(group, has(group.topologyConstraint)))";
    let size = |of: &str| format!("(has({of}.podCliqueScalingGroups) ? {of}.podCliqueScalingGroups.size() : 0)");
    let delay = format!("!has(@.terminationDelay) || !@.terminationDelay.matches('{NO_TIME}')");
    vec![
        holds("@.cliques.size() > 0", NO_CLIQUE, (".cliques", Reason::Required)),
        holds(&delay, NO_DELAY, (".terminationDelay", Reason::Invalid)),
        holds(packed, NOTHING_PACKED, (".clusterTopologyName", Reason::Invalid)),
        stays("self.cliques.size() == oldSelf.cliques.size()", CLIQUES_CHANGE, (".cliques", Reason::Forbidden)),
        stays(
            &format!("{} == {}", size("self"), size("oldSelf")),
            GROUPS_CHANGE,
            (".podCliqueScalingGroups", Reason::Forbidden),
        ),
        stays(
            "self.cliqueStartupType == oldSelf.cliqueStartupType",
            IMMUTABLE,
            (".cliqueStartupType", Reason::Invalid),
        ),
        immutable("resourceClaimTemplates", "[]"),
        immutable("resourceSharing", "[]"),
    ]
}

fn of_name(says: &str) -> Vec<ValidationRule> {
    let blank = r"@.name.matches('^\\s*$')";
    vec![
        holds(&format!("!{blank}"), NO_NAME, (".name", Reason::Required)),
        holds(&format!("{blank} || @.name.matches('{LABEL}')"), says, (".name", Reason::Invalid)),
    ]
}

fn of_clique_spec() -> Vec<ValidationRule> {
    let least = format!("(has(@.minAvailable) ? @.minAvailable : {REPLICAS})");
    let below = format!("!has(@.minAvailable) || @.minAvailable <= {REPLICAS}");
    // A minimum that a PUT leaves out stays what it was.
    let same_least =
        "!has(self.minAvailable) || !has(oldSelf.minAvailable) || self.minAvailable == oldSelf.minAvailable";
    let mut rules = vec![
        holds("!has(@.minAvailable) || @.minAvailable > 0", ABOVE_ZERO, (".minAvailable", Reason::Invalid)),
        holds(&below, ABOVE_REPLICAS, (".minAvailable", Reason::Invalid)),
        stays(same_least, IMMUTABLE, (".minAvailable", Reason::Invalid)),
        immutable("roleName", "''"),
        immutable("startsAfter", "[]"),
    ];
    rules.extend(bounds("autoScalingConfig", (&least, REPLICAS), &CLIQUE_BOUNDS));
    rules
}

fn of_group() -> Vec<ValidationRule> {
    let mut rules = vec![
        holds(&format!("@.name.matches('{LABEL}')"), GROUP_NAME, (".name", Reason::Invalid)),
        holds("@.replicas > 0", ABOVE_ZERO, (".replicas", Reason::Invalid)),
        holds("@.minAvailable > 0", ABOVE_ZERO, (".minAvailable", Reason::Invalid)),
        holds("@.minAvailable <= @.replicas", ABOVE_REPLICAS, (".minAvailable", Reason::Invalid)),
        stays("self.minAvailable == oldSelf.minAvailable", IMMUTABLE, (".minAvailable", Reason::Invalid)),
        stays("self.cliqueNames == oldSelf.cliqueNames", IMMUTABLE, (".cliqueNames", Reason::Invalid)),
    ];
    rules.extend(bounds("scaleConfig", ("@.minAvailable", "@.replicas"), &GROUP_BOUNDS));
    rules
}

fn of_sharing() -> Vec<ValidationRule> {
    let listed = |list: &str| format!("(has(@.filter.{list}) && @.filter.{list}.size() > 0)");
    let filter = format!("!has(@.filter) || {} || {}", listed("childCliqueNames"), listed("childScalingGroupNames"));
    vec![
        holds("@.name != ''", NO_SHARED_NAME, (".name", Reason::Required)),
        holds(&filter, NO_FILTER, (".filter", Reason::Required)),
    ]
}

/// Nothing is scaled to fewer than must be available, but to none.
fn of_scale() -> Vec<ValidationRule> {
    let rule = "@.replicas <= 0 || !has(@.minAvailable) || @.replicas >= @.minAvailable";
    let message = "must be 0, or greater than or equal to minAvailable";
    vec![holds(rule, message, (".replicas", Reason::Invalid))]
}

fn unique(list: &str, field: &str, message: &str) -> ValidationRule {
    let rule =
        format!("!has(@.{list}) || @.{list}.all(item, @.{list}.exists_one(other, other.{field} == item.{field}))");
    holds(&rule, message, (&format!(".{list}"), Reason::Invalid))
}

fn of_binding() -> Vec<ValidationRule> {
    vec![
        unique("levels", "domain", "each domain may be named once"),
        unique("levels", "key", "each level has a node label of its own"),
        unique("schedulerTopologyBindings", "schedulerName", "each scheduler may be named once"),
    ]
}

fn all() -> Vec<(Place<'static>, Vec<ValidationRule>)> {
    let set = |at| Place { kind: "PodCliqueSet", at };
    // A name never changes, so one that is stored is not judged again.
    let dots = "oldSelf.hasValue() || !self.metadata.name.contains('.')";
    let dots =
        ValidationRule { optional_old_self: Some(true), ..stays(dots, SET_NAME, (".metadata.name", Reason::Invalid)) };
    vec![
        (set(""), vec![dots]),
        (set("spec.template"), of_template()),
        (set("spec.template.cliques[]"), of_name(CLIQUE_NAME)),
        (set("spec.template.cliques[].spec"), of_clique_spec()),
        (set("spec.template.podCliqueScalingGroups[]"), of_group()),
        (set("spec.template.resourceSharing[]"), of_sharing()),
        (Place { kind: "PodClique", at: "spec" }, of_scale()),
        (Place { kind: "PodCliqueScalingGroup", at: "spec" }, of_scale()),
        (Place { kind: "ClusterTopologyBinding", at: "spec" }, of_binding()),
    ]
}

/// Adds the rules of a kind to its schema.
pub(super) fn add(kind: &str, root: &mut JSONSchemaProps) {
    if kind == "PodCliqueSet" {
        name_the_name(root);
    }
    for (place, rules) in all().into_iter().filter(|(place, _)| place.kind == kind) {
        if let Some(schema) = within(root, place.at) {
            schema.x_kubernetes_validations.get_or_insert_default().extend(rules);
        }
    }
}

/// A rule can point at the name of an object only if the schema has it.
fn name_the_name(root: &mut JSONSchemaProps) {
    let text = |kind: &str| JSONSchemaProps { type_: Some(kind.to_owned()), ..JSONSchemaProps::default() };
    let metadata = JSONSchemaProps { properties: Some([("name".to_owned(), text("string"))].into()), ..text("object") };
    root.properties.get_or_insert_default().insert("metadata".to_owned(), metadata);
}

/// The schema at the end of a path.
fn within<'a>(root: &'a mut JSONSchemaProps, at: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut schema = root;
    for step in at.split('.').filter(|step| !step.is_empty()) {
        let (field, is_item) = step.strip_suffix("[]").map_or((step, false), |field| (field, true));
        schema = schema.properties.as_mut()?.get_mut(field)?;
        if is_item {
            let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items else { return None };
            schema = items;
        }
    }
    Some(schema)
}
