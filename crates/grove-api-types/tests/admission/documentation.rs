//! Generates the documentation page of the rules from the rows.

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use grove_api_types::admission::Rule;
use grove_test_support::rows::{self, FILES, Row, managed, patches, scales};
use serde_json::Value;

const INTRODUCTION: &str = "# Admission

This page lists the defaults that the webhook sets, and the rules by which admission denies creates and updates of sets and
topologies. Both are functions of the object, the old object and facts about the cluster, in `crates/grove-api-types/src/admission`.
A test generates this page from its cases, which are in `crates/grove-api-types/tests/admission`; it shows one of them for each rule.

A denial lists all errors. Each error contains the field, its value and the remedy, in the format of Kubernetes. Several errors are
joined as `[first, second]`. A warning does not deny a request.

- **Exempt requests.** Admission validates neither terminating objects nor updates that change neither the spec nor a label or
  annotation with a rule (`grove.io/auto-mnnvl`, `grove.io/mnnvl-group`, `grove.io/topology-name`, `kai.scheduler/queue`,
  `scheduling.grove.io/volcano-queue`). Therefore it always allows the removal of a finalizer.
- **Ratcheting.** An update is not denied for an error that the stored object already has, for example because the object is older
  than the rule, or because the cluster changed.
- **Rules without the webhook.** The column *also* shows what else enforces the rule, completely or in part: the schema and the CEL rules of
  the *CRD*, which the API server checks first, with its own messages, and the optional `ValidatingAdmissionPolicy` (*policy*) of
  `deploy/components/admission-policy` for clusters without the webhook. The other rules need the configuration or another object, or
  are too expensive for CEL.
- **Limits.** A denial contains at most 100 errors and about 16 KiB, and the number of the other errors.

The column *source* is the origin of the rule. V, T, U and D are the numbered rules of admission in the Go operator at fcc3b3bb;
`wire` and `behaviour` are sections of its description. MNNVL, TAS, GREP-369 and GREP-390 are designs of the Go project. *ours* marks
rules that Grove adds or changes.

Messages contain the actual path of the field. The Go operator uses paths of fields that do not exist (`podSpec.spec.nodeName`,
`schedulerTopologyReferences`), or paths without the index of an item.
";

/// A write to a string cannot fail.
const WRITE: &str = "a write to a string";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text).replace('`', "'"))
}

fn message(errors: &[String], warnings: &[String]) -> Option<String> {
    errors.first().cloned().or_else(|| Some(format!("warning: {}", warnings.first()?)))
}

/// The last part of a message, without quoted values and numbers: it is the same in all messages of one kind.
fn without_values(message: &str) -> String {
    let last = message.rsplit(": ").next().unwrap_or(message);
    let unquoted = last.split(['"', '\'']).step_by(2).collect::<String>();
    unquoted.chars().filter(|char| !char.is_ascii_digit()).collect()
}

fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().collect::<Vec<_>>().join(", ")
}

/// The distinct sources of rows, for example of `V1; ours` and `V1, V2`.
fn sources<'a>(sources: impl IntoIterator<Item = &'a str>) -> String {
    let sources: BTreeSet<_> = sources.into_iter().flat_map(|source| source.split([',', ';'])).map(str::trim).collect();
    joined(sources)
}

/// The rules that the page does not have yet, with an example of the message of each one.
fn add_file(
    page: &mut String,
    rows: &[Row],
    title: &str,
    shown: &mut BTreeSet<&'static str>,
    policy_rules: &BTreeSet<String>,
) {
    let of_rule = |rule: &Rule| rows.iter().filter(|row| row.rule == rule.name()).collect::<Vec<_>>();
    let rules = Rule::ALL.iter().filter(|rule| !of_rule(rule).is_empty() && shown.insert(rule.name()));
    for (position, rule) in rules.enumerate() {
        if position == 0 {
            write!(page, "\n## {title}\n\n| rule | meaning | also | example | source |\n|---|---|---|---|---|\n")
                .expect(WRITE);
        }
        let (name, meaning, rows) = (rule.name(), rule.description(), of_rule(rule));
        let mut all_rows = rows::rows().iter().filter(|row| row.rule == name);
        // A CRD cannot depend on the configuration. It rejects rows of that rule for another reason.
        let in_crd = *rule != Rule::TopologyEnabled && all_rows.any(|row| !row.crd_errors.is_empty());
        let also = [(in_crd, "CRD"), (policy_rules.contains(name), "policy")];
        let also = joined(also.into_iter().filter(|(is_enforced, _)| *is_enforced).map(|(_, by)| by));
        let example = rows.iter().find_map(|row| {
            let errors = if row.schema_only { &row.crd_errors } else { &row.errors };
            message(errors, &[]).or_else(|| message(&row.errors_on_update, &row.warnings))
        });
        let example = example.map_or(String::new(), |text| code(&text));
        let source = sources(rows.iter().map(|row| row.source.as_str()));
        writeln!(page, "| `{name}` | {meaning} | {also} | {example} | {source} |").expect(WRITE);
    }
}

