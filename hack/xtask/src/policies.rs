//! Rules of admission as a `ValidatingAdmissionPolicy`, for clusters that run no webhook. Pure: a table of rules and of CEL
//! that lists what breaks them.
//!
//! Rules of the definitions are not repeated: those are judged first. `@` is the set that is looked at. Each expression gives the names of what is wrong, so that what was wrong before is no
//! reason to refuse a change. What needs the configuration or another object is left to the webhook.

use grove_api_types::admission::Rule;
use serde_json::{Value, json};

/// Where the component lies.
pub const PATH: &str = "deploy/components/admission-policy/policies.yaml";
const NAME: &str = "podcliquesets.grove.io";

/// When a rule is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    Creation,
    /// The expression has both `object` and `oldObject`.
    Update,
}

/// The scaling groups of a set, and the numbers that a clique has by default.
const GROUPS: &str = "@.spec.template.?podCliqueScalingGroups.orValue([])";
const CLIQUES: &str = "@.spec.template.cliques";
const SHARES: &str = "@.spec.template.?resourceSharing.orValue([])";
const LABEL: &str = "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'";
const VARIABLE: &str = "'^[-._a-zA-Z][-._a-zA-Z0-9]*$'";

/// The names of the items of a list for which something is so; `it` is the item.
fn names(list: &str, is_wrong: &str) -> String {
    format!("{list}.filter(it, {is_wrong}).map(it, it.name)")
}

/// The word, if something is so.
fn word(is_wrong: &str, word: &str) -> String {
    format!("({is_wrong}) ? ['{word}'] : []")
}

