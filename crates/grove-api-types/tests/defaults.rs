//! The typed defaults of sets, and the syntax of durations.

use std::time;

use expect_test::{Expect, expect};
use grove_api_types::admission::default::pod_clique_set;
use grove_api_types::duration::GoDuration;
use grove_api_types::v1alpha1::PodCliqueSet;
use serde_json::{Value, json};

fn set(spec: &str) -> PodCliqueSet {
    let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
    let set =
        json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": "s" }, "spec": spec });
    serde_json::from_value(set).expect("a set")
}

#[track_caller]
fn check(spec: &str, expected: &Expect) {
    let set = pod_clique_set(&set(spec));
    assert_eq!(pod_clique_set(&set), set, "a second defaulting changes nothing");
    let spec = serde_json::to_value(&set.spec).expect("a set can be serialized");
    expected.assert_eq(&serde_saphyr::to_string(&spec).expect("YAML"));
}

#[test]
fn omitted_fields_get_their_defaults() {
    check(
        "
template:
  cliques:
  - {name: a, spec: {podSpec: {containers: []}}}
  - {name: b, spec: {replicas: 3, autoScalingConfig: {maxReplicas: 9}, podSpec: {restartPolicy: ' '}}}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [a], scaleConfig: {maxReplicas: 4}}
",
        &expect![[r#"
            replicas: 0
            template:
              cliqueStartupType: CliqueStartupTypeAnyOrder
              cliques:
              - name: a
                spec:
                  minAvailable: 1
                  podSpec:
                    containers: []
                    restartPolicy: Always
                    terminationGracePeriodSeconds: 30
                  replicas: 1
                  roleName: ""
              - name: b
                spec:
                  autoScalingConfig:
                    maxReplicas: 9
                    minReplicas: 3
                  minAvailable: 3
                  podSpec:
                    restartPolicy: Always
                    terminationGracePeriodSeconds: 30
                  replicas: 3
                  roleName: ""
              headlessServiceConfig:
                publishNotReadyAddresses: true
              podCliqueScalingGroups:
              - cliqueNames:
                - a
                minAvailable: 1
                name: g
                replicas: 1
                scaleConfig:
                  maxReplicas: 4
                  minReplicas: 1
              terminationDelay: 4h0m0s
        "#]],
    );
}

#[test]
fn explicit_values_are_preserved() {
    check(
        "
replicas: 2
updateStrategy: {}
template:
  cliqueStartupType: CliqueStartupTypeInOrder
  terminationDelay: 15m
  headlessServiceConfig: {publishNotReadyAddresses: false}
  cliques:
  - name: a
    spec:
      roleName: r
      replicas: 3
      minAvailable: 2
      autoScalingConfig: {minReplicas: 2, maxReplicas: 9}
      podSpec: {restartPolicy: Never, terminationGracePeriodSeconds: 0}
  podCliqueScalingGroups:
  - {name: g, cliqueNames: [a], replicas: 4, minAvailable: 2, scaleConfig: {minReplicas: 3, maxReplicas: 4}}
",
        &expect![[r"
            replicas: 2
            template:
              cliqueStartupType: CliqueStartupTypeInOrder
              cliques:
              - name: a
                spec:
                  autoScalingConfig:
                    maxReplicas: 9
                    minReplicas: 2
                  minAvailable: 2
                  podSpec:
                    restartPolicy: Never
                    terminationGracePeriodSeconds: 0
                  replicas: 3
                  roleName: r
              headlessServiceConfig:
                publishNotReadyAddresses: false
              podCliqueScalingGroups:
              - cliqueNames:
                - a
                minAvailable: 2
                name: g
                replicas: 4
                scaleConfig:
                  maxReplicas: 4
                  minReplicas: 3
              terminationDelay: 15m
            updateStrategy:
              type: RollingRecreate
        "]],
    );
}

#[test]
fn durations_have_the_syntax_of_go() {
    let read = |text: &str| GoDuration::new(text).value();
    let seconds = |seconds: f64| Some(time::Duration::from_secs_f64(seconds));
    let rows = [
        ("4h", seconds(14_400.0)),
        ("4h0m0s", seconds(14_400.0)),
        ("1m30s", seconds(90.0)),
        ("1.5h", seconds(5_400.0)),
        (".5s", seconds(0.5)),
        ("+2s", seconds(2.0)),
        ("250ms", seconds(0.25)),
        ("3us", seconds(0.000_003)),
        ("3µs", seconds(0.000_003)),
        ("7ns", seconds(0.000_000_007)),
        ("99999999999999999999h", Some(time::Duration::MAX)),
        ("", None),
        ("4", None),
        ("h", None),
        ("4d", None),
        ("4 h", None),
        ("-4h", None),
        ("1.2.3s", None),
    ];
    for (text, expected) in rows {
        assert_eq!(read(text), expected, "{text:?}");
    }
}
