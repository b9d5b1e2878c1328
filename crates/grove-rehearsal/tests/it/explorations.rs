//! From any state that users and controllers reach in some order, the plans end with a set whose pods are all new.

use grove_rehearsal::exploration::explore;

/// Two cliques outside of scaling groups, and a scaling group of two cliques.
const SET: &str = "
metadata: {name: s}
spec:
  replicas: 2
  template:
    cliques:
    - {name: f, labels: {version: a, broken: 'false'}, spec: {roleName: f, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: c}]}}}
    - {name: p, labels: {version: a, broken: 'false'}, spec: {roleName: p, replicas: 1, podSpec: {containers: [{name: c}]}}}
    - {name: d, labels: {version: a, broken: 'false'}, spec: {roleName: d, replicas: 1, podSpec: {containers: [{name: c}]}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1}
";

#[test]
fn updates_end_from_each_of_many_states() {
    for seed in 0..5 {
        let report = explore(SET, seed, 2000).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        println!("seed {seed}: {report:?}");
        assert!(report.settled >= 100, "{report:?}");
    }
}

/// The number in this environment variable.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask soak rehearsal` passes its numbers so")]
fn number(variable: &str) -> u64 {
    let text =
        std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; run `cargo xtask soak rehearsal`"));
    text.parse().expect("a number")
}

#[test]
#[ignore = "takes long; run by `cargo xtask soak rehearsal`"]
fn updates_end_from_each_of_very_many_states() {
    const STEPS: u64 = 20_000;
    let (steps, first) = (number("GROVE_REHEARSAL_STEPS"), number("GROVE_REHEARSAL_SEED"));
    for seed in first..first + steps.div_ceil(STEPS) {
        let report = explore(SET, seed, usize::try_from(STEPS).expect("a small number"))
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        println!("seed {seed}: {report:?}");
    }
}
