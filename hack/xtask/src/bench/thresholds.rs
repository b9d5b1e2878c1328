//! The acceptance thresholds of `bench scale`, and whether the measured figures meet them.

use super::Round;
use super::samples::{Phase, SampleKey, Samples, Variant};
use super::workload::Workload;
use crate::suite::CONTROLLERS;
use std::fmt::{self, Display, Formatter};

/// The sizes with thresholds. The thresholds for CPU time and memory are for the smaller one.
pub(super) const SIZES: [u32; 2] = [500, 2000];
const SMALL: u32 = SIZES[0];
/// The kinds of which the services create one object per replica of a set, by their plurals, besides pods.
const CHILDREN: [&str; 3] = ["services", "podgangs", "podcliques"];
/// The kind of which they also create one object per replica for native gangs.
const NATIVE_CHILD: &str = "podgroups";

/// One threshold and the measured value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    pub(super) figure: &'static str,
    pub(super) limit: f64,
    pub(super) measured: f64,
}

impl Threshold {
    pub(super) fn is_met(&self) -> bool {
        self.measured <= self.limit
    }
}

impl Display for Threshold {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "NOT met" };
        write!(f, "{}: {:.2}, at most {:.2}: {verdict}", self.figure, self.measured, self.limit)
    }
}

/// The thresholds for one size. A figure that was not measured misses its threshold.
pub(super) fn of(samples: &Samples, replicas: u32) -> Vec<Threshold> {
    let is_small = replicas <= SMALL;
    let threshold = |figure, limit, measured| Threshold { figure, limit, measured };
    let ratio = |phase, figure| samples.ratio(replicas, phase, figure).unwrap_or(f64::INFINITY);
    let slowest = |figure| samples.max(replicas, Variant::Grove, Phase::Deploy, figure).unwrap_or(f64::INFINITY);
    let wrong_creates = threshold("objects missing, created twice or rejected", 0.0, wrong_creates(samples, replicas));
    let ready = |limit| threshold("all pods Ready, Grove / baseline", limit, ratio(Phase::Deploy, "ready s"));
    if samples.workload == Workload::Packed {
        return vec![wrong_creates, ready(1.5)];
    }
    let deleted = ratio(Phase::Delete, "all deleted s");
    let mut thresholds = vec![
        wrong_creates,
        threshold("other writes per PodClique", 5.0, other_writes(samples, replicas) / f64::from(replicas)),
        threshold("all pods created, Grove / baseline", 1.25, ratio(Phase::Deploy, "created s")),
        ready(1.3),
        threshold("everything deleted, Grove / baseline", if is_small { 1.25 } else { 1.3 }, deleted),
        threshold(
            "Available after the last Ready pod in the slowest round, s",
            if is_small { 2.0 } else { 5.0 },
            slowest("Available after last Ready pod s"),
        ),
    ];
    if is_small {
        thresholds.push(threshold("controllers' CPU s to deploy", 3.0, cpu(samples, replicas)));
        thresholds.push(threshold("controllers' peak memory MB", 60.0, memory(samples, replicas)));
    }
    if let Some(ratio) = samples.doubling_ratio(replicas, "Available s") {
        thresholds.push(threshold("scaling to twice the size / deploying", 1.2, ratio));
    }
    thresholds
}

/// CPU seconds of the controllers while they deploy the set.
pub(super) fn cpu(samples: &Samples, replicas: u32) -> f64 {
    samples.sum(replicas, Variant::Grove, Phase::Deploy, is_cpu_of_controller)
}

/// Whether the figure is the CPU time of a controller.
pub(super) fn is_cpu_of_controller(figure: &str) -> bool {
    let service = figure.strip_prefix("cpu ").and_then(|figure| figure.strip_suffix(" s"));
    service.is_some_and(|service| CONTROLLERS.contains(&service))
}

/// The sum of the controllers' memory peaks.
pub(super) fn memory(samples: &Samples, replicas: u32) -> f64 {
    let figures = CONTROLLERS.map(|service| format!("peak memory {service} MB"));
    samples.sum(replicas, Variant::Grove, Phase::Deploy, |figure| figures.iter().any(|wanted| wanted == figure))
}

