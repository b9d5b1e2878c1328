//! Rules of admission as a `ValidatingAdmissionPolicy`, for clusters without the webhook.
//!
//! Each rule has a CEL expression that lists the names of the invalid items; `@` is the set. The policy denies an update only for
//! names that the old set does not list (ratcheting). The policy omits the rules of the CRDs, which the API server checks anyway,
//! and the rules that need the configuration or another object.

use serde_json::{Value, json};

use super::Rule;

/// The immutable part of the claim templates. Their metadata may change: the CRD of the Go operator drops it, so the manifest of an older set may
/// add it.
pub(crate) const NAMES_AND_SPECS: &str = ".map(it, [dyn(it.name), dyn(it.templateSpec.spec)])";
/// The condition under which the webhooks and the policy check an object. A terminating one passes unchecked, so that its finalizers can always be
/// removed. The old object decides: the API server accepts a deletion time in a server-side apply that creates an object.
pub const NOT_TERMINATING: &str = "oldObject == null || !has(oldObject.metadata.deletionTimestamp)";
const NAME: &str = "podcliquesets.grove.io";

/// The requests that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Creation,
    /// The expression has both `object` and `oldObject`.
    Update,
}

/// Lists of the set.
const GROUPS: &str = "@.spec.template.?podCliqueScalingGroups.orValue([])";
const CLIQUES: &str = "@.spec.template.cliques";
const SHARES: &str = "@.spec.template.?resourceSharing.orValue([])";
/// Patterns of names.
const LABEL: &str = "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'";
const VARIABLE: &str = "'^[-._a-zA-Z][-._a-zA-Z0-9]*$'";

/// The names of the invalid items of a list; `it` is the item.
fn invalid_names(list: &str, is_invalid: &str) -> String {
    format!("{list}.filter(it, {is_invalid}).map(it, it.name)")
}

/// The name of a field, if the field is invalid.
fn invalid_field(is_invalid: &str, field: &str) -> String {
    format!("({is_invalid}) ? ['{field}'] : []")
}

fn clique_rules() -> Vec<(Rule, When, String)> {
    let parents = "it.spec.?startsAfter.orValue([])";
    let explicit = "@.spec.template.?cliqueStartupType.orValue('') == 'CliqueStartupTypeExplicit'";
    let invalid_parents = format!(
        "{explicit} && {parents}.exists(parent, parent == it.name || !{parents}.exists_one(other, other == parent) || \
         !{CLIQUES}.exists(other, other.name == parent))"
    );
    let role = "it.spec.?roleName.orValue('')";
    let roles = format!("{role} != '' && !{CLIQUES}.exists_one(other, other.spec.?roleName.orValue('') == {role})");
    let is_member = format!("{GROUPS}.exists(group, it.name in group.cliqueNames)");
    let is_long = format!(
        "(!{is_member} && @.metadata.name.size() + it.name.size() > 45) || {GROUPS}.exists(group, it.name in \
         group.cliqueNames && @.metadata.name.size() + group.name.size() + it.name.size() > 45)"
    );
    let variables = |list: &str| {
        format!(
            "it.spec.podSpec.?{list}.orValue([]).exists(container, container.?env.orValue([]).exists(variable, \
             !variable.name.matches({VARIABLE})))"
        )
    };
    let environment = format!("{} || {}", variables("containers"), variables("initContainers"));
    let chooses_placement = "it.spec.podSpec.?nodeName.orValue('') != '' || has(it.spec.podSpec.topologySpreadConstraints) || \
                             has(it.spec.podSpec.schedulingGroup)";
    vec![
        (Rule::CliqueRole, When::Always, invalid_names(CLIQUES, &roles)),
        (Rule::CombinedNameLength, When::Always, invalid_names(CLIQUES, &is_long)),
        (Rule::StartsAfter, When::Always, invalid_names(CLIQUES, &invalid_parents)),
        (Rule::PodPlacement, When::Creation, invalid_names(CLIQUES, chooses_placement)),
        (Rule::Environment, When::Always, invalid_names(CLIQUES, &environment)),
    ]
}

