//! No rule goes without rows: each is shown to refuse and to accept, on creation and on update.

use std::collections::BTreeSet;

use grove_api_types::admission::Rule;
use grove_test_support::rows::{On, rows, scales};

const CREATE: &str = "create";
const UPDATE: &str = "update";
const REFUSES: &str = "refuses";
const ACCEPTS: &str = "accepts";

/// A rule, what is done, and what becomes of it.
type Shown = (&'static str, &'static str, &'static str);

/// What no row can show: rules, what is done, what becomes of it, and why not.
const CANNOT_BE: [(&[Rule], &str, &[&str], &str); 9] = [
    (
        &[Rule::Immutable, Rule::MnnvlImmutable, Rule::CliqueComposition, Rule::CliqueOrder, Rule::GroupComposition],
        CREATE,
        &[REFUSES, ACCEPTS],
        "they compare with what was there before",
    ),
    (&[Rule::LevelsInUse], CREATE, &[REFUSES, ACCEPTS], "nobody uses levels that are not there yet"),
    (&[Rule::TopologyFrozen], CREATE, &[REFUSES, ACCEPTS], "no pod of a new set is scheduled"),
    (&[Rule::TopologyLabel], CREATE, &[REFUSES], "on a new set the label is written over"),
    (&[Rule::Scale], CREATE, &[REFUSES, ACCEPTS], "what is scaled exists"),
    (&[Rule::SetName, Rule::TopologyIdentity], UPDATE, &[REFUSES], "the name of an object never changes"),
    (&[Rule::PodPlacement], UPDATE, &[REFUSES], "it is for new sets; later it is warned about"),
    (&[Rule::AutoMnnvl, Rule::MnnvlGroup], UPDATE, &[REFUSES], "another word is refused because it is another one"),
    (&[Rule::MnnvlEnabled], UPDATE, &[REFUSES], "nobody can ask for a fabric later, whether the feature is on or off"),
];

fn cannot_be() -> BTreeSet<Shown> {
    let each = CANNOT_BE.iter().flat_map(|(rules, when, what, _)| {
        rules.iter().flat_map(move |rule| what.iter().map(move |what| (rule.name(), *when, *what)))
    });
    each.collect()
}

fn shown() -> BTreeSet<Shown> {
    let named = |name: &str| Rule::ALL.iter().map(|rule| rule.name()).find(|rule| *rule == name).expect("a rule");
    let mut shown = BTreeSet::new();
    for row in rows().iter().filter(|row| !row.unreadable) {
        for (when, not) in [(CREATE, On::Update), (UPDATE, On::Create)] {
            let is_for_another_reason = row.refused.is_empty() && when == UPDATE && !row.also_on_update.is_empty();
            if row.on != not && !is_for_another_reason {
                let what = if row.refused.is_empty() { ACCEPTS } else { REFUSES };
                shown.insert((named(&row.rule), when, what));
            }
        }
    }
    let of_scale = |refused: &[String]| if refused.is_empty() { ACCEPTS } else { REFUSES };
    shown.extend(scales().iter().map(|row| (Rule::Scale.name(), UPDATE, of_scale(&row.refused))));
    shown
}

#[test]
fn every_rule_is_shown_to_refuse_and_to_accept_on_create_and_on_update() {
    let (shown, cannot_be) = (shown(), cannot_be());
    let both: Vec<_> = shown.intersection(&cannot_be).collect();
    assert!(both.is_empty(), "shown, although it cannot be: {both:?}");
    let all = Rule::ALL.iter().flat_map(|rule| {
        [CREATE, UPDATE].into_iter().flat_map(|when| [REFUSES, ACCEPTS].map(|what| (rule.name(), when, what)))
    });
    let missing: Vec<_> = all.filter(|it| !shown.contains(it) && !cannot_be.contains(it)).collect();
    assert!(missing.is_empty(), "shown by no row: {missing:?}");
}
