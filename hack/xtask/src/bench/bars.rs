//! What is demanded, and whether it is reached.

use super::Round;
use super::samples::{Phase, Place, Samples, Who};
use super::workload::PODS_PER_REPLICA;
use crate::services::CONTROLLERS;
use std::fmt::{self, Display, Formatter};

/// The size that the demands are for. Those on processor time and memory hold up to it.
pub(super) const SIZE: u32 = 500;
/// The kinds that a set implies, by their plurals, and how many of each one replica does.
const IMPLIED: [(&str, u32); 4] = [("services", 1), ("podgangs", 1), ("podcliques", 1), ("pods", PODS_PER_REPLICA)];

/// One demand and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    pub(super) demand: &'static str,
    pub(super) limit: f64,
    pub(super) measured: f64,
}

impl Bar {
    pub(super) fn is_reached(&self) -> bool {
        self.measured <= self.limit
    }
}

impl Display for Bar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_reached() { "reached" } else { "NOT reached" };
        write!(f, "{}: {:.2}, at most {:.2}: {verdict}", self.demand, self.measured, self.limit)
    }
}

/// The demands on a size.
pub(super) fn of(samples: &Samples, replicas: u32) -> Vec<Bar> {
    let ratio = |phase, figure| samples.ratio(replicas, phase, figure).unwrap_or(f64::INFINITY);
    let mut bars = vec![
        Bar { demand: "objects missing, created twice or refused", limit: 0.0, measured: astray(samples, replicas) },
        Bar {
            demand: "other writes per PodClique",
            limit: 5.0,
            measured: other_writes(samples, replicas) / f64::from(replicas),
        },
        Bar { demand: "all pods created, Grove / bare", limit: 1.25, measured: ratio(Phase::Deploy, "created s") },
        Bar { demand: "all pods Ready, Grove / bare", limit: 1.3, measured: ratio(Phase::Deploy, "ready s") },
        Bar { demand: "everything deleted, Grove / bare", limit: 1.25, measured: ratio(Phase::Delete, "gone s") },
    ];
    if replicas <= SIZE {
        bars.push(Bar { demand: "controllers' CPU s to deploy", limit: 3.0, measured: cpu(samples, replicas) });
        bars.push(Bar { demand: "controllers' peak memory MB", limit: 60.0, measured: memory(samples, replicas) });
    }
    bars
}

/// Processor seconds of the controllers while the set is deployed.
pub(super) fn cpu(samples: &Samples, replicas: u32) -> f64 {
    let figures = CONTROLLERS.map(|service| format!("cpu {service} s"));
    samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| figures.iter().any(|wanted| wanted == figure))
}

/// The peaks of the controllers together.
pub(super) fn memory(samples: &Samples, replicas: u32) -> f64 {
    let figures = CONTROLLERS.map(|service| format!("peak memory {service} MB"));
    samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| figures.iter().any(|wanted| wanted == figure))
}

/// Writes of the controllers while the set is deployed, beyond one create for each object.
pub(super) fn other_writes(samples: &Samples, replicas: u32) -> f64 {
    let all = samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| ours(figure).is_some());
    all - objects(samples, replicas)
}

/// Creates of implied objects.
fn objects(samples: &Samples, replicas: u32) -> f64 {
    samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| {
        figure.starts_with("writes ") && IMPLIED.iter().any(|(kind, _)| creates(figure, kind))
    })
}

/// Objects missing, created twice or refused: kind by kind, so that one too many here does not hide one too few there, and
/// in the worst of the rounds, each of which has to be right. Without any round, all are missing.
fn astray(samples: &Samples, replicas: u32) -> f64 {
    let count = |round, outcome: &str, kind: &str| {
        let chosen = |figure: &str| figure.starts_with(outcome) && creates(figure, kind);
        samples.sum_of_round(Place { round, who: Who::Grove, phase: Phase::Deploy }, chosen)
    };
    let of_round = |round| -> f64 {
        let of_kind = |(kind, per_replica): (&str, u32)| {
            let expected = f64::from(replicas * per_replica);
            (count(round, "writes ", kind) - expected).abs() + count(round, "refused ", kind)
        };
        IMPLIED.into_iter().map(of_kind).sum()
    };
    let rounds = samples.rounds(replicas, Who::Grove, Phase::Deploy).into_iter();
    rounds.map(|repetition| of_round(Round { replicas, repetition })).reduce(f64::max).unwrap_or(f64::INFINITY)
}

