//! What is demanded, and whether it is reached.

use super::samples::{Phase, Samples, Who};
use super::workload::PODS_PER_REPLICA;
use crate::services::CONTROLLERS;
use std::fmt::{self, Display, Formatter};

/// Up to this size the limits for processor time and memory are meant.
const SIZE: u32 = 500;
/// The kinds that a set implies, by their plurals.
const IMPLIED: [&str; 4] = ["services", "podgangs", "podcliques", "pods"];

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
        Bar {
            demand: "objects missing, created twice or refused",
            limit: 0.0,
            measured: (objects(samples, replicas) - expected(replicas)).abs() + refused(samples, replicas),
        },
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

fn objects(samples: &Samples, replicas: u32) -> f64 {
    samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| figure.starts_with("writes ") && creates_implied(figure))
}

fn refused(samples: &Samples, replicas: u32) -> f64 {
    samples.sum(replicas, Who::Grove, Phase::Deploy, |figure| figure.starts_with("refused ") && creates_implied(figure))
}

fn creates_implied(figure: &str) -> bool {
    ours(figure).is_some_and(|(verb, resource)| verb == "create" && IMPLIED.contains(&resource))
}

/// A Service, a gang and a clique for each replica, and its pods.
fn expected(replicas: u32) -> f64 {
    f64::from(replicas * (3 + PODS_PER_REPLICA))
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
    use super::{Phase, Samples, Who, of};
    use crate::bench::Round;
    use crate::bench::samples::Place;

    fn samples(writes: &[(&str, f64)]) -> Samples {
        let mut samples = Samples::default();
        let round = Round { replicas: 1, repetition: 1 };
        for (figure, value) in writes {
            samples.add(Place { round, who: Who::Grove, phase: Phase::Deploy }, *figure, *value);
        }
        samples
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
        let bars = of(
            &samples(&[("writes pclq-controller create pods", 3.0), ("refused pclq-controller create pods", 1.0)]),
            1,
        );
        assert!((bars[0].measured - 3.0).abs() < f64::EPSILON, "{}", bars[0]);
        assert!(bars[2].to_string().ends_with("NOT reached"), "nothing was measured: {}", bars[2]);
    }
}
