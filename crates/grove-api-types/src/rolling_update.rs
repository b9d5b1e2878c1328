//! Which units of a rolling update are replaced next. The rule is the same at each level: for the replicas of a set, for the replicas of a
//! scaling group, and for the pods of a clique outside of scaling groups.

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

/// The default of [`Bounds::max_unavailable`].
pub const MAX_UNAVAILABLE: i32 = 1;

/// How many units may be down at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of units that may be unavailable because of the update.
    pub max_unavailable: i32,
    /// The number of units that stay available, if there is an alternative. If all units are needed, one is replaced at a time.
    pub min_available: i32,
}

/// The outdated units to replace now, in the order of their indices.
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
    let floor = bounds.min_available.min(total - 1);
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
