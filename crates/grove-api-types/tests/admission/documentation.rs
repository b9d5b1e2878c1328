//! The page that tells users the rules, made from the rows.

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use grove_api_types::admission::Rule;
use grove_test_support::rows::{self, FILES, On, Row, managed, patches, scales};
use serde_json::Value;

const INTRODUCTION: &str = "# Admission

What is filled in and what is refused when sets and topologies are created or changed. All of it is functions of the object, of
what it was before, and of facts about the cluster: `crates/grove-api-types/src/admission`. The rows below are tests; this page is
made from them.

An answer names every mistake at once, each with the field, its value and what to do, in the form that Kubernetes has for it; several
are joined as `[first, second]`. Warnings are told and nothing is refused for them.

- **Not judged** are objects that are being deleted, and updates that change neither the spec nor a label or annotation that a rule
  is about (`grove.io/auto-mnnvl`, `grove.io/mnnvl-group`, `grove.io/topology-name`, `kai.scheduler/queue`,
  `scheduling.grove.io/volcano-queue`). So the removal of a finalizer always passes.
- **What is stored can be changed elsewhere.** A mistake that the stored object has already, because it is older than the rule or
  because the cluster has changed, keeps nobody from changing another field.
- Where the definition of the kind says the same (its schema or a rule in CEL), the API server refuses first and in its own words;
  those rows are marked *definition*, *definition on update* where it is the change that it refuses, and *Kubernetes* where it is a
  rule of Kubernetes itself. They hold when the webhook is down, too. The words below are the webhook's, which are heard from an API
  server with an older definition.
- Clusters without the webhook can have what Kubernetes can check of the rest as a `ValidatingAdmissionPolicy`:
  `deploy/components/admission-policy`. [Which rules that are](#without-the-webhooks) its annotation `grove.io/covered-rules` names, too.
- An answer is never longer than can be carried: after a hundred errors or sixteen kilobytes the others are counted.

The column *source*: V, T, U and D are the numbered rules of the wire format's admission (of the Go operator at fcc3b3bb), `wire` and
`behaviour` the sections of its description; MNNVL, TAS, GREP-369 and GREP-390 the designs of the features; *ours* is what Grove adds
or says otherwise.
Paths are the real ones: where the wire format's texts name a field that does not exist (`podSpec.spec.nodeName`,
`schedulerTopologyReferences`) or leave out the index of an item, these do not.
";

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn code(texts: &[String]) -> String {
    texts.iter().map(|text| format!("`{}`", cell(text).replace('`', "'"))).collect::<Vec<_>>().join("<br>")
}

fn answer(refused: &[String], warned: &[String]) -> String {
    let warned: Vec<_> = warned.iter().map(|text| format!("warning: {text}")).collect();
    let told: Vec<_> = refused.iter().chain(&warned).cloned().collect();
    if told.is_empty() { "accepted".to_owned() } else { code(&told) }
}

fn when(row: &Row) -> String {
    let on = match row.on {
        On::Both => "create, update",
        On::Create => "create",
        On::Update => "update",
    };
    let first = match (row.definition.is_empty(), row.definition_on_update.is_empty()) {
        (false, _) if row.kubernetes => "; Kubernetes",
        (false, _) => "; definition",
        (true, false) => "; definition on update",
        (true, true) => "",
    };
    [on, first].concat()
}

fn of_file(page: &mut String, rows: &[Row], title: &str) {
    let told: BTreeSet<&str> = rows.iter().map(|row| row.rule.as_str()).collect();
    write!(page, "\n## {title}\n\n").expect("a text takes more");
    for rule in Rule::ALL.iter().filter(|rule| told.contains(rule.name())) {
        writeln!(page, "- `{}`: {}", rule.name(), rule.description()).expect("a text takes more");
    }
    *page += "\n| rule | case | on | answer | source |\n|---|---|---|---|---|\n";
    for row in rows {
        let (rule, case, source) = (&row.rule, cell(&row.case), &row.source);
        let told = if row.unreadable { &row.definition } else { &row.refused };
        let also = row.also_on_update.iter().map(|text| format!("on update also: {text}"));
        let told: Vec<_> = told.iter().cloned().chain(also).collect();
        let (when, answer) = (when(row), answer(&told, &row.warned));
        writeln!(page, "| `{rule}` | {case} | {when} | {answer} | {source} |").expect("a text takes more");
    }
}