fn group_rules() -> Vec<(Rule, When, String)> {
    let unknown = format!("it.cliqueNames.exists(name, !{CLIQUES}.exists(clique, clique.name == name))");
    let in_two_groups =
        format!("{GROUPS}.map(group, group.cliqueNames.filter(name, name == it.name).size()).sum() > 1");
    let is_scaled_member =
        format!("has(it.spec.autoScalingConfig) && {GROUPS}.exists(group, it.name in group.cliqueNames)");
    vec![
        (Rule::GroupCliques, When::Always, invalid_names(GROUPS, &unknown)),
        (Rule::OneGroup, When::Always, invalid_names(CLIQUES, &in_two_groups)),
        (Rule::MemberAutoScaling, When::Always, invalid_names(CLIQUES, &is_scaled_member)),
    ]
}

fn claim_rules() -> Vec<(Rule, When, String)> {
    let templates = "@.spec.template.?resourceClaimTemplates.orValue([])";
    let is_invalid = "it.name == '' || it.templateSpec.spec.?devices.?requests.orValue([]).size() == 0";
    let (shares, configs) = ("it.?resourceSharing.orValue([])", "it.?resourceClaimTemplateConfigs.orValue([])");
    let own = format!("({shares}.map(share, share.name) + it.?resourceClaimTemplateNames.orValue([]))");
    let of_cliques = format!("{own}.exists(name, name == '' || !{own}.exists_one(other, other == name))");
    let is_duplicate = format!(
        "{shares}.filter(share, share.name == name).size() + {configs}.map(config, config.names.filter(other, other == \
         name).size()).sum() > 1"
    );
    let of_groups = format!(
        "{shares}.exists(share, share.name == '') || {configs}.exists(config, config.names.size() == 0 || \
         config.names.exists(name, {is_duplicate}))"
    );
    let references = format!("{} + {}", invalid_names(CLIQUES, &of_cliques), invalid_names(GROUPS, &of_groups));
    vec![
        (Rule::ClaimTemplate, When::Always, invalid_names(templates, is_invalid)),
        (Rule::SharedTemplate, When::Always, references),
        (Rule::SharedNamespace, When::Always, namespaces(templates)),
        (Rule::SharingFilter, When::Always, filters()),
    ]
}

/// A reference to a template of the set has no namespace.
fn namespaces(templates: &str) -> String {
    let is_own = |share: &str| {
        format!(
            "{share}[?'namespace'].orValue('') != '' && {templates}.exists(template, template.name == {share}.name)"
        )
    };
    let within = format!("it.?resourceSharing.orValue([]).exists(share, {})", is_own("share"));
    [invalid_names(SHARES, &is_own("it")), invalid_names(CLIQUES, &within), invalid_names(GROUPS, &within)].join(" + ")
}

/// A filter is not empty, and its names exist.
fn filters() -> String {
    let has_unknown = |names: &str, list: &str| {
        format!("it.filter.?{names}.orValue([]).exists(name, !{list}.exists(item, item.name == name))")
    };
    let (cliques, groups) = (has_unknown("childCliqueNames", CLIQUES), has_unknown("childScalingGroupNames", GROUPS));
    let of_set = format!("has(it.filter) && ({cliques} || {groups})");
    let named = "share.filter.?childCliqueNames.orValue([])";
    let of_group = format!(
        "it.?resourceSharing.orValue([]).exists(share, has(share.filter) && ({named}.size() == 0 || {named}.exists(name, \
         !(name in it.cliqueNames)))) || it.?resourceClaimTemplateConfigs.orValue([]).exists(config, \
         config.?cliqueNames.orValue([]).exists(name, !(name in it.cliqueNames)))"
    );
    [invalid_names(SHARES, &of_set), invalid_names(GROUPS, &of_group)].join(" + ")
}

