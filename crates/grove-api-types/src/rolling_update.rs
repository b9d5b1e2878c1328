//! Which units of a rolling update are replaced next. The rule is the same at each level: for the replicas of a set, for the replicas of a
//! scaling group, and for the pods of a clique outside of scaling groups.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::annotation_value::{self, UnreadableAnnotation};
use crate::duration::GoDuration;
use crate::labels::UPDATE_BOUNDS;
use crate::v1alpha1::{PodClique, PodCliqueSet, RollingUpdate};

/// The bounds and controls of the update of one clique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateBounds {
    /// The bounds in the template of the clique; those of a clique of a scaling group are empty.
    #[serde(flatten)]
    pub of_clique: RollingUpdate,
    /// How many seconds a new pod must be ready before the update counts it as available.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_ready_seconds: i32,
    /// Whether no further pod is replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl UpdateBounds {
    /// Those of a clique whose template has these bounds.
    pub fn new(set: &PodCliqueSet, of_clique: Option<&RollingUpdate>) -> Self {
        let of_set = set.spec.rolling_update();
        Self {
            of_clique: of_clique.cloned().unwrap_or_default(),
            min_ready_seconds: of_set.min_ready_seconds.unwrap_or(0),
            paused: of_set.paused,
        }
    }

    /// Those in the annotation of a clique.
    ///
    /// # Errors
    /// If the annotation cannot be read.
    pub fn of(clique: &PodClique) -> Result<Self, UnreadableAnnotation> {
        let text = clique.annotations().get(UPDATE_BOUNDS);
        text.map_or_else(|| Ok(Self::default()), |text| annotation_value::decode(UPDATE_BOUNDS, text))
    }

    /// The value of the annotation; `None` if all values are the defaults.
    pub fn annotation(&self) -> Option<String> {
        (*self != Self::default()).then(|| annotation_value::encode(self))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// The number of units that may be unavailable because of the update, from `maxUnavailable`: a positive number, or a percentage of the units,
/// rounded down. It is at least 1, which is also the default, and the result for a value that admission denies.
pub fn max_unavailable(value: Option<&Value>, units: i32) -> i32 {
    let number = match value.and_then(MaxUnavailable::parse) {
        Some(MaxUnavailable::Units(number)) => number,
        Some(MaxUnavailable::Percentage(percentage)) => i64::from(units.max(0)) * percentage / 100,
        None => 1,
    };
    i32::try_from(number).unwrap_or(i32::MAX).max(1)
}

/// Whether the value is a positive number, or a percentage from 1% to 100%.
pub fn is_max_unavailable(value: &Value) -> bool {
    MaxUnavailable::parse(value).is_some()
}

/// A valid value of `maxUnavailable`.
enum MaxUnavailable {
    Units(i64),
    Percentage(i64),
}

impl MaxUnavailable {
    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().filter(|number| *number > 0).map(Self::Units),
            Value::String(text) => {
                let digits =
                    text.strip_suffix('%').filter(|digits| digits.starts_with(|c| ('1'..='9').contains(&c)))?;
                digits.parse().ok().filter(|percentage| *percentage <= 100).map(Self::Percentage)
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The time at which an update without further progress exceeds its deadline; `None` without a deadline.
pub fn deadline(last_progressed_at: Timestamp, progress_deadline: Option<&GoDuration>) -> Option<Timestamp> {
    let duration = progress_deadline?.value().filter(|duration| !duration.is_zero())?;
    last_progressed_at.checked_add(SignedDuration::try_from(duration).ok()?).ok()
}

/// How much a unit serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is available, and is not being replaced.
    Full,
    /// A part of it is available. Only replicas of sets have parts.
    Partial,
    /// Nothing of it is available.
    None,
}

/// A unit of an update: one desired replica or pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its index.
    pub index: i32,
    /// Whether it was built from another template. A unit that does not exist is not outdated: it is created from the current template.
    pub is_outdated: bool,
    /// How much it serves.
    pub availability: Availability,
}

/// How many units may be down at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of units that may be unavailable because of the update.
    pub max_unavailable: i32,
    /// The number of units that stay available, if there is an alternative. If all units are needed, one is replaced at a time.
    pub min_available: i32,
}

/// The outdated units to replace now, by index. Of equal ones, those that come first in `units` are replaced first.
///
/// - Units of which nothing is available are replaced at once: that costs no availability, and an update to a template that never starts does not
///   block the update that corrects it.
/// - Other units are replaced as far as the bounds allow, those that are partly available first. Every unit that has been replaced and is not
///   available yet counts against both bounds, so the update waits until it is.
pub fn next_units(units: &[Unit], bounds: Bounds) -> Vec<i32> {
    let outdated = |availability: Availability| {
        units.iter().filter(move |unit| unit.is_outdated && unit.availability == availability)
    };
    let total = count(units.iter());
    let available = count(units.iter().filter(|unit| unit.availability == Availability::Full));
    let new = units.iter().filter(|unit| !unit.is_outdated && unit.availability != Availability::Full);
    let in_turn = count(new) + count(outdated(Availability::None));
    let partial = count(outdated(Availability::Partial));
    let budget = bounds.max_unavailable - in_turn;
    let floor = bounds.min_available.min(total - 1).max(0);
    let of_full = (budget - partial).min(available - floor);
    let first = |units: i32| usize::try_from(units).unwrap_or(0);
    let next = outdated(Availability::None)
        .chain(outdated(Availability::Partial).take(first(budget)))
        .chain(outdated(Availability::Full).take(first(of_full)));
    let mut next: Vec<i32> = next.map(|unit| unit.index).collect();
    next.sort_unstable();
    next
}

