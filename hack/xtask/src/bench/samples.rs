//! Everything that was measured, as a flat list of named figures, and what is asked of it: medians and ratios.

use super::Round;
use super::tally::Counts;
use std::collections::BTreeSet;

/// Who made the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// The services.
    Grove,
    /// The benchmark itself, with the services stopped.
    Bare,
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Grove => "grove",
            Self::Bare => "bare",
        }
    }
}

/// A part of the life of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Deploy,
    ScaleIn,
    ScaleOut,
    Delete,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::Deploy, Self::ScaleIn, Self::ScaleOut, Self::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::ScaleIn => "scale-in",
            Self::ScaleOut => "scale-out",
            Self::Delete => "delete",
        }
    }
}

/// Where a figure belongs.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) round: Round,
    pub(super) who: Who,
    pub(super) phase: Phase,
}

/// One figure of one phase of one round.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) replicas: u32,
    pub(super) repetition: u32,
    pub(super) who: Who,
    pub(super) phase: Phase,
    /// What was measured, with its unit as the last word.
    pub(super) figure: String,
    pub(super) value: f64,
}

/// How the counts went in one phase of one round, in seconds from its begin.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) replicas: u32,
    pub(super) repetition: u32,
    pub(super) who: Who,
    pub(super) phase: Phase,
    pub(super) points: Vec<(f64, Counts)>,
}

#[derive(Default)]
pub(super) struct Samples {
    pub(super) all: Vec<Sample>,
    pub(super) curves: Vec<Curve>,
}

impl Samples {
    pub(super) fn add(&mut self, place: Place, figure: impl Into<String>, value: f64) {
        let Place { round: Round { replicas, repetition }, who, phase } = place;
        self.all.push(Sample { replicas, repetition, who, phase, figure: figure.into(), value });
    }

    /// The sizes that were measured.
    pub(super) fn sizes(&self) -> Vec<u32> {
        self.all.iter().map(|sample| sample.replicas).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names of the figures of a phase.
    pub(super) fn figures(&self, phase: Phase) -> Vec<&str> {
        let names = self.all.iter().filter(|sample| sample.phase == phase).map(|sample| sample.figure.as_str());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The median over the rounds. A figure that a round does not have, such as a kind of write that did not happen in
    /// it, counts as zero there.
    pub(super) fn median(&self, replicas: u32, who: Who, phase: Phase, figure: &str) -> Option<f64> {
        let rounds = self.rounds(replicas, who, phase);
        let values: Vec<f64> = rounds
            .into_iter()
            .map(|round| {
                self.value(Place { round: Round { replicas, repetition: round }, who, phase }, figure).unwrap_or(0.0)
            })
            .collect();
        let measured = self.of_phase(replicas, who, phase).any(|sample| sample.figure == figure);
        median(values).filter(|_| measured)
    }

    /// The rounds in which something was measured.
    pub(super) fn rounds(&self, replicas: u32, who: Who, phase: Phase) -> BTreeSet<u32> {
        self.of_phase(replicas, who, phase).map(|sample| sample.repetition).collect()
    }

    /// The median over the rounds of the sum of all figures that are `chosen` by name.
    pub(super) fn sum(&self, replicas: u32, who: Who, phase: Phase, chosen: impl Fn(&str) -> bool) -> f64 {
        let rounds = self.rounds(replicas, who, phase).into_iter();
        let of_round =
            |repetition| self.sum_of_round(Place { round: Round { replicas, repetition }, who, phase }, &chosen);
        median(rounds.map(of_round).collect()).unwrap_or_default()
    }

    /// The sum of all figures of one round that are `chosen` by name.
    pub(super) fn sum_of_round(&self, place: Place, chosen: impl Fn(&str) -> bool) -> f64 {
        self.of_place(place).filter(|sample| chosen(&sample.figure)).map(|sample| sample.value).sum()
    }

    /// The median of the ratios Grove to bare, round by round, so that it holds when the machine's speed drifts.
    pub(super) fn ratio(&self, replicas: u32, phase: Phase, figure: &str) -> Option<f64> {
        let of_grove = |sample: &&Sample| {
            sample.replicas == replicas && sample.phase == phase && sample.who == Who::Grove && sample.figure == figure
        };
        let ratio = |sample: &Sample| {
            let round = Round { replicas, repetition: sample.repetition };
            let bare = self.value(Place { round, who: Who::Bare, phase }, figure)?;
            (bare > 0.0).then(|| sample.value / bare)
        };
        median(self.all.iter().filter(of_grove).filter_map(ratio).collect())
    }

    fn value(&self, place: Place, figure: &str) -> Option<f64> {
        self.of_place(place).find(|sample| sample.figure == figure).map(|sample| sample.value)
    }

    fn of_place(&self, place: Place) -> impl Iterator<Item = &Sample> {
        let Place { round: Round { replicas, repetition }, who, phase } = place;
        self.of_phase(replicas, who, phase).filter(move |sample| sample.repetition == repetition)
    }

    fn of_phase(&self, replicas: u32, who: Who, phase: Phase) -> impl Iterator<Item = &Sample> {
        let is_of = move |sample: &&Sample| sample.replicas == replicas && sample.who == who && sample.phase == phase;
        self.all.iter().filter(is_of)
    }

    /// The curve of the round whose `figure` is nearest to the median.
    pub(super) fn typical_curve(&self, replicas: u32, who: Who, phase: Phase, figure: &str) -> Option<&Curve> {
        let median = self.median(replicas, who, phase, figure)?;
        let of_phase = |curve: &&Curve| curve.replicas == replicas && curve.who == who && curve.phase == phase;
        let distance = |curve: &Curve| {
            let round = Round { replicas, repetition: curve.repetition };
            let value = self.value(Place { round, who, phase }, figure).unwrap_or_default();
            (value - median).abs()
        };
        self.curves.iter().filter(of_phase).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { values[middle - 1] } else { upper };
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::{Phase, Place, Samples, Who};
    use crate::bench::Round;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for (repetition, grove, bare) in [(1, 4.0, 2.0), (2, 30.0, 10.0), (3, 5.0, 4.0)] {
            let round = Round { replicas: 5, repetition };
            samples.add(Place { round, who: Who::Grove, phase: Phase::Deploy }, "ready s", grove);
            samples.add(Place { round, who: Who::Bare, phase: Phase::Deploy }, "ready s", bare);
        }
        let round = Round { replicas: 5, repetition: 1 };
        samples.add(Place { round, who: Who::Grove, phase: Phase::Deploy }, "writes x", 9.0);
        samples
    }

    #[test]
    fn ratios_are_of_rounds_and_not_of_medians() {
        let samples = samples();
        assert_eq!(samples.median(5, Who::Grove, Phase::Deploy, "ready s"), Some(5.0));
        assert_eq!(samples.ratio(5, Phase::Deploy, "ready s"), Some(2.0));
        assert_eq!(samples.ratio(5, Phase::Delete, "ready s"), None);
    }

    #[test]
    fn what_happened_in_one_round_only_counts_as_zero_in_the_others() {
        assert_eq!(samples().median(5, Who::Grove, Phase::Deploy, "writes x"), Some(0.0));
        assert_eq!(samples().median(5, Who::Bare, Phase::Deploy, "writes x"), None);
        let sum = samples().sum(5, Who::Grove, Phase::Deploy, |figure| figure.starts_with("ready"));
        assert!((sum - 5.0).abs() < f64::EPSILON);
        assert_eq!(super::median(vec![4.0, 1.0]), Some(2.5));
    }
}