fn of_scales(page: &mut String) {
    *page += "\n## The scale subresource\n\nOf a set the rules of a change hold. A scaling group or a clique is counted together with its set, as that is created. Warned \
        is only about what the number changes.\n\n| what | from | to | `minAvailable` | case | answer | source |\n|---|---|---|---|---|---|---|\n";
    for row in scales() {
        let least = row.min_available.map_or(String::new(), |least| least.to_string());
        let (what, from, to, case) = (&row.of, row.from, row.to, cell(&row.case));
        let (answer, source) = (answer(&row.refused, &row.warned), &row.source);
        writeln!(page, "| {what} | {from} | {to} | {least} | {case} | {answer} | {source} |")
            .expect("a text takes more");
    }
}

fn of_patches(page: &mut String) {
    *page += "\n## Defaults\n\nThe smallest JSON patch; what is not named stays as it was sent, fields that nobody knows included. A namespace is never \
        filled in, since the API server does that before it asks.\n\n| case | on | patch | source |\n|---|---|---|---|\n";
    for row in patches() {
        let operations: Vec<_> = row.patch.iter().map(ToString::to_string).collect();
        let when = if row.before.is_some() { "update" } else { "create" };
        let patch = if operations.is_empty() { "nothing".to_owned() } else { code(&operations) };
        writeln!(page, "| {} | {when} | {patch} | {} |", cell(&row.case), row.source).expect("a text takes more");
    }
}

fn of_managed(page: &mut String) {
    *page += "\n## What Grove manages\n\nWith `authorizer.enabled`, only Grove's accounts, the exempt ones and the stock controllers of Kubernetes may change what \
        belongs to a set. Everybody may delete pods and ComputeDomains (whose finalizer holds them), take finalizers away, and change of claims and \
        domains what is not Grove's.\n\n| who | does | what | case | answer | source |\n|---|---|---|---|---|---|\n";
    for row in managed() {
        let told: Vec<_> = row.denied.iter().cloned().collect();
        let answer = answer(&told, &row.warned);
        let (user, operation, kind, case) = (&row.user, &row.operation, &row.kind, cell(&row.case));
        let source = &row.source;
        writeln!(page, "| `{user}` | {operation} | {kind} | {case} | {answer} | {source} |")
            .expect("a text takes more");
    }
}

/// The rules that the policy says it covers.
fn of_policy() -> BTreeSet<String> {
    let text = include_str!("../../../../deploy/components/admission-policy/policies.yaml");
    let policy = text.split("---\n").nth(1).expect("a policy");
    let policy: Value = serde_saphyr::from_str(policy).expect("YAML");
    let covered = policy["metadata"]["annotations"]["grove.io/covered-rules"].as_str().expect("an annotation");
    covered.split_whitespace().map(str::to_owned).collect()
}

fn without_webhooks(page: &mut String) {
    *page += "\n## Without the webhooks\n\nWhat refuses what a rule refuses, at least in part, when webhook-server is down or not there: the definition of the kind, which \
        is always in force; the `ValidatingAdmissionPolicy` of `deploy/components/admission-policy`, where it is installed. The rest needs the \
        configuration, another object, or more than CEL can count.\n\n| rule | definition | policy |\n|---|---|---|\n";
    let rows = FILES.iter().flat_map(|(file, _)| rows::of_file(*file));
    // A definition knows no configuration: what it refuses of that rule's rows it refuses for another reason.
    let judges = |row: &Row| !row.definition.is_empty() && row.rule != Rule::TopologyEnabled.name();
    let defined: BTreeSet<String> = rows.filter(judges).map(|row| row.rule).collect();
    let covered = of_policy();
    let known: BTreeSet<String> = Rule::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    assert!(covered.is_subset(&known), "{covered:?}");
    let yes = |holds: bool| if holds { "yes" } else { "" };
    for rule in Rule::ALL.iter().map(|rule| rule.name()) {
        let (defined, covered) = (yes(defined.contains(rule)), yes(covered.contains(rule)));
        writeln!(page, "| `{rule}` | {defined} | {covered} |").expect("a text takes more");
    }
}

#[test]
fn the_page_tells_every_row() {
    let mut page = INTRODUCTION.to_owned();
    for (file, title) in FILES {
        of_file(&mut page, &rows::of_file(file), title);
    }
    of_scales(&mut page);
    of_patches(&mut page);
    of_managed(&mut page);
    without_webhooks(&mut page);
    expect_file!["../../../../docs/admission.md"].assert_eq(&page);
}
