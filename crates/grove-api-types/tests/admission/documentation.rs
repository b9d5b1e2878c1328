//! Generates the documentation page of the rules from the rows.

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use grove_api_types::admission::Rule;
use grove_test_support::rows::{self, FILES, Operations, Row, managed, patches, scales};
use serde_json::Value;

const INTRODUCTION: &str = "# Admission

This page lists the defaults that the webhook sets, and the rules by which admission denies creates and updates of sets and
topologies. Both are functions of the object, the old object and facts about the cluster, in `crates/grove-api-types/src/admission`.
Each row is a test case, and a test generates this page. The tests have further cases: those that are allowed, and those with the same
message as another row.

A denial lists all errors. Each error contains the field, its value and the remedy, in the format of Kubernetes. Several errors are
joined as `[first, second]`. A warning does not deny a request.

- **Exempt requests.** Admission validates neither terminating objects nor updates that change neither the spec nor a label or
  annotation with a rule (`grove.io/auto-mnnvl`, `grove.io/mnnvl-group`, `grove.io/topology-name`, `kai.scheduler/queue`,
  `scheduling.grove.io/volcano-queue`). Therefore it always allows the removal of a finalizer.
- **Ratcheting.** An update is not denied for an error that the stored object already has, for example because the object is older
  than the rule, or because the cluster changed.
- **CRD rules.** The schema or a CEL rule of the CRD contains some rules too. The API server checks them first and uses its own
  messages. The column *operations* marks these rows with *CRD*, with *CRD on update* if only the update violates the CRD, and with
  *Kubernetes* for a rule of Kubernetes itself. These rules also apply when no webhook is available. The column *result* has the
  message of the webhook, which users see if an older CRD without the rule is installed.