fn creates(figure: &str, kind: &str) -> bool {
    ours(figure).is_some_and(|(verb, resource)| verb == "create" && resource == kind)
}

/// Verb and resource, if the figure counts writes of a service.
fn ours(figure: &str) -> Option<(&str, &str)> {
    let mut words = figure.split(' ');
    let counts_writes = matches!(words.next(), Some("writes" | "refused"));
    let account = words.next().filter(|account| counts_writes && CONTROLLERS.contains(account));
    account.and_then(|_| Some((words.next()?, words.next()?)))
}

#[cfg(test)]
mod tests {
    use super::{Phase, Place, Round, Samples, Who, of};

    fn samples(writes: &[(&str, f64)]) -> Samples {
        rounds(&[writes])
    }

    fn rounds(rounds: &[&[(&str, f64)]]) -> Samples {
        let mut samples = Samples::default();
        for (repetition, writes) in (1..).zip(rounds) {
            let round = Round { replicas: 1, repetition };
            for (figure, value) in *writes {
                samples.add(Place { round, who: Who::Grove, phase: Phase::Deploy }, *figure, *value);
            }
        }
        samples
    }

    const WHOLE: [(&str, f64); 4] = [
        ("writes pcs-controller create services", 1.0),
        ("writes pcs-controller create podgangs", 1.0),
        ("writes pcs-controller create podcliques", 1.0),
        ("writes pclq-controller create pods", 2.0),
    ];

    #[track_caller]
    fn check_astray(samples: &Samples, astray: f64) {
        let bar = &of(samples, 1)[0];
        assert!((bar.measured - astray).abs() < f64::EPSILON, "{bar}");
    }

    #[test]
    fn creates_and_other_writes_are_told_apart() {
        let bars = of(
            &samples(&[
                ("writes pcs-controller create services", 1.0),
                ("writes pcs-controller create podgangs", 1.0),
                ("writes pcs-controller create podcliques", 1.0),
                ("writes pclq-controller create pods", 2.0),
                ("writes pclq-controller create events", 1.0),
                ("writes pclq-controller patch podcliques/status", 2.0),
                ("refused pclq-controller patch podcliques/status", 1.0),
                ("writes kwok patch pods/status", 2.0),
            ]),
            1,
        );
        assert!(bars[0].is_reached(), "{}", bars[0]);
        assert_eq!(bars[1].to_string(), "other writes per PodClique: 4.00, at most 5.00: reached");
    }

    #[test]
    fn an_object_that_is_missing_or_refused_is_seen() {
        // Service, gang and clique are missing, one pod is too many and another was refused.
        let samples =
            samples(&[("writes pclq-controller create pods", 3.0), ("refused pclq-controller create pods", 1.0)]);
        check_astray(&samples, 5.0);
        let bars = of(&samples, 1);
        assert!(bars[2].to_string().ends_with("NOT reached"), "nothing was measured: {}", bars[2]);
        assert!(!of(&Samples::default(), 1)[0].is_reached(), "there was no round");
    }

    #[test]
    fn what_happened_twice_in_one_round_is_not_outvoted() {
        let mut twice = WHOLE;
        twice[3].1 = 3.0;
        check_astray(&rounds(&[&WHOLE, &WHOLE, &WHOLE]), 0.0);
        check_astray(&rounds(&[&WHOLE, &twice, &WHOLE]), 1.0);
    }

    #[test]
    fn one_too_many_does_not_make_up_for_one_too_few() {
        let mut uneven = WHOLE;
        (uneven[0].1, uneven[3].1) = (0.0, 3.0);
        check_astray(&samples(&uneven), 2.0);
    }
}
