//! Gangs of cliques that users scaled below their minimums.

use super::*;

/// The users of two cliques have scaled them below their minimum.
const SCALED_DOWN: &str = "cliques: {a: {}, b: {min: 2, replicas: 0}, c: {min: 3, replicas: 2}}";

#[test]
fn kai_demands_only_pods_that_are_wanted() {
    let config = "{name: g, podGroupNames: [b, c], topologyConstraint: {packConstraint: {required: rack}}}";
    check_plan(
        &format!(
            "{{scheduler: kai-scheduler, {SCALED_DOWN}, gang: {{metadata: {{labels: {{kai.scheduler/queue: q}}, annotations: \
             {{grove.io/topology-name: t}}}}, spec: {{topologyConstraintGroupConfigs: [{config}]}}}}}}"
        ),
        &expect![[r#"
            scheduling.run.ai/v2alpha2 PodGroup
            minMember: 3
            queue: q
            subGroups:
            - minSubGroup: 1
              name: g
              topologyConstraint:
                requiredTopologyLevel: rack
                topology: t
            - minMember: 1
              name: a
            - minMember: 2
              name: c
              parent: g
            topologyConstraint: {}
        "#]],
    );
}

#[test]
fn volcano_demands_only_pods_that_are_wanted() {
    check_plan(
        &format!("{{scheduler: volcano, {SCALED_DOWN}}}"),
        &expect![[r#"
        scheduling.volcano.sh/v1beta1 PodGroup
        minMember: 3
        queue: default
        subGroupPolicy:
        - labelSelector:
            matchLabels:
              grove.io/podclique: a
          matchLabelKeys:
          - grove.io/podclique
          minSubGroups: 1
          name: a
          subGroupSize: 1
        - labelSelector:
            matchLabels:
              grove.io/podclique: c
          matchLabelKeys:
          - grove.io/podclique
          minSubGroups: 1
          name: c
          subGroupSize: 2
    "#]],
    );
    // Without any wanted pod, nothing waits for the others.
    check_plan(
        "{scheduler: volcano, cliques: {a: {min: 2, replicas: 0}}}",
        &expect![[r#"
        scheduling.volcano.sh/v1beta1 PodGroup
        minMember: 2
        queue: default
        subGroupPolicy:
        - labelSelector:
            matchLabels:
              grove.io/podclique: a
          matchLabelKeys:
          - grove.io/podclique
          minSubGroups: 1
          name: a
          subGroupSize: 2
    "#]],
    );
}