fn topology_rules() -> Vec<(Rule, When, String)> {
    let own = "(@.spec.template.?clusterTopologyName.orValue('') == '' ? [] : [@.spec.template.clusterTopologyName])";
    let of_set = "(@.spec.template.?topologyConstraint.?topologyName.orValue('') == '' ? [] : \
                  [@.spec.template.topologyConstraint.topologyName])";
    let within = |list: &str| {
        format!(
            "{list}.filter(it, it.?topologyConstraint.?topologyName.orValue('') != '').map(it, \
             it.topologyConstraint.topologyName)"
        )
    };
    let all = format!("({own} + {of_set} + {} + {})", within(CLIQUES), within(GROUPS));
    let packed = |list: &str| format!("{list}.exists(it, has(it.topologyConstraint))");
    let no_constraint = format!(
        "{own}.size() > 0 && !has(@.spec.template.topologyConstraint) && !{} && !{}",
        packed(CLIQUES),
        packed(GROUPS)
    );
    let differ = format!("{all}.exists(name, {all}[0] != name)");
    vec![(Rule::TopologyName, When::Always, invalid_field(&format!("{differ} || ({no_constraint})"), "topologyName"))]
}

fn mnnvl_rules() -> Vec<(Rule, When, String)> {
    let of_set = |of: &str, key: &str| format!("{of}.metadata.?annotations[?'{key}']");
    let (auto, group) = ("grove.io/auto-mnnvl", "grove.io/mnnvl-group");
    let auto_mnnvl = format!("{}.orValue('disabled')", of_set("@", auto));
    let within =
        |list: &str, is_so: &str| format!("{list}.exists(it, it.?annotations[?'{group}'].hasValue() && {is_so})");
    let no_label = format!("!it.annotations['{group}'].matches({LABEL})");
    let no_group = format!(
        "!{}.orValue('none').matches({LABEL}) || {} || {}",
        of_set("@", group),
        within(CLIQUES, &no_label),
        within(GROUPS, &no_label)
    );
    let both = format!(
        "{auto_mnnvl} == 'enabled' && ({}.hasValue() || {} || {})",
        of_set("@", group),
        within(CLIQUES, "true"),
        within(GROUPS, "true")
    );
    let is_changed = |key: &str| format!("{} != {}", of_set("object", key), of_set("oldObject", key));
    let changed = |list: &str| {
        let old = list.replace('@', "oldObject");
        let new = list.replace('@', "object");
        format!(
            "{new}.exists(it, {old}.exists(old, old.name == it.name && old.?annotations[?'{group}'] != \
             it.?annotations[?'{group}']))"
        )
    };
    let immutable =
        format!("{} || {} || {} || {}", is_changed(auto), is_changed(group), changed(CLIQUES), changed(GROUPS));
    vec![
        (Rule::AutoMnnvl, When::Creation, invalid_field(&format!("!({auto_mnnvl} in ['enabled', 'disabled'])"), auto)),
        (Rule::MnnvlGroup, When::Creation, invalid_field(&no_group, group)),
        (Rule::MnnvlForm, When::Always, invalid_field(&both, auto)),
        (Rule::MnnvlImmutable, When::Update, invalid_field(&immutable, "annotations")),
    ]
}

