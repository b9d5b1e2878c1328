//! Replicas, scaling groups, gangs and autoscalers, with the scale of the template and with the current scale.

use expect_test::expect;

use super::check;

const TWO_CLIQUES: &str = "
replicas: REPLICAS
template:
  cliques:
  - {name: prefill, spec: {roleName: p, replicas: 2}}
  - {name: decode, spec: {roleName: d, replicas: 1}}
";

#[test]
fn a_replica_has_a_service_a_gang_and_its_cliques() {
    check(
        "llm",
        &TWO_CLIQUES.replace("REPLICAS", "2"),
        "",
        &expect![[r"
        replica 0 at llm-0.prod.svc.cluster.local
          clique llm-0-prefill × 2
          clique llm-0-decode × 1
          gang llm-0: llm-0-prefill, llm-0-decode
        replica 1 at llm-1.prod.svc.cluster.local
          clique llm-1-prefill × 2
          clique llm-1-decode × 1
          gang llm-1: llm-1-prefill, llm-1-decode
    "]],
    );
}

#[test]
fn a_set_with_0_replicas_expands_to_nothing() {
    check("llm", &TWO_CLIQUES.replace("REPLICAS", "0"), "", &expect![""]);
    check("llm", &TWO_CLIQUES.replace("replicas: REPLICAS\n", ""), "", &expect![""]);
}

#[test]
fn a_clique_without_replicas_has_one_pod() {
    let unsaid = TWO_CLIQUES.replace("REPLICAS", "1").replace("replicas: 2", "minAvailable: 1");
    check(
        "llm",
        &unsaid,
        "",
        &expect![[r"
        replica 0 at llm-0.prod.svc.cluster.local
          clique llm-0-prefill × 1
          clique llm-0-decode × 1
          gang llm-0: llm-0-prefill, llm-0-decode
    "]],
    );
}

#[test]
fn an_existing_clique_keeps_its_current_replicas() {
    check(
        "llm",
        &TWO_CLIQUES.replace("REPLICAS", "1"),
        "cliques: {llm-0-prefill: 5, llm-0-decode: 0}",
        &expect![[r"
        replica 0 at llm-0.prod.svc.cluster.local
          clique llm-0-prefill × 5
          clique llm-0-decode × 0
          gang llm-0: llm-0-prefill, llm-0-decode
    "]],
    );
}

/// A standalone clique, and a group with two replicas, of which the first belongs to the base gang.
const WORKED_EXAMPLE: &str = "
replicas: 1
template:
  cliques:
  - {name: f, spec: {roleName: f, replicas: 2, minAvailable: 1}}
  - {name: p, spec: {roleName: p, replicas: 1, minAvailable: 1}}
  - {name: d, spec: {roleName: d, replicas: 3, minAvailable: 2}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [p, d], replicas: 3, minAvailable: 1}
";

#[test]
fn each_replica_of_a_group_above_min_available_has_a_scaled_gang() {
    check(
        "m",
        WORKED_EXAMPLE,
        "",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 3 of 4 pods
            m-0-g-0 in gang m-0
              clique m-0-g-0-p × 1
              clique m-0-g-0-d × 3
            m-0-g-1 in gang m-0-g-0 after m-0
              clique m-0-g-1-p × 1
              clique m-0-g-1-d × 3
            m-0-g-2 in gang m-0-g-1 after m-0
              clique m-0-g-2-p × 1
              clique m-0-g-2-d × 3
          gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d
          gang m-0-g-0: m-0-g-1-p, m-0-g-1-d
          gang m-0-g-1: m-0-g-2-p, m-0-g-2-d
    "]],
    );
}

#[test]
fn an_existing_group_keeps_its_current_replicas() {
    check(
        "m",
        WORKED_EXAMPLE,
        "groups: {m-0-g: 2}",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 2 of 4 pods
            m-0-g-0 in gang m-0
              clique m-0-g-0-p × 1
              clique m-0-g-0-d × 3
            m-0-g-1 in gang m-0-g-0 after m-0
              clique m-0-g-1-p × 1
              clique m-0-g-1-d × 3
          gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d
          gang m-0-g-0: m-0-g-1-p, m-0-g-1-d
    "]],
    );
    check(
        "m",
        WORKED_EXAMPLE,
        "groups: {m-0-g: 4}",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 4 of 4 pods
            m-0-g-0 in gang m-0
              clique m-0-g-0-p × 1
              clique m-0-g-0-d × 3
            m-0-g-1 in gang m-0-g-0 after m-0
              clique m-0-g-1-p × 1
              clique m-0-g-1-d × 3
            m-0-g-2 in gang m-0-g-1 after m-0
              clique m-0-g-2-p × 1
              clique m-0-g-2-d × 3
            m-0-g-3 in gang m-0-g-2 after m-0
              clique m-0-g-3-p × 1
              clique m-0-g-3-d × 3
          gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d
          gang m-0-g-0: m-0-g-1-p, m-0-g-1-d
          gang m-0-g-1: m-0-g-2-p, m-0-g-2-d
          gang m-0-g-2: m-0-g-3-p, m-0-g-3-d
    "]],
    );
}

#[test]
fn a_group_scaled_below_min_available_has_the_requested_replicas() {
    check(
        "m",
        WORKED_EXAMPLE,
        "groups: {m-0-g: 0}",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 0 of 4 pods
          gang m-0: m-0-f
    "]],
    );
    check(
        "m",
        &WORKED_EXAMPLE.replace("minAvailable: 1}\n", "minAvailable: 3}\n"),
        "groups: {m-0-g: 2}",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 2 of 4 pods
            m-0-g-0 in gang m-0
              clique m-0-g-0-p × 1
              clique m-0-g-0-d × 3
            m-0-g-1 in gang m-0
              clique m-0-g-1-p × 1
              clique m-0-g-1-d × 3
          gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d, m-0-g-1-p, m-0-g-1-d
    "]],
    );
}

#[test]
fn a_group_with_min_available_replicas_has_no_scaled_gang() {
    check(
        "m",
        &WORKED_EXAMPLE.replace("replicas: 3, minAvailable: 1}", "replicas: 3, minAvailable: 3}"),
        "",
        &expect![[r"
            replica 0 at m-0.prod.svc.cluster.local
              clique m-0-f × 2
              group m-0-g × 3 of 4 pods
                m-0-g-0 in gang m-0
                  clique m-0-g-0-p × 1
                  clique m-0-g-0-d × 3
                m-0-g-1 in gang m-0
                  clique m-0-g-1-p × 1
                  clique m-0-g-1-d × 3
                m-0-g-2 in gang m-0
                  clique m-0-g-2-p × 1
                  clique m-0-g-2-d × 3
              gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d, m-0-g-1-p, m-0-g-1-d, m-0-g-2-p, m-0-g-2-d
        "]],
    );
}

#[test]
fn the_number_of_a_scaled_gang_starts_at_min_available() {
    check(
        "m",
        &WORKED_EXAMPLE.replace("replicas: 3, minAvailable: 1}", "replicas: 4, minAvailable: 2}"),
        "",
        &expect![[r"
            replica 0 at m-0.prod.svc.cluster.local
              clique m-0-f × 2
              group m-0-g × 4 of 4 pods
                m-0-g-0 in gang m-0
                  clique m-0-g-0-p × 1
                  clique m-0-g-0-d × 3
                m-0-g-1 in gang m-0
                  clique m-0-g-1-p × 1
                  clique m-0-g-1-d × 3
                m-0-g-2 in gang m-0-g-0 after m-0
                  clique m-0-g-2-p × 1
                  clique m-0-g-2-d × 3
                m-0-g-3 in gang m-0-g-1 after m-0
                  clique m-0-g-3-p × 1
                  clique m-0-g-3-d × 3
              gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d, m-0-g-1-p, m-0-g-1-d
              gang m-0-g-0: m-0-g-2-p, m-0-g-2-d
              gang m-0-g-1: m-0-g-3-p, m-0-g-3-d
        "]],
    );
}

#[test]
fn a_group_without_replicas_and_min_available_has_one_replica_in_the_base_gang() {
    check(
        "m",
        &WORKED_EXAMPLE.replace(", replicas: 3, minAvailable: 1}", "}"),
        "",
        &expect![[r"
        replica 0 at m-0.prod.svc.cluster.local
          clique m-0-f × 2
          group m-0-g × 1 of 4 pods
            m-0-g-0 in gang m-0
              clique m-0-g-0-p × 1
              clique m-0-g-0-d × 3
          gang m-0: m-0-f, m-0-g-0-p, m-0-g-0-d
    "]],
    );
}

#[test]
fn each_replica_has_autoscalers_for_its_standalone_cliques_and_groups() {
    let scaled = "
replicas: 2
template:
  cliques:
  - {name: a, spec: {roleName: a, replicas: 2, autoScalingConfig: {maxReplicas: 5}}}
  - {name: b, spec: {roleName: b, replicas: 1}}
  - {name: c, spec: {roleName: c, replicas: 1}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [b], replicas: 2, scaleConfig: {minReplicas: 1, maxReplicas: 4}}
  - {name: h, cliqueNames: [c], replicas: 3, scaleConfig: {maxReplicas: 6}}
";
    check(
        "s",
        scaled,
        "",
        &expect![[r"
        replica 0 at s-0.prod.svc.cluster.local
          clique s-0-a × 2
          group s-0-g × 2 of 1 pods
            s-0-g-0 in gang s-0
              clique s-0-g-0-b × 1
            s-0-g-1 in gang s-0-g-0 after s-0
              clique s-0-g-1-b × 1
          group s-0-h × 3 of 1 pods
            s-0-h-0 in gang s-0
              clique s-0-h-0-c × 1
            s-0-h-1 in gang s-0-h-0 after s-0
              clique s-0-h-1-c × 1
            s-0-h-2 in gang s-0-h-1 after s-0
              clique s-0-h-2-c × 1
          gang s-0: s-0-a, s-0-g-0-b, s-0-h-0-c
          gang s-0-g-0: s-0-g-1-b
          gang s-0-h-0: s-0-h-1-c
          gang s-0-h-1: s-0-h-2-c
          autoscaler s-0-a of clique s-0-a: 2 to 5
          autoscaler s-0-g of group s-0-g: 1 to 4
          autoscaler s-0-h of group s-0-h: 3 to 6
        replica 1 at s-1.prod.svc.cluster.local
          clique s-1-a × 2
          group s-1-g × 2 of 1 pods
            s-1-g-0 in gang s-1
              clique s-1-g-0-b × 1
            s-1-g-1 in gang s-1-g-0 after s-1
              clique s-1-g-1-b × 1
          group s-1-h × 3 of 1 pods
            s-1-h-0 in gang s-1
              clique s-1-h-0-c × 1
            s-1-h-1 in gang s-1-h-0 after s-1
              clique s-1-h-1-c × 1
            s-1-h-2 in gang s-1-h-1 after s-1
              clique s-1-h-2-c × 1
          gang s-1: s-1-a, s-1-g-0-b, s-1-h-0-c
          gang s-1-g-0: s-1-g-1-b
          gang s-1-h-0: s-1-h-1-c
          gang s-1-h-1: s-1-h-2-c
          autoscaler s-1-a of clique s-1-a: 2 to 5
          autoscaler s-1-g of group s-1-g: 1 to 4
          autoscaler s-1-h of group s-1-h: 3 to 6
    "]],
    );
}
