//! Each rule has a row that it denies and a row that it allows, on create and on update.

use std::collections::BTreeSet;

use grove_api_types::admission::Rule;
use grove_test_support::rows::{Operations, rows, scales};

const CREATE: &str = "create";
const UPDATE: &str = "update";
const DENIED: &str = "denied";
const ALLOWED: &str = "allowed";

/// A rule, an operation and a result.
type Coverage = (&'static str, &'static str, &'static str);

/// Combinations that no row can have: rules, the operation, the results, and the reason.
const IMPOSSIBLE: [(&[Rule], &str, &[&str], &str); 9] = [
    (
        &[Rule::Immutable, Rule::MnnvlImmutable, Rule::CliqueComposition, Rule::CliqueOrder, Rule::GroupComposition],
        CREATE,
        &[DENIED, ALLOWED],
        "they compare with the old object",
    ),
    (&[Rule::LevelsInUse], CREATE, &[DENIED, ALLOWED], "no set refers to a topology that does not exist"),
    (&[Rule::TopologyImmutable], CREATE, &[DENIED, ALLOWED], "no pod of a new set is scheduled"),
    (&[Rule::TopologyLabel], CREATE, &[DENIED], "the webhook overwrites the label of a new set"),
    (&[Rule::Scale], CREATE, &[DENIED, ALLOWED], "a scaled object exists"),
    (&[Rule::SetName, Rule::TopologyIdentity], UPDATE, &[DENIED], "the name of an object never changes"),
    (&[Rule::PodPlacement], UPDATE, &[DENIED], "the rule applies to new sets; an update causes a warning"),
    (&[Rule::AutoMnnvl, Rule::MnnvlGroup], UPDATE, &[DENIED], "the annotations are immutable, which is another rule"),
    (&[Rule::MnnvlEnabled], UPDATE, &[DENIED], "no update adds the annotations, whether the feature is enabled or not"),
];

fn impossible() -> BTreeSet<Coverage> {
    let each = IMPOSSIBLE.iter().flat_map(|(rules, operation, results, _)| {
        rules.iter().flat_map(move |rule| results.iter().map(move |result| (rule.name(), *operation, *result)))
    });
    each.collect()
}

fn result(errors: &[String]) -> &'static str {
    if errors.is_empty() { ALLOWED } else { DENIED }
}

fn covered() -> BTreeSet<Coverage> {
    let named = |name: &str| Rule::ALL.iter().map(|rule| rule.name()).find(|rule| *rule == name).expect("a rule");
    let mut covered = BTreeSet::new();
    for row in rows().iter().filter(|row| !row.schema_only) {
        for (operation, other) in [(CREATE, Operations::Update), (UPDATE, Operations::Create)] {
            let is_denied_by_another_rule =
                row.errors.is_empty() && operation == UPDATE && !row.errors_on_update.is_empty();
            if row.operations != other && !is_denied_by_another_rule {
                covered.insert((named(&row.rule), operation, result(&row.errors)));
            }
        }
    }
    covered.extend(scales().iter().map(|row| (Rule::Scale.name(), UPDATE, result(&row.errors))));
    covered
}

#[test]
fn each_rule_has_denied_and_allowed_rows_on_create_and_on_update() {
    let (covered, impossible) = (covered(), impossible());
    let both: Vec<_> = covered.intersection(&impossible).collect();
    assert!(both.is_empty(), "rows have combinations that are listed as impossible: {both:?}");
    let all = Rule::ALL.iter().flat_map(|rule| {
        [CREATE, UPDATE]
            .into_iter()
            .flat_map(|operation| [DENIED, ALLOWED].map(|result| (rule.name(), operation, result)))
    });
    let missing: Vec<_> = all.filter(|it| !covered.contains(it) && !impossible.contains(it)).collect();
    assert!(missing.is_empty(), "no row has the combination: {missing:?}");
}
