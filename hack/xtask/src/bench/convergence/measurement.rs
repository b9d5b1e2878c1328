//! What one run shows.

use super::api_server::{EVENTS, Figures, ObjectSize};
use super::case::Case;
use crate::domain_simulation::domain::SimulatedDomain;
use crate::domain_simulation::formation::Milestones;
use compute_domain_daemon::metrics::DaemonMetrics;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// The time until the domain has converged.
pub(super) const CONVERGED: &str = "converged s";
/// The times until the other milestones.
pub(super) const MILESTONES: [&str; 4] = ["present s", "ready s", "first peers s", "domain Ready s"];
/// The writes of all daemons that succeeded, those of their pods included.
pub(super) const DAEMON_WRITES: &str = "daemon writes";
/// How often an entry got another index.
pub(super) const INDEX_CHANGES: &str = "index changes";
/// How often a daemon restarted IMEX because its index had changed.
pub(super) const RESTARTS: &str = "IMEX restarts";
/// The size of the largest object with entries.
pub(super) const OBJECT_BYTES: &str = "object bytes";
/// The part of its managed fields.
pub(super) const MANAGED_FIELDS: &str = "managedFields bytes";

const WRITE_VERBS: [&str; 4] = ["create", "update", "apply", "patch"];
const KINDS: [&str; 3] = ["ComputeDomain", "ComputeDomainClique", "Pod"];

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) case: Case,
    /// What a domain that did not converge before the cut-off still lacked.
    pub(super) lacks: Vec<String>,
    /// The invariants that did not hold at the end.
    violations: Vec<String>,
    pub(super) figures: BTreeMap<&'static str, f64>,
}

impl Measurement {
    pub(super) fn of(case: Case, domain: &SimulatedDomain, server: Figures, size: ObjectSize) -> Self {
        let formation = &domain.formation;
        let Milestones { present, ready, first_peers, domain: domain_ready, converged } = formation.milestones;
        let times = [present, ready, first_peers, domain_ready];
        let mut figures = server.0;
        for (name, time) in MILESTONES.into_iter().zip(times).chain([(CONVERGED, converged)]) {
            figures.extend(time.map(|time| (name, time.as_secs_f64())));
        }
        figures.insert(DAEMON_WRITES, daemon_writes(&domain.metrics));
        figures.insert(INDEX_CHANGES, f64::from(formation.index_changes));
        figures.insert(RESTARTS, f64::from(formation.restarts));
        #[expect(clippy::cast_precision_loss, reason = "no object has 2^53 bytes")]
        figures.extend([(OBJECT_BYTES, size.bytes as f64), (MANAGED_FIELDS, size.managed_fields as f64)]);
        let has_all_milestones = times.iter().all(Option::is_some);
        let (lacks, mut violations) = match converged {
            Some(_) => (Vec::new(), formation.violations()),
            // A domain that has not finished may still have duplicates.
            None if has_all_milestones => (formation.violations(), formation.contradictions()),
            None => (formation.violations(), Vec::new()),
        };
        if formation.restarts > 0 {
            violations.push(format!("the index of {} started daemons changed", formation.restarts));
        }
        if converged.is_some() && figures.get(EVENTS).is_none_or(|events| *events < 1.0) {
            violations.push("the API server has counted no watch event".to_owned());
        }
        Self { case, lacks, violations, figures }
    }

    pub(super) fn is_converged(&self) -> bool {
        self.figures.contains_key(CONVERGED)
    }

    /// The invariants that the run violates.
    pub(super) fn violation(&self) -> Option<String> {
        (!self.violations.is_empty()).then(|| format!("{}: {}", self.case, self.violations.join("; ")))
    }

    /// A figure; 0 if the run has none.
    pub(super) fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or_default()
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.figures.get(CONVERGED) {
            Some(seconds) => write!(to, "converged after {:?}", Duration::from_secs_f64(*seconds)),
            None => write!(to, "timed out: {}", self.lacks.join("; ")),
        }
    }
}

fn daemon_writes(metrics: &DaemonMetrics) -> f64 {
    let series = WRITE_VERBS.iter().flat_map(|verb| KINDS.iter().map(move |kind| (verb, kind)));
    let writes: u64 = series.map(|(verb, kind)| metrics.requests(verb, kind, "success")).sum();
    #[expect(clippy::cast_precision_loss, reason = "no run has 2^53 writes")]
    let writes = writes as f64;
    writes
}

/// The runs of one program with one size.
pub(super) struct Runs<'a>(pub(super) Vec<&'a Measurement>);

/// The median, the lowest and the highest value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl<'a> Runs<'a> {
    /// The runs that are like `case`, of all rounds.
    pub(super) fn like(case: Case, measurements: &'a [Measurement]) -> Self {
        let is_like = |measurement: &&Measurement| Case { round: case.round, ..measurement.case } == case;
        Self(measurements.iter().filter(is_like).collect())
    }

    /// The values of a figure, of the runs that have it.
    pub(super) fn spread(&self, name: &str) -> Option<Spread> {
        let mut values: Vec<_> = self.0.iter().filter_map(|run| run.figures.get(name).copied()).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(*values.get(middle.checked_sub(1)?)?, values[middle]),
            _ => values[middle],
        };
        Some(Spread { median, lowest: *values.first()?, highest: *values.last()? })
    }

    /// The runs that did not converge.
    pub(super) fn timed_out(&self) -> usize {
        self.0.iter().filter(|run| !run.is_converged()).count()
    }
}

/// The first case of each size and program, sorted.
pub(super) fn cases(measurements: &[Measurement], is_limited: bool) -> impl Iterator<Item = Case> {
    let cases: BTreeSet<_> = measurements.iter().map(|it| Case { round: 1, ..it.case }).collect();
    cases.into_iter().filter(move |case| case.is_limited == is_limited)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain_simulation::daemon::Program;

    /// Runs of a program, one per value of the figure.
    pub(crate) fn runs(program: Program, nodes: usize, name: &'static str, values: &[f64]) -> Vec<Measurement> {
        let run = |(value, round): (&f64, u32)| Measurement {
            case: Case { round, nodes, is_limited: false, program },
            lacks: Vec::new(),
            violations: Vec::new(),
            figures: [(CONVERGED, 1.0), (name, *value)].into(),
        };
        values.iter().zip(1..).map(run).collect()
    }

    #[test]
    fn the_spread_of_even_and_odd_numbers_of_runs() {
        let spread = |values: &[f64]| {
            let measurements = runs(Program::Floor, 18, "x", values);
            let spread = Runs::like(measurements[0].case, &measurements).spread("x").unwrap();
            (spread.median, spread.lowest, spread.highest)
        };
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(&[3.0, 1.0, 2.0, 9.0]), (2.5, 1.0, 9.0));
        assert!(Runs(Vec::new()).spread("x").is_none());
    }

    #[test]
    fn a_violation_names_the_run() {
        let mut run = runs(Program::Floor, 18, "x", &[1.0]).remove(0);
        assert_eq!(run.violation(), None);
        run.violations = vec!["clique 0: the indices are [0, 0]".to_owned()];
        let expected = "round 1, 18 nodes, without client limits, floor: clique 0: the indices are [0, 0]";
        assert_eq!(run.violation().as_deref(), Some(expected));
    }
}
