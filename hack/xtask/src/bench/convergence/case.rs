//! The runs of the benchmark, and their order.

use crate::args::Convergence;
use crate::domain_simulation::daemon::Program;
use grove_api_types::compute_domain::strategy::Strategy;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    pub(super) round: u32,
    pub(super) nodes: usize,
    /// Whether each daemon has a limit of requests.
    pub(super) is_limited: bool,
    pub(super) program: Program,
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, nodes, is_limited, program } = self;
        let limit = if *is_limited { "with" } else { "without" };
        write!(to, "round {round}, {nodes} nodes, {limit} client limits, {}", name(*program))
    }
}

/// The name of a program in the report.
pub(super) fn name(program: Program) -> &'static str {
    match program {
        Program::Daemon(strategy) => strategy.name(),
        Program::Floor => "floor",
    }
}

/// The cases that are still to run.
pub(super) struct Schedule {
    cases: VecDeque<Case>,
    /// From this number of nodes on, a program does not converge before the cut-off.
    too_large: BTreeMap<(bool, Program), usize>,
}

impl Schedule {
    /// Each round has all sizes without limits, and then all sizes with limits. The programs of a size run in random order, so that none is
    /// always after the same one. The floor has no limits.
    pub(super) fn new(args: &Convergence) -> Self {
        let programs = args.strategies().into_iter().map(Program::Daemon).chain([Program::Floor]).collect::<Vec<_>>();
        let mut cases = VecDeque::new();
        for round in 1..=args.repeat {
            let mut random = fastrand::Rng::with_seed(round.into());
            for is_limited in [false, true] {
                for &nodes in &args.nodes {
                    let mut programs = programs.clone();
                    programs.retain(|program| !is_limited || *program != Program::Floor);
                    random.shuffle(&mut programs);
                    cases.extend(programs.into_iter().map(|program| Case { round, nodes, is_limited, program }));
                }
            }
        }
        Self { cases, too_large: BTreeMap::new() }
    }

    /// A run that only warms up the API server.
    pub(super) fn warm_up() -> Case {
        Case { round: 0, nodes: 18, is_limited: false, program: Program::Daemon(Strategy::RmwClique) }
    }

    /// The number of cases that did not run, because the time was over.
    pub(super) fn left_out(mut self) -> usize {
        std::iter::from_fn(|| self.next()).count()
    }

    /// The next case.
    pub(super) fn next(&mut self) -> Option<Case> {
        loop {
            let case = self.cases.pop_front()?;
            let limit = self.too_large.get(&(case.is_limited, case.program));
            if limit.is_none_or(|nodes| case.nodes < *nodes) {
                return Some(case);
            }
        }
    }

    /// The program timed out. It runs neither with this number of nodes again, nor with more.
    pub(super) fn skip_larger(&mut self, case: Case) {
        let nodes = self.too_large.entry((case.is_limited, case.program)).or_insert(case.nodes);
        *nodes = case.nodes.min(*nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(repeat: u32) -> Schedule {
        let strategies = vec![Strategy::RmwStatus, Strategy::SsaStatus];
        Schedule::new(&Convergence { strategies, nodes: vec![18, 36], repeat, ..Convergence::default() })
    }

    #[test]
    fn each_size_has_each_program_in_another_order_and_the_floor_has_no_limits() {
        let mut schedule = schedule(2);
        let cases: Vec<_> = std::iter::from_fn(|| schedule.next()).collect();
        let programs = |at: usize, count| cases[at..at + count].iter().map(|case| case.program).collect::<Vec<_>>();
        let sorted = |mut programs: Vec<_>| {
            programs.sort();
            programs
        };
        let strategies = [Strategy::RmwStatus, Strategy::SsaStatus].map(Program::Daemon).to_vec();
        let all = [strategies.clone(), vec![Program::Floor]].concat();
        assert!([0, 3, 10, 13].iter().all(|at| sorted(programs(*at, 3)) == all));
        assert!([6, 8].iter().all(|at| sorted(programs(*at, 2)) == strategies && cases[*at].is_limited));
        assert!(programs(0, 6) != programs(10, 6));
        assert_eq!(
            cases[0].to_string().split(", ").take(3).collect::<Vec<_>>(),
            ["round 1", "18 nodes", "without client limits"]
        );
    }

    #[test]
    fn a_program_that_timed_out_runs_only_with_fewer_nodes() {
        let mut schedule = schedule(2);
        let first = schedule.next().unwrap();
        schedule.skip_larger(Case { nodes: 36, ..first });
        let others: Vec<_> = std::iter::from_fn(|| schedule.next()).collect();
        let same = others.iter().filter(|case| case.program == first.program && !case.is_limited);
        assert_eq!(same.map(|case| (case.round, case.nodes)).collect::<Vec<_>>(), [(2, 18)]);
        assert!(others.iter().filter(|case| case.program != first.program).any(|case| case.nodes == 36));
    }
}
