//! All figures of a benchmark, as a flat list with names, and their medians, sums and ratios.

use super::Round;
use super::object_counts::Counts;
use super::workload::Workload;
use std::collections::BTreeSet;

/// Which client created the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Variant {
    /// The services.
    Grove,
    /// A plain client of the benchmark, with the controllers stopped.
    Baseline,
}

impl Variant {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Grove => "grove",
            Self::Baseline => "baseline",
        }
    }
}

/// A phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Deploy,
    ScaleIn,
    ScaleOut,
    /// Scaling from the full size to twice the size.
    Double,
    /// Replacing all pods.
    Update,
    Delete,
}

impl Phase {
    /// The phases of `bench scale`.
    pub(super) const OF_SCALE: [Self; 5] = [Self::Deploy, Self::ScaleIn, Self::ScaleOut, Self::Double, Self::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::ScaleIn => "scale-in",
            Self::ScaleOut => "scale-out",
            Self::Double => "double",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The round, the variant and the phase of a figure.
#[derive(Clone, Copy)]
pub(super) struct SampleKey {
    pub(super) round: Round,
    pub(super) variant: Variant,
    pub(super) phase: Phase,
}

/// One figure of one phase of one round.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) replicas: u32,
    pub(super) repetition: u32,
    pub(super) variant: Variant,
    pub(super) phase: Phase,
    /// The name of the figure; its last word is the unit.
    pub(super) figure: String,
    pub(super) value: f64,
}

/// The counts over time in one phase of one round, in seconds since the phase started.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) replicas: u32,
    pub(super) repetition: u32,
    pub(super) variant: Variant,
    pub(super) phase: Phase,
    pub(super) points: Vec<(f64, Counts)>,
}

#[derive(Default)]
pub(super) struct Samples {
    pub(super) workload: Workload,
    pub(super) all: Vec<Sample>,
    pub(super) curves: Vec<Curve>,
}

impl Samples {
    pub(super) fn add(&mut self, key: SampleKey, figure: impl Into<String>, value: f64) {
        let SampleKey { round: Round { replicas, repetition }, variant, phase } = key;
        self.all.push(Sample { replicas, repetition, variant, phase, figure: figure.into(), value });
    }

