//! What Grove's strategy promises without client limits.

use super::api_server::{BYTES, CONFLICTS, POD_BYTES, WRITES};
use super::case::Case;
use super::measurement::{CONVERGED, DAEMON_WRITES, INDEX_CHANGES, Measurement, Runs, cases};
use crate::domain_simulation::daemon::Program;
use anyhow::{Result, ensure};
use grove_api_types::compute_domain::strategy::Strategy;
use std::time::Duration;

pub(super) const OURS: Program = Program::Daemon(Strategy::ControllerClique);
const MAX_WRITES_PER_DAEMON: f64 = 2.0;
const MAX_CONFLICTS: f64 = 0.1;
/// The time until the domain has converged, compared with the floor, from [`FROM_NODES`] on.
const MAX_RATIO: f64 = 2.0;
const FROM_NODES: usize = 72;
/// Nothing is promised about larger domains.
const MAX_NODES: usize = 1152;
/// The exponent of linear growth is 1.
const MAX_EXPONENT: f64 = 1.1;

/// A promise, and whether it was met.
pub(super) struct Threshold {
    pub(super) text: String,
    pub(super) is_met: bool,
}

/// Fails if a threshold is not met.
pub(super) fn check(measurements: &[Measurement], cutoff: Duration) -> Result<()> {
    let missed: Vec<_> = of(measurements, cutoff).into_iter().filter(|it| !it.is_met).map(|it| it.text).collect();
    ensure!(missed.is_empty(), "thresholds are not met:\n{}", missed.join("\n"));
    Ok(())
}

/// The cases of Grove's strategy, one per size.
fn our_cases(measurements: &[Measurement]) -> impl Iterator<Item = Case> {
    cases(measurements, false).filter(|case| case.program == OURS && case.nodes <= MAX_NODES)
}

/// The thresholds of each size that was measured.
pub(super) fn of(measurements: &[Measurement], cutoff: Duration) -> Vec<Threshold> {
    let growth = growth_of_bytes(measurements).map(|(exponent, fit)| Threshold {
        text: format!(
            "watch bytes, pods included, grow with the number of nodes to the power {exponent:.2} (R² {fit:.4}), at most {MAX_EXPONENT}"
        ),
        is_met: exponent <= MAX_EXPONENT,
    });
    our_cases(measurements).flat_map(|case| of_size(measurements, case.nodes, cutoff)).chain(growth).collect()
}

fn of_size(measurements: &[Measurement], nodes: usize, cutoff: Duration) -> Vec<Threshold> {
    let case = |program| Case { round: 1, nodes, is_limited: false, program };
    let (ours, floor) = (Runs::like(case(OURS), measurements), Runs::like(case(Program::Floor), measurements));
    let highest = |name| ours.spread(name).map_or(f64::INFINITY, |spread| spread.highest);
    let count = count(nodes);
    let writes = highest(DAEMON_WRITES) / count;
    let conflicts = ours.0.iter().map(|run| run.figure(CONFLICTS) / attempts(run)).fold(0.0, f64::max);
    let index_changes = highest(INDEX_CHANGES);
    let mut thresholds = vec![
        at_most(nodes, "writes per daemon", writes, MAX_WRITES_PER_DAEMON),
        at_most(nodes, "conflicts per write", conflicts, MAX_CONFLICTS),
        at_most(nodes, "index changes", index_changes, 0.0),
    ];
    let (name, floor) = match floor.spread(CONVERGED) {
        None if floor.timed_out() > 0 => ("time / cut-off of the floor, which timed out,", Some(cutoff.as_secs_f64())),
        floor => ("time / floor", floor.map(|floor| floor.median)),
    };
    let medians = ours.spread(CONVERGED).zip(floor);
    let ratio = medians.map_or(f64::INFINITY, |(ours, floor)| ours.median / floor);
    thresholds.extend((nodes >= FROM_NODES).then(|| at_most(nodes, name, ratio, MAX_RATIO)));
    thresholds.push(at_most(nodes, "runs that timed out", self::count(ours.timed_out()), 0.0));
    thresholds
}

/// All writes of a run that the API server answered: of daemons and of mnnvl-controller.
fn attempts(run: &Measurement) -> f64 {
    (run.figure(DAEMON_WRITES) + run.figure(WRITES) + run.figure(CONFLICTS)).max(1.0)
}

fn at_most(nodes: usize, name: &str, value: f64, limit: f64) -> Threshold {
    let is_met = value <= limit;
    let result = if is_met { "met" } else { "**not met**" };
    Threshold { text: format!("{nodes} nodes: {name} {value:.2}, at most {limit:.2}: {result}"), is_met }
}