fn immutability_rules() -> Vec<(Rule, When, String)> {
    let new = |list: &str| list.replace('@', "object");
    let old = |list: &str| list.replace('@', "oldObject");
    let composition = |list: &str| {
        let (new, old) = (new(list), old(list));
        format!("{new}.size() != {old}.size() || {new}.exists(it, !{old}.exists(old, old.name == it.name))")
    };
    let (cliques, before) = (new(CLIQUES), old(CLIQUES));
    let order = format!(
        "object.spec.template.?cliqueStartupType.orValue('CliqueStartupTypeAnyOrder') != 'CliqueStartupTypeAnyOrder' && \
         {cliques}.size() == {before}.size() && {cliques}.all(it, {before}.exists(old, old.name == it.name)) && \
         {cliques}.map(it, it.name) != {before}.map(it, it.name)"
    );
    let differs = |field: &str| format!("old.{field} != it.{field}");
    let of_clique = [
        differs("spec.?roleName.orValue('')"),
        differs("spec.?startsAfter.orValue([])"),
        differs("spec.podSpec.?schedulerName.orValue('')"),
        differs("?resourceSharing.orValue([])"),
        differs("?resourceClaimTemplateNames.orValue([])"),
        "(has(it.spec.minAvailable) && has(old.spec.minAvailable) && it.spec.minAvailable != old.spec.minAvailable)"
            .to_owned(),
    ];
    let of_group = [
        differs("cliqueNames"),
        differs("?minAvailable.orValue(1)"),
        differs("?resourceSharing.orValue([])"),
        differs("?resourceClaimTemplateConfigs.orValue([])"),
    ];
    let differ = |list: &str, fields: &[String]| {
        let (new, old) = (new(list), old(list));
        format!("{new}.exists(it, {old}.exists(old, old.name == it.name && ({})))", fields.join(" || "))
    };
    let of_template = |field: &str, absent: &str, part: &str| {
        let value = |of: &str| format!("{of}.spec.template.?{field}.orValue({absent}){part}");
        format!("{} != {}", value("object"), value("oldObject"))
    };
    let immutable = [
        differ(CLIQUES, &of_clique),
        differ(GROUPS, &of_group),
        of_template("cliqueStartupType", "'CliqueStartupTypeAnyOrder'", ""),
        of_template("resourceClaimTemplates", "[]", NAMES_AND_SPECS),
        of_template("resourceSharing", "[]", ""),
    ];
    vec![
        (Rule::CliqueComposition, When::Update, invalid_field(&composition(CLIQUES), "spec.template.cliques")),
        (Rule::CliqueOrder, When::Update, invalid_field(&order, "spec.template.cliques")),
        (
            Rule::GroupComposition,
            When::Update,
            invalid_field(&composition(GROUPS), "spec.template.podCliqueScalingGroups"),
        ),
        (Rule::Immutable, When::Update, invalid_field(&immutable.join(" || "), "spec.template")),
    ]
}

fn table() -> Vec<(Rule, When, String)> {
    [clique_rules(), group_rules(), claim_rules(), topology_rules(), mnnvl_rules(), immutability_rules()].concat()
}

/// The names of the rules of the policy.
pub fn covered_rules() -> Vec<&'static str> {
    table().iter().map(|(rule, ..)| rule.name()).collect()
}

/// A rule as a variable with the new invalid names, and as the validation that the variable is empty.
fn variable_and_validation((rule, when, expression): &(Rule, When, String)) -> (Value, Value) {
    let name = rule.name().replace('-', "_");
    let of = |object: &str| format!("({})", expression.replace('@', object));
    let invalid = match when {
        When::Always => format!(
            "oldObject == null ? {} : {}.filter(name, !(name in {}))",
            of("object"),
            of("object"),
            of("oldObject")
        ),
        When::Creation => format!("oldObject == null ? {} : []", of("object")),
        When::Update => format!("oldObject == null ? [] : {}", of("object")),
    };
    let message =
        format!("'{}: {} See ' + variables.{name}.join(', ')", rule.name(), rule.description().replace('\'', r"\'"));
    let validation = json!({
        "expression": format!("variables.{name}.size() == 0"),
        "messageExpression": message,
        "reason": "Invalid",
    });
    (json!({ "name": name, "expression": invalid }), validation)
}

/// The policy, and the binding that activates it.
pub fn policies() -> [Value; 2] {
    let (variables, validations): (Vec<_>, Vec<_>) = table().iter().map(variable_and_validation).unzip();
    let annotation =
        |key: &str| format!("object.metadata.?annotations[?'{key}'] != oldObject.metadata.?annotations[?'{key}']");
    let changed = format!(
        "oldObject == null || object.spec != oldObject.spec || {} || {}",
        annotation("grove.io/auto-mnnvl"),
        annotation("grove.io/mnnvl-group")
    );
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": NAME, "annotations": { "grove.io/covered-rules": covered_rules().join(" ") } },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["grove.io"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["podcliquesets"],
            }] },
            "matchConditions": [
                { "name": "not-terminating", "expression": NOT_TERMINATING },
                { "name": "validated-fields-changed", "expression": changed },
            ],
            "variables": variables,
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": NAME },
        "spec": { "policyName": NAME, "validationActions": ["Deny"] },
    });
    [policy, binding]
}