/// Writes of the controllers while they deploy the set, without one create per object.
pub(super) fn other_writes(samples: &Samples, replicas: u32) -> f64 {
    let all = samples.sum(replicas, Variant::Grove, Phase::Deploy, |figure| controller_write(figure).is_some());
    all - creates(samples, replicas)
}

/// Accepted creates of children.
fn creates(samples: &Samples, replicas: u32) -> f64 {
    samples.sum(replicas, Variant::Grove, Phase::Deploy, |figure| {
        figure.starts_with("accepted ") && children(samples).any(|(kind, _)| is_create(figure, kind))
    })
}

/// The kinds that the services create, and the number of objects per replica.
fn children(samples: &Samples) -> impl Iterator<Item = (&'static str, u32)> {
    let workload = samples.workload;
    let single = CHILDREN.into_iter().chain(workload.has_pod_groups().then_some(NATIVE_CHILD));
    single.map(|kind| (kind, 1)).chain([("pods", workload.pods_per_replica())])
}

/// How many objects the services create for each replica.
pub(super) fn objects_per_replica(samples: &Samples) -> u32 {
    children(samples).map(|(_, per_replica)| per_replica).sum()
}

/// Objects that are missing, were created twice, or were rejected. The differences are counted per kind, so that a missing
/// object of one kind does not offset a surplus object of another, and in the worst round, because each round must be right.
/// Infinite without any round.
fn wrong_creates(samples: &Samples, replicas: u32) -> f64 {
    let count = |round, outcome: &str, kind: &str| {
        let chosen = |figure: &str| figure.starts_with(outcome) && is_create(figure, kind);
        samples.sum_of_round(SampleKey { round, variant: Variant::Grove, phase: Phase::Deploy }, chosen)
    };
    let of_round = |round| -> f64 {
        let of_kind = |(kind, per_replica): (&str, u32)| {
            let expected = f64::from(replicas * per_replica);
            (count(round, "accepted ", kind) - expected).abs() + count(round, "rejected ", kind)
        };
        children(samples).map(of_kind).sum()
    };
    let rounds = samples.rounds(replicas, Variant::Grove, Phase::Deploy).into_iter();
    rounds.map(|repetition| of_round(Round { replicas, repetition })).reduce(f64::max).unwrap_or(f64::INFINITY)
}

fn is_create(figure: &str, kind: &str) -> bool {
    controller_write(figure).is_some_and(|(verb, resource)| verb == "create" && resource == kind)
}

/// Verb and resource, if the figure counts writes of a controller.
pub(super) fn controller_write(figure: &str) -> Option<(&str, &str)> {
    let mut words = figure.split(' ');
    let counts_writes = matches!(words.next(), Some("accepted" | "rejected"));
    let account = words.next().filter(|account| counts_writes && CONTROLLERS.contains(account));
    account.and_then(|_| Some((words.next()?, words.next()?)))
}

#[cfg(test)]
mod tests {
    use super::{Phase, Round, SampleKey, Samples, Variant, Workload, of};

    fn samples(writes: &[(&str, f64)]) -> Samples {
        rounds(&[writes])
    }

    fn rounds(rounds: &[&[(&str, f64)]]) -> Samples {
        let mut samples = Samples::default();
        for (repetition, writes) in (1..).zip(rounds) {
            let round = Round { replicas: 1, repetition };
            for (figure, value) in *writes {
                samples.add(SampleKey { round, variant: Variant::Grove, phase: Phase::Deploy }, *figure, *value);
            }
        }
        samples
    }

    const COMPLETE: [(&str, f64); 4] = [
        ("accepted pcs-controller create services", 1.0),
        ("accepted pcs-controller create podgangs", 1.0),
        ("accepted pcs-controller create podcliques", 1.0),
        ("accepted pclq-controller create pods", 2.0),
    ];

    #[track_caller]
    fn check_wrong_creates(samples: &Samples, expected: f64) {
        let threshold = &of(samples, 1)[0];
        assert!((threshold.measured - expected).abs() < f64::EPSILON, "{threshold}");
    }