fn count<'a>(units: impl Iterator<Item = &'a Unit>) -> i32 {
    i32::try_from(units.count()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `O` is outdated and available, `p` outdated and partly available, `o` outdated and not available; `N` is new and available, `n` new and not
    /// available.
    #[track_caller]
    fn check(units: &str, (max_unavailable, min_available): (i32, i32), expected: &[i32]) {
        let unit = |(index, state): (usize, char)| Unit {
            index: i32::try_from(index).unwrap(),
            is_outdated: !state.eq_ignore_ascii_case(&'n'),
            availability: match state {
                'O' | 'N' => Availability::Full,
                'p' => Availability::Partial,
                _ => Availability::None,
            },
        };
        let units: Vec<_> = units.chars().enumerate().map(unit).collect();
        assert_eq!(next_units(&units, Bounds { max_unavailable, min_available }), expected, "{units:?}");
    }

    #[test]
    fn a_bound_is_a_number_or_a_percentage_of_the_units() {
        for (value, units, expected) in [
            (json!(2), 10, 2),
            (json!("30%"), 10, 3),
            (json!("30%"), 9, 2),
            (json!("1%"), 10, 1),
            (json!("100%"), 4, 4),
            (json!(5_000_000_000_i64), 10, i32::MAX),
        ] {
            assert!(is_max_unavailable(&value), "{value}");
            assert_eq!(max_unavailable(Some(&value), units), expected, "{value} of {units}");
        }
        for value in [
            json!(0),
            json!(-1),
            json!(1.5),
            json!("0%"),
            json!("101%"),
            json!("2"),
            json!("+3%"),
            json!("x%"),
            json!(null),
        ] {
            assert!(!is_max_unavailable(&value), "{value}");
            assert_eq!(max_unavailable(Some(&value), 10), 1, "{value}");
        }
        assert_eq!(max_unavailable(None, 10), 1);
    }

    #[test]
    fn the_bounds_of_a_clique_are_in_its_annotation() {
        let set = |strategy: Value| -> PodCliqueSet {
            let spec = json!({ "updateStrategy": strategy, "template": { "cliques": [] } });
            serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
        };
        let of_clique: RollingUpdate =
            serde_json::from_value(json!({ "maxUnavailable": "30%", "progressDeadline": "10m" })).unwrap();
        let controls = json!({ "type": "RollingRecreate", "rollingUpdate": { "paused": true, "minReadySeconds": 5, "partition": 2 } });
        let bounds = UpdateBounds::new(&set(controls), Some(&of_clique));
        let text = bounds.annotation().unwrap();
        assert_eq!(
            text,
            r#"{"v":1,"maxUnavailable":"30%","progressDeadline":"10m","minReadySeconds":5,"paused":true}"#
        );
        let read = |text: &str| {
            let annotations = json!({ UPDATE_BOUNDS: text });
            let spec = json!({ "podSpec": {} });
            UpdateBounds::of(
                &serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": spec })).unwrap(),
            )
        };
        assert_eq!(read(&text), Ok(bounds));
        assert_eq!(read("{}"), Ok(UpdateBounds::default()));
        assert!(read("[]").is_err());
        assert_eq!(UpdateBounds::new(&set(json!(null)), None).annotation(), None);
    }

    #[test]
    fn the_deadline_counts_from_the_last_progress() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let of = |text: &str| deadline(at(100), Some(&GoDuration::new(text)));
        assert_eq!(of("1m"), Some(at(160)));
        assert_eq!((of("0s"), of("soon"), of("9999999999h"), deadline(at(100), None)), (None, None, None, None));
    }

    #[test]
    fn one_unit_is_replaced_after_the_other() {
        check("OOO", (1, 1), &[0]);
        check("nOO", (1, 1), &[]);
        check("NOO", (1, 1), &[1]);
        check("NNN", (1, 1), &[]);
        check("", (1, 1), &[]);
    }

    #[test]
    fn units_that_are_not_available_are_replaced_at_once() {
        check("OoO", (1, 2), &[1]);
        check("ooo", (1, 3), &[0, 1, 2]);
        check("noO", (1, 1), &[1]);
    }

    #[test]
    fn a_unit_that_is_partly_available_is_replaced_first_and_within_the_bounds() {
        check("OpO", (1, 0), &[1]);
        check("Opp", (1, 0), &[1]);
        check("nppO", (1, 0), &[]);
        check("Opp", (3, 0), &[0, 1, 2]);
        check("opO", (1, 0), &[0]);
    }

    #[test]
    fn the_minimum_stays_available_if_there_is_an_alternative() {
        check("OOOO", (3, 2), &[0, 1]);
        check("nOOO", (3, 2), &[1]);
        check("nnOO", (3, 2), &[]);
    }

    #[test]
    fn one_unit_at_a_time_is_replaced_if_all_are_needed() {
        check("OOO", (1, 3), &[0]);
        check("OOO", (3, 3), &[0]);
        check("nOO", (3, 3), &[]);
        check("NOO", (3, 3), &[1]);
        check("O", (1, 1), &[0]);
        check("OO", (1, 5), &[0]);
    }

    #[test]
    fn several_units_are_replaced_within_the_bounds() {
        check("OOOOOO", (2, 1), &[0, 1]);
        check("nOOOOO", (2, 1), &[1]);
        check("nnOOOO", (2, 1), &[]);
        check("NnOoOO", (3, 1), &[2, 3]);
    }
}
