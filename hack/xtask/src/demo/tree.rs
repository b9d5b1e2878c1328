//! The tree of a set as text: set, gangs, cliques, and pods with node and state.

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::live_objects::{LiveObjects, is_ready, owned_by};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Draws all objects of the namespace. Objects whose uids are not in `known` are marked as new, unless `known` is empty.
pub(crate) fn draw(objects: &LiveObjects, known: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for set in objects.sets.values() {
        let available = set.status.as_ref().map_or(0, |status| status.available_replicas);
        line(
            &mut text,
            "",
            &format!("PodCliqueSet {}", set.name_any()),
            &format!("{available}/{} available, {}", set.spec.replicas, availability(set)),
        );
        let gangs = owned_by(&objects.gangs, set);
        for (at, gang) in gangs.iter().enumerate() {
            let (branch, below) = branches(at, gangs.len());
            let phase = gang.status.as_ref().map_or_else(|| "new".to_owned(), |status| format!("{:?}", status.phase));
            line(&mut text, branch, &format!("PodGang {}", gang.name_any()), &phase);
            draw_cliques(&mut text, objects, known, (&gang.name_any(), below));
        }
    }
    match objects.count() {
        _ if !text.is_empty() => text,
        0 => "(no objects)\n".to_owned(),
        count => format!("(no set; {count} terminating objects)\n"),
    }
}

fn draw_cliques(text: &mut String, objects: &LiveObjects, known: &BTreeSet<String>, (gang, indent): (&str, &str)) {
    let is_member = |clique: &&PodClique| clique.labels().get(labels::POD_GANG).is_some_and(|label| label == gang);
    let cliques: Vec<&PodClique> = objects.cliques.values().filter(is_member).collect();
    for (at, clique) in cliques.iter().enumerate() {
        let (branch, below) = branches(at, cliques.len());
        let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
        let terminating = if is_terminating(*clique) { ", terminating" } else { "" };
        line(
            text,
            &format!("{indent}{branch}"),
            &format!("PodClique {}", clique.name_any()),
            &format!("{ready}/{} ready{terminating}{}", clique.spec.replicas, mark_new(*clique, known)),
        );
        let pods = owned_by(&objects.pods, *clique);
        for (at, pod) in pods.iter().enumerate() {
            let (branch, _) = branches(at, pods.len());
            line(
                text,
                &format!("{indent}{below}{branch}"),
                &format!("Pod {}", pod.name_any()),
                &format!("{}{}", pod_state(pod), mark_new(*pod, known)),
            );
        }
    }
}

fn pod_state(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Unknown");
    let is_gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    let state = if is_terminating(pod) {
        "Terminating"
    } else if is_gated {
        "Gated"
    } else if is_ready(pod) {
        "Ready"
    } else {
        phase
    };
    format!("{node:<8} {state}")
}

/// The condition Available, with its reason if it is not true.
fn availability(set: &PodCliqueSet) -> String {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    match conditions.into_iter().find(|condition| condition.type_ == "Available") {
        Some(condition) if condition.status == "True" => "Available".to_owned(),
        Some(condition) => format!("not Available: {}", condition.reason),
        None => "Available not reported".to_owned(),
    }
}

fn mark_new(object: &impl Resource, known: &BTreeSet<String>) -> &'static str {
    if known.is_empty() || object.meta().uid.as_ref().is_some_and(|uid| known.contains(uid)) { "" } else { "  <- new" }
}

fn branches(at: usize, count: usize) -> (&'static str, &'static str) {
    if at + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") }
}

fn line(text: &mut String, branch: &str, object: &str, state: &str) {
    // Writing to a String cannot fail.
    _ = writeln!(text, "{:<48} {state}", format!("{branch}{object}"));
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::demo::readiness::is_ready;
    use expect_test::{Expect, expect};
    use grove_dev_harness::live_objects::{LiveObjects, Objects};
    use kube::ResourceExt;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn objects(yaml: &str) -> LiveObjects {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
        LiveObjects {
            sets: of_kind(&documents, "PodCliqueSet"),
            gangs: of_kind(&documents, "PodGang"),
            cliques: of_kind(&documents, "PodClique"),
            pods: of_kind(&documents, "Pod"),
            ..LiveObjects::default()
        }
    }

    fn of_kind<K: ResourceExt + DeserializeOwned>(documents: &[Value], kind: &str) -> Objects<K> {
        let of_kind = documents.iter().filter(|document| document["kind"] == kind);
        let objects = of_kind.map(|document| serde_json::from_value::<K>(document.clone()).unwrap());
        objects.map(|object| (object.name_any(), object)).collect()
    }

    #[track_caller]
    fn check(objects: &LiveObjects, expected: &Expect) {
        expected.assert_eq(&draw(objects, &BTreeSet::new()));
    }

    const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, uid: s, generation: 1}
spec:
  replicas: 1
  template: {cliques: [{name: decode, spec: {roleName: decode, replicas: 1, podSpec: {containers: []}}}]}
status:
  observedGeneration: 1
  availableReplicas: 1
  conditions:
  - {type: Available, status: 'True', reason: AllReplicasAvailable, message: '', lastTransitionTime: 2025-01-01T00:00:00Z}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, uid: g, ownerReferences: [{apiVersion: v1, kind: PodCliqueSet, name: demo, uid: s}]}
spec: {podgroups: []}
status: {phase: Running}
---
apiVersion: grove.io/v1alpha1
kind: PodClique
metadata:
  name: demo-0-decode
  uid: c
  labels: {grove.io/podgang: demo-0}
  ownerReferences: [{apiVersion: v1, kind: PodCliqueSet, name: demo, uid: s}]
spec: {roleName: decode, replicas: 1, podSpec: {containers: []}}
status: {readyReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: demo-0-decode-abcde, uid: p, ownerReferences: [{apiVersion: v1, kind: PodClique, name: c, uid: c}]}
spec: {nodeName: node-3, containers: []}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
";

    #[test]
    fn a_ready_set_is_drawn_with_its_pods() {
        let objects = objects(SET);
        check(
            &objects,
            &expect![[r"
                PodCliqueSet demo                                1/1 available, Available
                └─ PodGang demo-0                                Running
                   └─ PodClique demo-0-decode                    1/1 ready
                      └─ Pod demo-0-decode-abcde                 node-3   Ready
            "]],
        );
        assert!(is_ready(&objects, "demo"));
    }

    #[test]
    fn new_objects_are_marked() {
        let known = BTreeSet::from(["s", "g", "c"].map(str::to_owned));
        let drawn = draw(&objects(SET), &known);
        let marked: Vec<&str> = drawn.lines().filter(|line| line.ends_with("<- new")).collect();
        assert_eq!(marked, ["      └─ Pod demo-0-decode-abcde                 node-3   Ready  <- new"]);
    }

    #[test]
    fn a_namespace_without_objects_is_drawn_as_such() {
        let objects = LiveObjects::default();
        check(
            &objects,
            &expect![["
            (no objects)
        "]],
        );
        assert!(objects.is_empty() && !is_ready(&objects, "demo"));
    }

    #[test]
    fn a_set_with_an_unready_pod_is_not_ready() {
        let unready = SET.replace("{type: Ready, status: 'True'}", "{type: Ready, status: 'False'}");
        assert!(!is_ready(&objects(&unready), "demo"));
    }
}