fn of_cliques() -> Vec<(Rule, When, String)> {
    let parents = "it.spec.?startsAfter.orValue([])";
    let explicit = "@.spec.template.?cliqueStartupType.orValue('') == 'CliqueStartupTypeExplicit'";
    let waits = format!(
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
    let placed = "it.spec.podSpec.?nodeName.orValue('') != '' || has(it.spec.podSpec.topologySpreadConstraints)";
    vec![
        (Rule::CliqueRole, When::Always, names(CLIQUES, &roles)),
        (Rule::CombinedNameLength, When::Always, names(CLIQUES, &is_long)),
        (Rule::StartsAfter, When::Always, names(CLIQUES, &waits)),
        (Rule::PodPlacement, When::Creation, names(CLIQUES, placed)),
        (Rule::Environment, When::Always, names(CLIQUES, &environment)),
    ]
}

fn of_groups() -> Vec<(Rule, When, String)> {
    let unknown = format!("it.cliqueNames.exists(name, !{CLIQUES}.exists(clique, clique.name == name))");
    let times = format!("{GROUPS}.map(group, group.cliqueNames.filter(name, name == it.name).size()).sum() > 1");
    let member = format!("has(it.spec.autoScalingConfig) && {GROUPS}.exists(group, it.name in group.cliqueNames)");
    vec![
        (Rule::GroupCliques, When::Always, names(GROUPS, &unknown)),
        (Rule::OneGroup, When::Always, names(CLIQUES, &times)),
        (Rule::MemberAutoScaling, When::Always, names(CLIQUES, &member)),
    ]
}

fn of_claims() -> Vec<(Rule, When, String)> {
    let templates = "@.spec.template.?resourceClaimTemplates.orValue([])";
    let no_device = "it.name == '' || it.templateSpec.spec.?devices.?requests.orValue([]).size() == 0";
    let (shares, configs) = ("it.?resourceSharing.orValue([])", "it.?resourceClaimTemplateConfigs.orValue([])");
    let own = format!("({shares}.map(share, share.name) + it.?resourceClaimTemplateNames.orValue([]))");
    let of_cliques = format!("{own}.exists(name, name == '' || !{own}.exists_one(other, other == name))");
    let times = format!(
        "{shares}.filter(share, share.name == name).size() + {configs}.map(config, config.names.filter(other, other == \
         name).size()).sum() > 1"
    );
    let of_groups = format!(
        "{shares}.exists(share, share.name == '') || {configs}.exists(config, config.names.size() == 0 || \
         config.names.exists(name, {times}))"
    );
    let unclear = format!("{} + {}", names(CLIQUES, &of_cliques), names(GROUPS, &of_groups));
    vec![
        (Rule::ClaimTemplate, When::Always, names(templates, no_device)),
        (Rule::SharedTemplate, When::Always, unclear),
        (Rule::SharedNamespace, When::Always, namespaces(templates)),
        (Rule::SharingFilter, When::Always, filters()),
    ]
}

/// A namespace is not given for what the set brings itself.
fn namespaces(templates: &str) -> String {
    let is_own = |share: &str| {
        format!(
            "{share}[?'namespace'].orValue('') != '' && {templates}.exists(template, template.name == {share}.name)"
        )
    };
    let within = format!("it.?resourceSharing.orValue([]).exists(share, {})", is_own("share"));
    [names(SHARES, &is_own("it")), names(CLIQUES, &within), names(GROUPS, &within)].join(" + ")
}

/// A filter names something, and what it names is there.
fn filters() -> String {
    let is_listed = |names: &str, list: &str| {
        format!("it.filter.?{names}.orValue([]).exists(name, !{list}.exists(item, item.name == name))")
    };
    let (cliques, groups) = (is_listed("childCliqueNames", CLIQUES), is_listed("childScalingGroupNames", GROUPS));
    let of_set = format!("has(it.filter) && ({cliques} || {groups})");
    let named = "share.filter.?childCliqueNames.orValue([])";
    let of_group = format!(
        "it.?resourceSharing.orValue([]).exists(share, has(share.filter) && ({named}.size() == 0 || {named}.exists(name, \
         !(name in it.cliqueNames)))) || it.?resourceClaimTemplateConfigs.orValue([]).exists(config, \
         config.?cliqueNames.orValue([]).exists(name, !(name in it.cliqueNames)))"
    );
    [names(SHARES, &of_set), names(GROUPS, &of_group)].join(" + ")
}

fn of_topology() -> Vec<(Rule, When, String)> {
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
    let nothing = format!(
        "{own}.size() > 0 && !has(@.spec.template.topologyConstraint) && !{} && !{}",
        packed(CLIQUES),
        packed(GROUPS)
    );
    let differ = format!("{all}.exists(name, {all}[0] != name)");
    vec![(Rule::TopologyName, When::Always, word(&format!("{differ} || ({nothing})"), "topologyName"))]
}

fn of_fabrics() -> Vec<(Rule, When, String)> {
    let of_set = |of: &str, key: &str| format!("{of}.metadata.?annotations[?'{key}']");
    let (auto, group) = ("grove.io/auto-mnnvl", "grove.io/mnnvl-group");
    let says = format!("{}.orValue('disabled')", of_set("@", auto));
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
        "{says} == 'enabled' && ({}.hasValue() || {} || {})",
        of_set("@", group),
        within(CLIQUES, "true"),
        within(GROUPS, "true")
    );
    let kept = |key: &str| format!("{} != {}", of_set("object", key), of_set("oldObject", key));
    let changed = |list: &str| {
        let old = list.replace('@', "oldObject");
        let new = list.replace('@', "object");
        format!(
            "{new}.exists(it, {old}.exists(old, old.name == it.name && old.?annotations[?'{group}'] != \
             it.?annotations[?'{group}']))"
        )
    };
    let immutable = format!("{} || {} || {} || {}", kept(auto), kept(group), changed(CLIQUES), changed(GROUPS));
    vec![
        (Rule::AutoMnnvl, When::Creation, word(&format!("!({says} in ['enabled', 'disabled'])"), auto)),
        (Rule::MnnvlGroup, When::Creation, word(&no_group, group)),
        (Rule::MnnvlForm, When::Always, word(&both, auto)),
        (Rule::MnnvlImmutable, When::Update, word(&immutable, "annotations")),
    ]
}