- **Admission policy.** For clusters without the webhook, the component `deploy/components/admission-policy` is a
  `ValidatingAdmissionPolicy` with further rules. [Rules without the webhooks](#rules-without-the-webhooks) and the annotation
  `grove.io/covered-rules` of the policy list them.
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

fn code(texts: &[String]) -> String {
    texts.iter().map(|text| format!("`{}`", cell(text).replace('`', "'"))).collect::<Vec<_>>().join("<br>")
}

fn result(errors: &[String], warnings: &[String]) -> String {
    let warnings = warnings.iter().map(|text| format!("warning: {text}"));
    let messages: Vec<_> = errors.iter().cloned().chain(warnings).collect();
    if messages.is_empty() { "allowed".to_owned() } else { code(&messages) }
}

/// The last part of a message, without quoted values and numbers: it is the same in all messages of one kind.
fn without_values(message: &str) -> String {
    let last = message.rsplit(": ").next().unwrap_or(message);
    let unquoted = last.split(['"', '\'']).step_by(2).collect::<String>();
    unquoted.chars().filter(|char| !char.is_ascii_digit()).collect()
}

fn operations(row: &Row) -> String {
    let operations = match row.operations {
        Operations::CreateAndUpdate => "create, update",
        Operations::Create => "create",
        Operations::Update => "update",
    };
    let rejected_by = match (row.crd_errors.is_empty(), row.crd_errors_on_update.is_empty()) {
        (false, _) if row.kubernetes_rule => "; Kubernetes",
        (false, _) => "; CRD",
        (true, false) => "; CRD on update",
        (true, true) => "",
    };
    [operations, rejected_by].concat()
}

fn add_file(page: &mut String, rows: &[Row], title: &str) {
    let rules: BTreeSet<&str> = rows.iter().map(|row| row.rule.as_str()).collect();
    write!(page, "\n## {title}\n\n").expect(WRITE);
    for rule in Rule::ALL.iter().filter(|rule| rules.contains(rule.name())) {
        writeln!(page, "- `{}`: {}", rule.name(), rule.description()).expect(WRITE);
    }
    *page += "\n| rule | case | operations | result | source |\n|---|---|---|---|---|\n";
    let mut shown = BTreeSet::new();
    let is_new = |row: &&Row| {
        let message = [&row.errors, &row.crd_errors, &row.errors_on_update, &row.warnings].into_iter().flatten().next();
        message.is_some_and(|message| shown.insert((row.rule.clone(), without_values(message))))
    };
    for row in rows.iter().filter(is_new) {
        let (rule, case, source) = (&row.rule, cell(&row.case), &row.source);
        let errors = if row.schema_only { &row.crd_errors } else { &row.errors };
        let on_update = row.errors_on_update.iter().map(|text| format!("on update also: {text}"));
        let errors: Vec<_> = errors.iter().cloned().chain(on_update).collect();
        let (operations, result) = (operations(row), result(&errors, &row.warnings));
        writeln!(page, "| `{rule}` | {case} | {operations} | {result} | {source} |").expect(WRITE);
    }
}

fn add_scales(page: &mut String) {
    *page += "\n## The scale subresource\n\nA scale of a set is validated like an update of its replicas. A scale of a scaling group or a clique counts the objects and the \
        startup dependencies of the whole set; the other groups and cliques count with the replicas of the template. A scale of a clique also counts its gang with the replicas of \
        the existing cliques; if the gang of the template is larger than a gang may be, its size is the limit. Warnings are only about values that the scale changes.\n\n| object | from | to | `minAvailable` | case | result | source |\n|---|---|---|---|---|---|---|\n";
    for row in scales() {
        let min_available = row.min_available.map_or(String::new(), |min_available| min_available.to_string());
        let (target, from, to, case) = (&row.target, row.from, row.to, cell(&row.case));
        let (result, source) = (result(&row.errors, &row.warnings), &row.source);
        writeln!(page, "| {target} | {from} | {to} | {min_available} | {case} | {result} | {source} |").expect(WRITE);
    }
}

fn add_patches(page: &mut String) {
    *page += "\n## Defaults\n\nThe table contains the JSON patch of each case. The patch changes no other field, and preserves unknown fields. It never sets the \
        namespace, because the API server does that before it calls the webhook.\n\n| case | operation | patch | source |\n|---|---|---|---|\n";
    for row in patches() {
        let patch: Vec<_> = row.patch.iter().map(ToString::to_string).collect();
        let operation = if row.old_changes.is_some() { "update" } else { "create" };
        let patch = if patch.is_empty() { "none".to_owned() } else { code(&patch) };
        writeln!(page, "| {} | {operation} | {patch} | {} |", cell(&row.case), row.source).expect(WRITE);
    }
}

fn add_managed(page: &mut String) {
    *page += "\n## Managed objects\n\nIf `authorizer.enabled` is set, only these users may change managed objects: the `ServiceAccounts` of Grove, the exempt users of the \
        configuration, and the built-in controllers of Kubernetes. Exceptions for all users: they may delete pods and ComputeDomains (which have a finalizer), remove \
        finalizers, and change fields of ResourceClaims and ComputeDomains that Grove does not manage.\n\n| user | operation | kind | case | result | source |\n|---|---|---|---|---|---|\n";
    for row in managed() {
        let result = result(row.denied.as_slice(), &row.warnings);
        let (user, operation, kind, case) = (&row.user, &row.operation, &row.kind, cell(&row.case));
        writeln!(page, "| `{user}` | {operation} | {kind} | {case} | {result} | {} |", row.source).expect(WRITE);
    }
}

/// The rules that the annotation of the policy lists.
fn policy_rules() -> BTreeSet<String> {
    let text = include_str!("../../../../deploy/components/admission-policy/policies.yaml");
    let policy = text.split("---\n").nth(1).expect("a policy");
    let policy: Value = serde_saphyr::from_str(policy).expect("YAML");
    let covered = policy["metadata"]["annotations"]["grove.io/covered-rules"].as_str().expect("an annotation");
    covered.split_whitespace().map(str::to_owned).collect()
}

fn add_rules_without_webhooks(page: &mut String) {
    *page += "\n## Rules without the webhooks\n\nThe table shows what enforces each rule, completely or in part, when no webhook is available: the CRD, which is always installed, and the \
        `ValidatingAdmissionPolicy` of `deploy/components/admission-policy`, which is optional. The other rules need the configuration or another object, or are too \
        expensive for CEL.\n\n| rule | CRD | policy |\n|---|---|---|\n";
    let rows = FILES.iter().flat_map(|(file, _)| rows::of_file(*file));
    // A CRD cannot depend on the configuration. It rejects rows of that rule for another reason.
    let is_rejected = |row: &Row| !row.crd_errors.is_empty() && row.rule != Rule::TopologyEnabled.name();
    let crd_rules: BTreeSet<String> = rows.filter(is_rejected).map(|row| row.rule).collect();
    let policy_rules = policy_rules();
    let all: BTreeSet<String> = Rule::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    assert!(policy_rules.is_subset(&all), "{policy_rules:?}");
    let yes = |is_enforced: bool| if is_enforced { "yes" } else { "" };
    for rule in Rule::ALL.iter().map(|rule| rule.name()) {
        let (crd, policy) = (yes(crd_rules.contains(rule)), yes(policy_rules.contains(rule)));
        writeln!(page, "| `{rule}` | {crd} | {policy} |").expect(WRITE);
    }
}

#[test]
fn the_page_contains_each_message() {
    let mut page = INTRODUCTION.to_owned();
    for (file, title) in FILES {
        add_file(&mut page, &rows::of_file(file), title);
    }
    add_scales(&mut page);
    add_patches(&mut page);
    add_managed(&mut page);
    add_rules_without_webhooks(&mut page);
    expect_file!["../../../../docs/admission.md"].assert_eq(&page);
}