#[expect(clippy::cast_precision_loss, reason = "no domain has 2^53 nodes")]
fn count(nodes: usize) -> f64 {
    nodes as f64
}

/// How the watch bytes grow, pods included: the exponent of the number of nodes, which is 1 if they are linear, and how well it explains the
/// medians (R²). `None` for fewer than three sizes.
fn growth_of_bytes(measurements: &[Measurement]) -> Option<(f64, f64)> {
    let points = our_cases(measurements).filter_map(|case| {
        let runs = Runs::like(case, measurements);
        let bytes = runs.spread(BYTES)?.median + runs.spread(POD_BYTES)?.median;
        runs.spread(CONVERGED).map(|_| (count(case.nodes), bytes))
    });
    power(&points.collect::<Vec<_>>())
}

/// The exponent of the power law through the points: the slope of the least-squares line through their logarithms; and its R².
fn power(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    line(&points.iter().map(|(x, y)| (x.ln(), y.ln())).collect::<Vec<_>>())
}

/// The slope and R² of the least-squares line.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < 3 {
        return None;
    }
    let n = count(points.len());
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
    let sum = |term: fn(f64, f64) -> f64| points.iter().map(|(x, y)| term(x - mean_x, y - mean_y)).sum::<f64>();
    let (xy, xx, yy) = (sum(|x, y| x * y), sum(|x, _| x * x), sum(|_, y| y * y));
    Some((xy / xx, xy * xy / (xx * yy)))
}

#[cfg(test)]
mod tests {
    use super::super::measurement::tests::runs;
    use super::*;

    fn missed(measurements: &[Measurement]) -> String {
        check(measurements, Duration::from_secs(10)).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn each_threshold_can_be_missed() {
        let floor = runs(Program::Floor, 72, CONVERGED, &[1.0]);
        let with = |name, value| {
            let mut measurements = runs(OURS, 72, INDEX_CHANGES, &[0.0]);
            measurements[0].figures.extend([(DAEMON_WRITES, 144.0), (CONVERGED, 2.0)]);
            measurements[0].figures.insert(name, value);
            measurements.extend(floor.clone());
            missed(&measurements)
        };
        assert_eq!(with(CONVERGED, 2.0), "");
        assert!(with(CONVERGED, 2.1).contains("72 nodes: time / floor 2.10"));
        assert!(with(DAEMON_WRITES, 145.0).contains("writes per daemon 2.01"));
        assert!(with(CONFLICTS, 30.0).contains("conflicts per write 0.17"));
        assert!(with(INDEX_CHANGES, 1.0).contains("index changes 1.00"));
        assert!(missed(&runs(OURS, 72, INDEX_CHANGES, &[0.0])).contains("72 nodes: time / floor inf"));
        assert_eq!(missed(&runs(OURS, 4608, INDEX_CHANGES, &[1.0])), "", "nothing is promised");
        let bytes = [(18, 1.0), (36, 4.0), (72, 16.0)].map(|(nodes, bytes)| {
            let mut run = runs(OURS, nodes, BYTES, &[bytes]);
            run[0].figures.insert(POD_BYTES, 0.0);
            run
        });
        assert!(missed(&bytes.concat()).contains("to the power 2.00"));
    }

    #[test]
    fn the_cutoff_counts_if_the_floor_timed_out() {
        let mut floor = runs(Program::Floor, 72, CONFLICTS, &[0.0]);
        floor[0].figures.remove(CONVERGED);
        floor[0].lacks = vec!["the domain is not Ready".to_owned()];
        let with = |seconds| missed(&[runs(OURS, 72, CONVERGED, &[seconds]), floor.clone()].concat());
        assert!(with(21.0).contains("72 nodes: time / cut-off of the floor, which timed out, 2.10, at most 2.00"));
        assert!(!with(19.0).contains("cut-off"), "{}", with(19.0));
    }

    #[test]
    fn the_exponent_of_a_line_is_one_and_that_of_a_parabola_is_two() {
        let exponent =
            |values: [f64; 3]| power(&[10.0, 20.0, 100.0].into_iter().zip(values).collect::<Vec<_>>()).unwrap();
        let is = |(exponent, fit): (f64, f64), expected: f64| (exponent - expected).abs() < 1e-9 && fit > 0.999;
        assert!(is(exponent([30.0, 60.0, 300.0]), 1.0));
        assert!(is(exponent([100.0, 400.0, 10_000.0]), 2.0));
        assert!(exponent([100.0, 5.0, 90.0]).1 < 0.9);
        assert!(power(&[(1.0, 5.0), (2.0, 7.0)]).is_none());
    }
}
