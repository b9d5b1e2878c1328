//! The pod affinity of the topology constraints of the gang.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use std::fmt::Write;

use expect_test::{Expect, expect};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Create, Step};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{check, plan, snapshot, status};

const REPLICA: &str = r#"{"required":{"scope":"replica","keys":["block","rack"]},"preferred":[{"scope":"gang","key":"block"},{"scope":"clique","key":"host"}]}"#;

/// The first pod that the plan creates for a clique with this affinity in its annotation.
fn created(affinity: &str, pod_spec: &Value) -> Value {
    let row = json!({
        "replicas": 1, "gang": [], "podSpec": pod_spec,
        "labels": { "grove.io/podcliquescalinggroup": "llm-0-g", "grove.io/podcliquescalinggroup-replica-index": "3" },
        "annotations": { "grove.io/pod-group": "llm-0-17", "grove.io/pack-affinity": affinity },
    });
    let plan = plan(&snapshot(&row.to_string()));
    let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no pod: {plan}") };
    object.value()
}

/// The terms of an affinity, one per line.
#[track_caller]
fn check_terms(affinity: &str, pod_spec: &Value, expected: &Expect) {
    let object = created(affinity, pod_spec);
    assert_eq!(object["metadata"]["annotations"]["grove.io/pack-affinity"], affinity);
    assert_eq!(object["metadata"]["labels"]["grove.io/podgang-incarnation"], "17");
    let mut lines = String::new();
    for (kind, lists) in object["spec"]["affinity"].as_object().into_iter().flatten() {
        for (list, terms) in lists.as_object().into_iter().flatten() {
            for term in terms.as_array().into_iter().flatten() {
                let list = list.trim_end_matches("DuringSchedulingIgnoredDuringExecution");
                writeln!(lines, "{kind} {list} {term}").expect("a string");
            }
        }
    }
    expected.assert_eq(&lines);
}