    /// All sizes with figures.
    pub(super) fn sizes(&self) -> Vec<u32> {
        self.all.iter().map(|sample| sample.replicas).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The names of the figures of a phase.
    pub(super) fn figures(&self, phase: Phase) -> Vec<&str> {
        let names = self.all.iter().filter(|sample| sample.phase == phase).map(|sample| sample.figure.as_str());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The median over the rounds. If a round lacks the figure, such as a kind of write that did not happen, the figure counts
    /// as zero in that round.
    pub(super) fn median(&self, replicas: u32, variant: Variant, phase: Phase, figure: &str) -> Option<f64> {
        let rounds = self.rounds(replicas, variant, phase);
        let values: Vec<f64> = rounds
            .into_iter()
            .map(|round| {
                self.value(SampleKey { round: Round { replicas, repetition: round }, variant, phase }, figure)
                    .unwrap_or(0.0)
            })
            .collect();
        let measured = self.of_phase(replicas, variant, phase).any(|sample| sample.figure == figure);
        median(values).filter(|_| measured)
    }

    /// The highest value of all rounds.
    pub(super) fn max(&self, replicas: u32, variant: Variant, phase: Phase, figure: &str) -> Option<f64> {
        let samples = self.of_phase(replicas, variant, phase).filter(|sample| sample.figure == figure);
        samples.map(|sample| sample.value).reduce(f64::max)
    }

    /// The rounds with figures.
    pub(super) fn rounds(&self, replicas: u32, variant: Variant, phase: Phase) -> BTreeSet<u32> {
        self.of_phase(replicas, variant, phase).map(|sample| sample.repetition).collect()
    }

    /// The median over the rounds of the sum of all figures that `chosen` accepts by name.
    pub(super) fn sum(&self, replicas: u32, variant: Variant, phase: Phase, chosen: impl Fn(&str) -> bool) -> f64 {
        let rounds = self.rounds(replicas, variant, phase).into_iter();
        let of_round = |repetition| {
            self.sum_of_round(SampleKey { round: Round { replicas, repetition }, variant, phase }, &chosen)
        };
        median(rounds.map(of_round).collect()).unwrap_or_default()
    }

    /// The sum of all figures of one round that `chosen` accepts by name.
    pub(super) fn sum_of_round(&self, key: SampleKey, chosen: impl Fn(&str) -> bool) -> f64 {
        // `sum` of no values is -0.0.
        self.of_key(key).filter(|sample| chosen(&sample.figure)).fold(0.0, |sum, sample| sum + sample.value)
    }

    /// The median over the rounds of the ratio Grove / baseline. Each ratio is of one round, so it is valid even if the speed of
    /// the machine drifts.
    pub(super) fn ratio(&self, replicas: u32, phase: Phase, figure: &str) -> Option<f64> {
        let of_grove = |sample: &&Sample| {
            sample.replicas == replicas
                && sample.phase == phase
                && sample.variant == Variant::Grove
                && sample.figure == figure
        };
        let ratio = |sample: &Sample| {
            let round = Round { replicas, repetition: sample.repetition };
            let baseline = self.value(SampleKey { round, variant: Variant::Baseline, phase }, figure)?;
            (baseline > 0.0).then(|| sample.value / baseline)
        };
        median(self.all.iter().filter(of_grove).filter_map(ratio).collect())
    }

    /// The median over the rounds of the time to scale to twice the size, divided by the time to deploy the set; `None` if that
    /// was not measured.
    pub(super) fn doubling_ratio(&self, replicas: u32, figure: &str) -> Option<f64> {
        let ratio = |repetition| {
            let round = Round { replicas, repetition };
            let value = |phase| self.value(SampleKey { round, variant: Variant::Grove, phase }, figure);
            Some(value(Phase::Double)? / value(Phase::Deploy).filter(|seconds| *seconds > 0.0)?)
        };
        median(self.rounds(replicas, Variant::Grove, Phase::Double).into_iter().filter_map(ratio).collect())
    }

    fn value(&self, key: SampleKey, figure: &str) -> Option<f64> {
        self.of_key(key).find(|sample| sample.figure == figure).map(|sample| sample.value)
    }

    fn of_key(&self, key: SampleKey) -> impl Iterator<Item = &Sample> {
        let SampleKey { round: Round { replicas, repetition }, variant, phase } = key;
        self.of_phase(replicas, variant, phase).filter(move |sample| sample.repetition == repetition)
    }

    fn of_phase(&self, replicas: u32, variant: Variant, phase: Phase) -> impl Iterator<Item = &Sample> {
        let is_of =
            move |sample: &&Sample| sample.replicas == replicas && sample.variant == variant && sample.phase == phase;
        self.all.iter().filter(is_of)
    }

    /// The curve of the round whose `figure` is nearest to the median.
    pub(super) fn typical_curve(&self, replicas: u32, variant: Variant, phase: Phase, figure: &str) -> Option<&Curve> {
        let median = self.median(replicas, variant, phase, figure)?;
        let of_phase = |curve: &&Curve| curve.replicas == replicas && curve.variant == variant && curve.phase == phase;
        let distance = |curve: &Curve| {
            let round = Round { replicas, repetition: curve.repetition };
            let value = self.value(SampleKey { round, variant, phase }, figure).unwrap_or_default();
            (value - median).abs()
        };
        self.curves.iter().filter(of_phase).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { values[middle - 1] } else { upper };
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::{Phase, SampleKey, Samples, Variant};
    use crate::bench::Round;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        for (repetition, grove, baseline) in [(1, 4.0, 2.0), (2, 30.0, 10.0), (3, 5.0, 4.0)] {
            let round = Round { replicas: 5, repetition };
            samples.add(SampleKey { round, variant: Variant::Grove, phase: Phase::Deploy }, "ready s", grove);
            samples.add(SampleKey { round, variant: Variant::Baseline, phase: Phase::Deploy }, "ready s", baseline);
        }
        let round = Round { replicas: 5, repetition: 1 };
        samples.add(SampleKey { round, variant: Variant::Grove, phase: Phase::Deploy }, "writes x", 9.0);
        samples
    }

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_of_rounds() {
        let samples = samples();
        assert_eq!(samples.median(5, Variant::Grove, Phase::Deploy, "ready s"), Some(5.0));
        assert_eq!(samples.ratio(5, Phase::Deploy, "ready s"), Some(2.0));
        assert_eq!(samples.ratio(5, Phase::Delete, "ready s"), None);
    }

    #[test]
    fn doubling_is_compared_with_deploying_in_the_same_round() {
        let mut samples = samples();
        assert_eq!(samples.doubling_ratio(5, "ready s"), None);
        let round = Round { replicas: 5, repetition: 2 };
        samples.add(SampleKey { round, variant: Variant::Grove, phase: Phase::Double }, "ready s", 33.0);
        assert_eq!(samples.doubling_ratio(5, "ready s"), Some(1.1));
    }

    #[test]
    fn a_missing_figure_counts_as_zero() {
        assert_eq!(samples().median(5, Variant::Grove, Phase::Deploy, "writes x"), Some(0.0));
        assert_eq!(samples().median(5, Variant::Baseline, Phase::Deploy, "writes x"), None);
        let sum = samples().sum(5, Variant::Grove, Phase::Deploy, |figure| figure.starts_with("ready"));
        assert!((sum - 5.0).abs() < f64::EPSILON);
        assert_eq!(super::median(vec![4.0, 1.0]), Some(2.5));
    }
}