fn of_changes() -> Vec<(Rule, When, String)> {
    let new = |list: &str| list.replace('@', "object");
    let old = |list: &str| list.replace('@', "oldObject");
    let others = |list: &str| {
        let (new, old) = (new(list), old(list));
        format!("{new}.size() != {old}.size() || {new}.exists(it, !{old}.exists(old, old.name == it.name))")
    };
    let (cliques, before) = (new(CLIQUES), old(CLIQUES));
    let order = format!(
        "object.spec.template.?cliqueStartupType.orValue('CliqueStartupTypeAnyOrder') != 'CliqueStartupTypeAnyOrder' && \
         {cliques}.size() == {before}.size() && {cliques}.all(it, {before}.exists(old, old.name == it.name)) && \
         {cliques}.map(it, it.name) != {before}.map(it, it.name)"
    );
    let same = |field: &str| format!("old.{field} != it.{field}");
    let of_clique = [
        same("spec.?roleName.orValue('')"),
        same("spec.?startsAfter.orValue([])"),
        same("spec.podSpec.?schedulerName.orValue('')"),
        same("?resourceSharing.orValue([])"),
        same("?resourceClaimTemplateNames.orValue([])"),
        "(has(it.spec.minAvailable) && has(old.spec.minAvailable) && it.spec.minAvailable != old.spec.minAvailable)"
            .to_owned(),
    ];
    let of_group = [
        same("cliqueNames"),
        same("?minAvailable.orValue(1)"),
        same("?resourceSharing.orValue([])"),
        same("?resourceClaimTemplateConfigs.orValue([])"),
    ];
    let differ = |list: &str, fields: &[String]| {
        let (new, old) = (new(list), old(list));
        format!("{new}.exists(it, {old}.exists(old, old.name == it.name && ({})))", fields.join(" || "))
    };
    let of_template = |field: &str, absent: &str| {
        let value = |of: &str| format!("{of}.spec.template.?{field}.orValue({absent})");
        format!("{} != {}", value("object"), value("oldObject"))
    };
    let immutable = [
        differ(CLIQUES, &of_clique),
        differ(GROUPS, &of_group),
        of_template("cliqueStartupType", "'CliqueStartupTypeAnyOrder'"),
        of_template("resourceClaimTemplates", "[]"),
        of_template("resourceSharing", "[]"),
    ];
    vec![
        (Rule::CliqueComposition, When::Update, word(&others(CLIQUES), "spec.template.cliques")),
        (Rule::CliqueOrder, When::Update, word(&order, "spec.template.cliques")),
        (Rule::GroupComposition, When::Update, word(&others(GROUPS), "spec.template.podCliqueScalingGroups")),
        (Rule::Immutable, When::Update, word(&immutable.join(" || "), "spec.template")),
    ]
}

fn table() -> Vec<(Rule, When, String)> {
    [of_cliques(), of_groups(), of_claims(), of_topology(), of_fabrics(), of_changes()].concat()
}

/// The rules that the policy has, by name.
pub fn covered() -> Vec<&'static str> {
    table().iter().map(|(rule, ..)| rule.name()).collect()
}

/// The rule as a variable, for what is wrong that was not wrong before, and as a validation of it.
fn rule((rule, when, expression): &(Rule, When, String)) -> (Value, Value) {
    let name = rule.name().replace('-', "_");
    let of = |object: &str| format!("({})", expression.replace('@', object));
    let wrong = match when {
        When::Always => format!(
            "oldObject == null ? {} : {}.filter(name, !(name in {}))",
            of("object"),
            of("object"),
            of("oldObject")
        ),
        When::Creation => format!("oldObject == null ? {} : []", of("object")),
        When::Update => format!("oldObject == null ? [] : {}", of("object")),
    };
    let message = format!("'{}: {} See ' + variables.{name}.join(', ')", rule.name(), rule.says().replace('\'', r"\'"));
    let validation = json!({
        "expression": format!("variables.{name}.size() == 0"),
        "messageExpression": message,
        "reason": "Invalid",
    });
    (json!({ "name": name, "expression": wrong }), validation)
}

/// The policy, and the binding that puts it into force.
pub fn policies() -> [Value; 2] {
    let (variables, validations): (Vec<_>, Vec<_>) = table().iter().map(rule).unzip();
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
        "metadata": { "name": NAME, "annotations": { "grove.io/covered-rules": covered().join(" ") } },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["grove.io"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["podcliquesets"],
            }] },
            "matchConditions": [
                { "name": "not-terminating", "expression": "!has(object.metadata.deletionTimestamp)" },
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
