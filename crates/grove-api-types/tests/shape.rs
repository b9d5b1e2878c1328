//! Rows for every naming rule: a set as YAML in, all that it implies as YAML out.

#![allow(clippy::expect_used, reason = "whatever fails here fails the test")]

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use grove_api_types::core::PodCliqueSet;
use grove_api_types::names::{PodCliqueName, PodName};
use grove_api_types::{admission, shape};
use kube::ResourceExt;

fn set(yaml: &str) -> PodCliqueSet {
    let value: serde_json::Value = serde_saphyr::from_str(yaml).expect("the row is YAML");
    serde_json::from_value(value).expect("the row is a set")
}

#[track_caller]
fn check(yaml: &str, expected: &Expect) {
    let set = admission::default::pod_clique_set(&set(yaml));
    let namespace = set.namespace().unwrap_or_default();
    let mut text = String::new();
    for replica in shape::replicas(&set) {
        let shape::SetReplica { index, service, base_gang, cliques } = replica;
        let _ = writeln!(text, "replica {index}: {{service: {service}, gang: {base_gang}}}");
        let _ = writeln!(text, "  address: {}", service.address(&namespace));
        for shape::Clique { name, template } in cliques {
            let hosts: Vec<_> =
                shape::hostnames(&name, template.spec.replicas).map(|(_, hostname)| hostname.to_string()).collect();
            let _ = writeln!(text, "  clique {name}: {hosts:?}");
        }
    }
    expected.assert_eq(&text);
}

const TWO_CLIQUES: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm, namespace: prod}
spec:
  replicas: REPLICAS
  template:
    cliques:
    - {name: prefill, spec: {roleName: p, replicas: 2, podSpec: {containers: []}}}
    - {name: decode, spec: {roleName: d, replicas: 1, podSpec: {containers: []}}}
";

#[test]
fn a_replica_has_a_service_a_gang_and_its_cliques() {
    check(
        &TWO_CLIQUES.replace("REPLICAS", "2"),
        &expect![[r#"
            replica 0: {service: llm-0, gang: llm-0}
              address: llm-0.prod.svc.cluster.local
              clique llm-0-prefill: ["llm-0-prefill-0", "llm-0-prefill-1"]
              clique llm-0-decode: ["llm-0-decode-0"]
            replica 1: {service: llm-1, gang: llm-1}
              address: llm-1.prod.svc.cluster.local
              clique llm-1-prefill: ["llm-1-prefill-0", "llm-1-prefill-1"]
              clique llm-1-decode: ["llm-1-decode-0"]
        "#]],
    );
}

#[test]
fn a_set_of_no_replicas_implies_nothing() {
    check(&TWO_CLIQUES.replace("REPLICAS", "0"), &expect![""]);
}

#[test]
fn absent_replicas_are_none() {
    check(&TWO_CLIQUES.replace("  replicas: REPLICAS\n", ""), &expect![""]);
}

#[test]
fn a_clique_of_unsaid_size_has_one_pod() {
    check(
        &TWO_CLIQUES.replace("REPLICAS", "1").replace("replicas: 2", "replicas: 0"),
        &expect![[r#"
            replica 0: {service: llm-0, gang: llm-0}
              address: llm-0.prod.svc.cluster.local
              clique llm-0-prefill: ["llm-0-prefill-0"]
              clique llm-0-decode: ["llm-0-decode-0"]
        "#]],
    );
}

#[track_caller]
fn pod_name(uid: &str, index: i32, replaces: Option<&str>) -> String {
    PodName::candidates(&PodCliqueName::new("llm-0-decode"), uid, index, replaces).next().expect("endless").to_string()
}

#[test]
fn a_pod_is_named_by_its_clique_its_index_and_what_it_replaces() {
    expect!["llm-0-decode-xb2gc"].assert_eq(&pod_name("u1", 0, None));
    let names = [
        pod_name("u1", 0, None),
        pod_name("u1", 1, None),
        pod_name("u2", 0, None),
        pod_name("u1", 0, Some("p1")),
        pod_name("u1", 0, Some("p2")),
    ];
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn a_name_that_is_taken_has_successors() {
    let clique = PodCliqueName::new("c");
    let names: Vec<_> = PodName::candidates(&clique, "u", 0, None).take(3).map(|name| name.to_string()).collect();
    assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    assert!(names.iter().all(|name| name.len() == "c-".len() + 5), "{names:?}");
}
