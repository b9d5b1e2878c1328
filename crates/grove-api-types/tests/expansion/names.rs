//! Names that are parts of other names.

use expect_test::expect;

use super::check;

#[test]
fn names_that_contain_other_names_stay_distinct() {
    let nested = "
replicas: 1
template:
  cliques:
  - {name: worker, spec: {roleName: a, replicas: 1}}
  - {name: prefill-worker, spec: {roleName: b, replicas: 2}}
  - {name: pre, spec: {roleName: c, replicas: 3}}
  - {name: prefill, spec: {roleName: d, replicas: 4}}
  - {name: '0', spec: {roleName: e, replicas: 5}}
  podCliqueScalingGroups:
  - {name: work, cliqueNames: [worker], replicas: 2}
  - {name: worker, cliqueNames: [prefill-worker], replicas: 2}
";
    check(
        "x-0",
        nested,
        "",
        &expect![[r"
        replica 0 at x-0-0.prod.svc.cluster.local
          clique x-0-0-pre × 3
          clique x-0-0-prefill × 4
          clique x-0-0-0 × 5
          group x-0-0-work × 2 of 1 pods
            x-0-0-work-0 in gang x-0-0
              clique x-0-0-work-0-worker × 1
            x-0-0-work-1 in gang x-0-0-work-0 after x-0-0
              clique x-0-0-work-1-worker × 1
          group x-0-0-worker × 2 of 2 pods
            x-0-0-worker-0 in gang x-0-0
              clique x-0-0-worker-0-prefill-worker × 2
            x-0-0-worker-1 in gang x-0-0-worker-0 after x-0-0
              clique x-0-0-worker-1-prefill-worker × 2
          gang x-0-0: x-0-0-pre, x-0-0-prefill, x-0-0-0, x-0-0-work-0-worker, x-0-0-worker-0-prefill-worker
          gang x-0-0-work-0: x-0-0-work-1-worker
          gang x-0-0-worker-0: x-0-0-worker-1-prefill-worker
    "]],
    );
}