fn add_scales(page: &mut String) {
    *page += "\n## The scale subresource\n\nA scale of a set is validated like an update of its replicas. A scale of a scaling group or a clique counts the objects and the \
        startup dependencies of the whole set; the other groups and cliques count with the replicas of the template. A scale of a clique also counts its gang with the replicas of \
        the existing cliques; if the gang of the template is larger than a gang may be, its size is the limit. Warnings are only about values that the scale changes.\n\n| object | case | example | source |\n|---|---|---|---|\n";
    let mut shown = BTreeSet::new();
    for row in scales() {
        let Some(message) = message(&row.errors, &row.warnings) else { continue };
        if shown.insert(without_values(&message)) {
            writeln!(page, "| {} | {} | {} | {} |", row.target, cell(&row.case), code(&message), row.source)
                .expect(WRITE);
        }
    }
}

fn add_patches(page: &mut String) {
    *page += "\n## Defaults\n\nThe webhook sets these fields of a set, a `PodClique` or a topology if they are absent. It changes no other field, preserves unknown fields, and never sets the \
        namespace, because the API server does that before it calls the webhook.\n\n| field | case | value | source |\n|---|---|---|---|\n";
    let mut shown = BTreeSet::new();
    for row in patches() {
        for operation in &row.patch {
            let path = operation["path"].as_str().expect("a path").replace("~1", "/");
            let parts: Vec<_> = path.split('/').filter(|part| part.parse::<u32>().is_err()).collect();
            let field = parts.join("/");
            if shown.insert((field.clone(), operation["op"].to_string(), operation["value"].is_null())) {
                let value = operation.get("value").map_or("removed".to_owned(), |value| code(&value.to_string()));
                writeln!(page, "| `{field}` | {} | {value} | {} |", cell(&row.case), row.source).expect(WRITE);
            }
        }
    }
}

fn add_managed(page: &mut String) {
    *page += "\n## Managed objects\n\nIf `authorizer.enabled` is set, only these users may change managed objects: the `ServiceAccounts` of Grove, the exempt users of the \
        configuration, and the built-in controllers of Kubernetes. Exceptions for all users: they may delete pods and ComputeDomains (which have a finalizer), remove \
        finalizers, and change fields of ResourceClaims and ComputeDomains that Grove does not manage.\n\n| operation | kind | message | source |\n|---|---|---|---|\n";
    let mut shown = BTreeSet::new();
    for row in managed() {
        let Some(message) = message(row.denied.as_slice(), &row.warnings) else { continue };
        if shown.insert(message.clone()) {
            writeln!(page, "| {} | {} | {} | {} |", row.operation, row.kind, code(&message), row.source).expect(WRITE);
        }
    }
}

/// The rules that the annotation of the policy lists.
fn policy_rules() -> BTreeSet<String> {
    let text = include_str!("../../../../deploy/components/admission-policy/policies.yaml");
    let policy = text.split("---\n").nth(1).expect("a policy");
    let policy: Value = serde_saphyr::from_str(policy).expect("YAML");
    let covered = policy["metadata"]["annotations"]["grove.io/covered-rules"].as_str().expect("an annotation");
    let covered: BTreeSet<_> = covered.split_whitespace().map(str::to_owned).collect();
    let all: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    assert!(covered.is_subset(&all), "{covered:?}");
    covered
}

#[test]
fn the_page_contains_each_rule() {
    let (mut page, mut shown, policy_rules) = (INTRODUCTION.to_owned(), BTreeSet::new(), policy_rules());
    for (file, title) in FILES {
        add_file(&mut page, &rows::of_file(file), title, &mut shown, &policy_rules);
    }
    let missing: Vec<_> = Rule::ALL.iter().map(|rule| rule.name()).filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, ["scale"], "of rules without rows; the rows of `scale` are those of the scale subresource");
    add_scales(&mut page);
    add_patches(&mut page);
    add_managed(&mut page);
    expect_file!["../../../../docs/admission.md"].assert_eq(&page);
}