#[test]
fn an_affinity_selects_the_pods_of_the_incarnation() {
    let pod_spec = json!({ "containers": [] });
    check_terms(
        REPLICA,
        &pod_spec,
        &expect![[r#"
        podAffinity preferred {"podAffinityTerm":{"labelSelector":{"matchLabels":{"grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"block"},"weight":1}
        podAffinity preferred {"podAffinityTerm":{"labelSelector":{"matchLabels":{"grove.io/podclique":"llm-0-decode","grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"host"},"weight":100}
        podAffinity required {"labelSelector":{"matchLabels":{"grove.io/podcliquescalinggroup":"llm-0-g","grove.io/podcliquescalinggroup-replica-index":"3","grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"block"}
        podAffinity required {"labelSelector":{"matchLabels":{"grove.io/podcliquescalinggroup":"llm-0-g","grove.io/podcliquescalinggroup-replica-index":"3","grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"rack"}
    "#]],
    );
    check_terms(
        r#"{"required":{"scope":"clique","keys":["host"]}}"#,
        &pod_spec,
        &expect![[r#"
        podAffinity required {"labelSelector":{"matchLabels":{"grove.io/podclique":"llm-0-decode","grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"host"}
    "#]],
    );
    check_terms(
        r#"{"required":{"scope":"gang","keys":["rack"]}}"#,
        &pod_spec,
        &expect![[r#"
        podAffinity required {"labelSelector":{"matchLabels":{"grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"rack"}
    "#]],
    );
    check_terms("{}", &pod_spec, &expect![[""]]);
    check_terms(r#"{"v":1}"#, &pod_spec, &expect![[""]]);
}

/// A clique with one bound pod, one pending pod and one free index.
fn row_with(annotations: &str) -> String {
    format!(
        "{{replicas: 3, gang: [a, b], annotations: {{{annotations}}}, pods: [{{i: 0, name: a, group: llm-0-1, affinity: '{{}}', bound: true}},
          {{i: 1, name: b, group: llm-0-1, affinity: '{{}}'}}]}}"
    )
}

#[test]
fn without_a_readable_affinity_no_pod_is_created_and_existing_pods_stay() {
    let group = "grove.io/pod-group: llm-0-1";
    check(
        &row_with(&format!(
            r#"{group}, grove.io/pack-affinity: '{{"v":2,"required":{{"scope":"gang","keys":["rack"]}}}}'"#
        )),
        &expect![[r"
            wait: UnreadableAnnotation annotation grove.io/pack-affinity has version 2, and this pclq-controller reads only version 1; upgrade pclq-controller, or remove the annotation, so that the running pcs-controller writes it again
            warn: UnreadableAnnotation no pods are created: annotation grove.io/pack-affinity has version 2, and this pclq-controller reads only version 1; upgrade pclq-controller, or remove the annotation, so that the running pcs-controller writes it again
        "]],
    );
    check(
        &row_with(&format!(r#"{group}, grove.io/pack-affinity: '{{"required":{{"scope":"rack","keys":["rack"]}}}}'"#)),
        &expect![[r"
            wait: UnreadableAnnotation annotation grove.io/pack-affinity cannot be decoded: unknown variant `rack`, expected one of `gang`, `replica`, `clique` at line 1 column 27; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
            warn: UnreadableAnnotation no pods are created: annotation grove.io/pack-affinity cannot be decoded: unknown variant `rack`, expected one of `gang`, `replica`, `clique` at line 1 column 27; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
        "]],
    );
    check(
        &row_with(&format!("{group}, grove.io/pack-affinity: '['")),
        &expect![[r"
        wait: UnreadableAnnotation annotation grove.io/pack-affinity cannot be decoded: it is not a JSON object; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
        warn: UnreadableAnnotation no pods are created: annotation grove.io/pack-affinity cannot be decoded: it is not a JSON object; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
    "]],
    );
    check(
        &row_with(&format!("{group}, grove.io/pack-affinity: ''")),
        &expect![[r"
        wait: UnreadableAnnotation annotation grove.io/pack-affinity cannot be decoded: it is not a JSON object; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
        warn: UnreadableAnnotation no pods are created: annotation grove.io/pack-affinity cannot be decoded: it is not a JSON object; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
    "]],
    );
    check(
        &row_with(&format!("{group}, grove.io/pack-affinity: '{{}}'")),
        &expect![[r"
        pods: create Pod ~-6vmjz
    "]],
    );
}

#[test]
fn without_a_readable_pod_group_no_pod_is_created() {
    check(
        &row_with("grove.io/pod-group: of-a-later-version"),
        &expect![[r"
            wait: UnreadableAnnotation annotation grove.io/pod-group cannot be decoded: it is not the name of the PodGang, llm-0, a hyphen, a number, and possibly a dot and another number; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
            warn: UnreadableAnnotation no pods are created: annotation grove.io/pod-group cannot be decoded: it is not the name of the PodGang, llm-0, a hyphen, a number, and possibly a dot and another number; pcs-controller restores it; if it does not, check that pcs-controller runs and has the version of pclq-controller
        "]],
    );
}

#[test]
fn unreadable_annotations_are_an_error_and_one_event() {
    let row = r#"{replicas: 1, gang: [], annotations: {grove.io/pod-group: llm-0-1, grove.io/pack-affinity: '{"v":2}'},
                  claims: {invalid: 'annotation a has version 3'}}"#;
    let mut observed = snapshot(row);
    let plan = plan(&observed);
    expect![[r"
        wait: ResourceClaimsInvalid annotation a has version 3
        wait: UnreadableAnnotation annotation grove.io/pack-affinity has version 2, and this pclq-controller reads only version 1; upgrade pclq-controller, or remove the annotation, so that the running pcs-controller writes it again
        warn: UnreadableAnnotation no pods are created: annotation a has version 3; annotation grove.io/pack-affinity has version 2, and this pclq-controller reads only version 1; upgrade pclq-controller, or remove the annotation, so that the running pcs-controller writes it again
    "]].assert_eq(&plan.to_string());
    let status = status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let [error] = &status.last_errors[..] else { panic!("{status:?}") };
    assert_eq!((error.code.as_str(), &error.description), ("ERR_UNREADABLE_ANNOTATION", &plan.warnings[0].note));
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("Available");
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "ResourceClaimsInvalid"));
    observed.clique.status = Some(status);
    assert_eq!(super::plan(&observed).warnings, [], "it is reported");
    let annotations = observed.clique.metadata.annotations.as_mut().expect("annotations");
    annotations.insert("grove.io/pack-affinity".to_owned(), r#"{"v":3}"#.to_owned());
    assert_eq!(super::plan(&observed).warnings.len(), 1, "another cause");
    observed.claims.invalid = None;
    let condition = &super::status(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH).conditions;
    let condition = condition.iter().find(|condition| condition.type_ == "Available").expect("Available");
    assert_eq!(condition.reason, "UnreadableAnnotation");
    assert!(condition.message.contains("annotation grove.io/pack-affinity has version 3"), "{}", condition.message);
}

#[test]
fn pending_pods_with_the_value_of_an_older_writer_stay() {
    let row = |of_clique: &str, of_pod: &str| {
        format!(
            "{{replicas: 1, gang: [a], annotations: {{grove.io/pod-group: llm-0-1, grove.io/pack-affinity: '{of_clique}'}},
              pods: [{{i: 0, name: a, group: llm-0-1, affinity: '{of_pod}'}}]}}"
        )
    };
    let (old, new) =
        (r#"{"required":{"scope":"gang","keys":["rack"]}}"#, r#"{"v":1,"required":{"scope":"gang","keys":["rack"]}}"#);
    check(
        &row(new, old),
        &expect![[r"
        nothing to do
    "]],
    );
    check(
        &row(old, new),
        &expect![[r"
        nothing to do
    "]],
    );
    let later = r#"{"v":2,"required":{"scope":"gang","keys":["rack"]}}"#;
    check(
        &row(new, later),
        &expect![[r"
            pods: delete Pod ~-a
        "]],
    );
}

#[test]
fn the_affinity_of_the_user_stays() {
    let term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "cache" } } });
    let node = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } });
    let affinity = json!({ "nodeAffinity": node, "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": null },
        "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 7, "podAffinityTerm": term }] } });
    let gang = r#"{"required":{"scope":"clique","keys":["host"]},"preferred":[{"scope":"gang","key":"rack"}]}"#;
    let pod_spec = json!({ "affinity": affinity, "containers": [] });
    check_terms(
        gang,
        &pod_spec,
        &expect![[r#"
        podAffinity preferred {"podAffinityTerm":{"labelSelector":{"matchLabels":{"grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"rack"},"weight":1}
        podAffinity required {"labelSelector":{"matchLabels":{"app":"cache"}},"topologyKey":"zone"}
        podAffinity required {"labelSelector":{"matchLabels":{"grove.io/podclique":"llm-0-decode","grove.io/podgang":"llm-0","grove.io/podgang-incarnation":"17"}},"topologyKey":"host"}
        podAntiAffinity preferred {"podAffinityTerm":{"labelSelector":{"matchLabels":{"app":"cache"}},"topologyKey":"zone"},"weight":7}
    "#]],
    );
    assert_eq!(created(gang, &pod_spec)["spec"]["affinity"]["nodeAffinity"], node);
    for empty in [json!(null), json!({ "podAffinity": null })] {
        let pod_spec = json!({ "affinity": empty, "containers": [] });
        let terms = created(gang, &pod_spec)["spec"]["affinity"]["podAffinity"].as_object().expect("an object").len();
        assert_eq!(terms, 2, "{empty}");
    }
}

#[test]
fn pending_pods_with_other_constraints_are_deleted_and_replaced_after_that() {
    let row = |pods: &str| {
        let pods = pods.replace("new", r#"'{"v":1}'"#);
        format!(
            r#"{{replicas: 4, gang: [], annotations: {{grove.io/pod-group: llm-0-1, grove.io/pack-affinity: '{{"v":1}}'}}, pods: [{pods}]}}"#
        )
    };
    check(
        &row("{i: 0, name: a, group: llm-0-1, affinity: old, bound: true}, {i: 1, name: b, group: llm-0-1, affinity: old, version: '5'},
              {i: 2, name: c, group: llm-0-1, affinity: new}, {i: 3, name: d, group: llm-0-1}"),
        &expect![[r"
            pods: delete Pod ~-b at version 5
        "]],
    );
    check(
        &row("{i: 0, name: a, group: llm-0-1, affinity: old, bound: true}, {i: 1, name: b, group: llm-0-1, affinity: old, terminating: true},
              {i: 2, name: c, group: llm-0-1, affinity: new}, {i: 3, name: d, group: llm-0-1}"),
        &expect![[r"
            pods: create Pod ~-lpll5
        "]],
    );
}

#[test]
fn pods_without_constraints_have_an_empty_annotation() {
    let row = "{replicas: 1, gang: [x], annotations: {grove.io/pod-group: llm-0-1}, pods: [{i: 0, name: x, group: llm-0-1, affinity: AFFINITY}]}";
    check(
        &row.replace("AFFINITY", "''"),
        &expect![[r"
        nothing to do
    "]],
    );
    check(
        &row.replace("AFFINITY", "old"),
        &expect![[r"
            pods: delete Pod ~-x
        "]],
    );
}

#[test]
fn the_incarnation_of_a_pod_is_restored_from_its_own_pod_group() {
    let row =
        "{replicas: 1, gang: [x], annotations: {grove.io/pod-group: llm-0-2}, pods: [{i: 0, name: x, group: llm-0-1}]}";
    let mut observed = snapshot(row);
    let pod = std::sync::Arc::make_mut(&mut observed.pods[0]);
    pod.metadata.labels.as_mut().expect("labels").remove("grove.io/podgang-incarnation");
    expect![[r#"
        labels: patch Pod llm-0-decode-x {"metadata":{"labels":{"grove.io/podgang-incarnation":"1"}}}
    "#]]
    .assert_eq(&plan(&observed).to_string());
}