    #[test]
    fn creates_and_other_writes_are_counted_separately() {
        let thresholds = of(
            &samples(&[
                ("accepted pcs-controller create services", 1.0),
                ("accepted pcs-controller create podgangs", 1.0),
                ("accepted pcs-controller create podcliques", 1.0),
                ("accepted pclq-controller create pods", 2.0),
                ("accepted pclq-controller create events", 1.0),
                ("accepted pclq-controller patch podcliques/status", 2.0),
                ("rejected pclq-controller patch podcliques/status", 1.0),
                ("accepted kwok patch pods/status", 2.0),
            ]),
            1,
        );
        assert!(thresholds[0].is_met(), "{}", thresholds[0]);
        assert_eq!(thresholds[1].to_string(), "other writes per PodClique: 4.00, at most 5.00: met");
    }

    #[test]
    fn native_gangs_need_one_pod_group_each() {
        let complete = [COMPLETE.as_slice(), &[("accepted topology-controller create podgroups", 1.0)]].concat();
        for (writes, missing) in [(COMPLETE.as_slice(), 1.0), (complete.as_slice(), 0.0)] {
            let samples = Samples { workload: Workload::Native, ..samples(writes) };
            check_wrong_creates(&samples, missing);
            assert_eq!(of(&samples, 1)[1].to_string(), "other writes per PodClique: 0.00, at most 5.00: met");
        }
    }

    /// The scheduler needs most of the time of packed gangs, and it is the same one in both variants.
    #[test]
    fn packed_gangs_have_ten_pods_each_and_a_threshold_for_ready() {
        for (seconds, is_met) in [(6.0, true), (6.1, false)] {
            let mut samples = samples(&COMPLETE[..3]);
            samples.workload = Workload::Packed;
            let mut add = |variant, figure: &str, value| {
                let round = Round { replicas: 1, repetition: 1 };
                samples.add(SampleKey { round, variant, phase: Phase::Deploy }, figure, value);
            };
            add(Variant::Grove, "accepted topology-controller create podgroups", 1.0);
            add(Variant::Grove, "accepted pclq-controller create pods", 10.0);
            add(Variant::Grove, "ready s", seconds);
            add(Variant::Baseline, "ready s", 4.0);
            let [wrong_creates, ready] = of(&samples, 1).try_into().unwrap();
            assert!(wrong_creates.is_met(), "{wrong_creates}");
            assert_eq!(ready.is_met(), is_met, "{ready}");
        }
    }

    #[test]
    fn missing_and_rejected_objects_are_found() {
        // Service, gang and clique are missing, one pod is surplus and one was rejected.
        let samples =
            samples(&[("accepted pclq-controller create pods", 3.0), ("rejected pclq-controller create pods", 1.0)]);
        check_wrong_creates(&samples, 5.0);
        let thresholds = of(&samples, 1);
        assert!(thresholds[2].to_string().ends_with("NOT met"), "nothing was measured: {}", thresholds[2]);
        assert!(!of(&Samples::default(), 1)[0].is_met(), "there was no round");
    }

    #[test]
    fn an_object_that_was_created_twice_in_one_round_is_found() {
        let mut twice = COMPLETE;
        twice[3].1 = 3.0;
        check_wrong_creates(&rounds(&[&COMPLETE, &COMPLETE, &COMPLETE]), 0.0);
        check_wrong_creates(&rounds(&[&COMPLETE, &twice, &COMPLETE]), 1.0);
    }

    #[test]
    fn the_status_threshold_depends_on_the_size() {
        for (replicas, delay, is_met) in [(500, 2.0, true), (500, 2.1, false), (2000, 5.0, true), (2000, 5.1, false)] {
            let mut samples = Samples::default();
            let round = Round { replicas, repetition: 1 };
            let key = SampleKey { round, variant: Variant::Grove, phase: Phase::Deploy };
            samples.add(key, "Available after last Ready pod s", delay);
            let thresholds = of(&samples, replicas);
            let status = thresholds.iter().find(|threshold| threshold.figure.starts_with("Available")).unwrap();
            assert_eq!(status.is_met(), is_met, "{status}");
        }
    }

    #[test]
    fn a_surplus_object_does_not_offset_a_missing_object_of_another_kind() {
        let mut uneven = COMPLETE;
        (uneven[0].1, uneven[3].1) = (0.0, 3.0);
        check_wrong_creates(&samples(&uneven), 2.0);
    }
}
