//! The tree of a set as text: set, gangs, cliques, pods, where each pod is and how it is.

use super::world::{World, condition, has_condition, number};
use grove_api_types::deletion::is_terminating;
use kube::ResourceExt;
use kube::api::DynamicObject;
use std::collections::BTreeSet;
use std::fmt::Write;

const GANG_LABEL: &str = "grove.io/podgang";

/// Draws everything that the namespace holds of these kinds. What is not among the `known` is marked as new.
pub(crate) fn draw(world: &World, known: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for set in world.sets.all() {
        let (replicas, available) =
            (number(&set.data["spec"]["replicas"]), number(&set.data["status"]["availableReplicas"]));
        line(
            &mut text,
            "",
            &format!("PodCliqueSet {}", set.name_any()),
            &format!("{available}/{replicas} available, {}", summary(&set, "Available")),
        );
        let gangs = world.gangs.of(&set);
        for (at, gang) in gangs.iter().enumerate() {
            let (branch, below) = branches(at, gangs.len());
            line(
                &mut text,
                branch,
                &format!("PodGang {}", gang.name_any()),
                gang.data["status"]["phase"].as_str().unwrap_or("new"),
            );
            cliques_of(&mut text, world, known, (&gang.name_any(), below));
        }
    }
    if text.is_empty() {
        let left = world.count();
        text =
            if left == 0 { "(nothing)\n".to_owned() } else { format!("(no set; {left} objects on their way out)\n") };
    }
    text
}

fn cliques_of(text: &mut String, world: &World, known: &BTreeSet<String>, (gang, indent): (&str, &str)) {
    let mut cliques = world.cliques.all();
    cliques.retain(|clique| clique.labels().get(GANG_LABEL).is_some_and(|label| label == gang));
    for (at, clique) in cliques.iter().enumerate() {
        let (branch, below) = branches(at, cliques.len());
        let (ready, replicas) =
            (number(&clique.data["status"]["readyReplicas"]), number(&clique.data["spec"]["replicas"]));
        line(
            text,
            &format!("{indent}{branch}"),
            &format!("PodClique {}", clique.name_any()),
            &format!("{ready}/{replicas} ready{}{}", leaving(clique), fresh(clique, known)),
        );
        let pods = world.pods.of(clique);
        for (at, pod) in pods.iter().enumerate() {
            let (branch, _) = branches(at, pods.len());
            line(
                text,
                &format!("{indent}{below}{branch}"),
                &format!("Pod {}", pod.name_any()),
                &format!("{}{}", pod_state(pod), fresh(pod, known)),
            );
        }
    }
}

fn pod_state(pod: &DynamicObject) -> String {
    let node = pod.data["spec"]["nodeName"].as_str().unwrap_or("no node");
    let phase = pod.data["status"]["phase"].as_str().unwrap_or("Unknown");
    let gated = pod.data["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let state = if is_terminating(pod) {
        "Terminating"
    } else if gated {
        "Gated"
    } else if has_condition(pod, "Ready") {
        "Ready"
    } else {
        phase
    };
    format!("{node:<8} {state}")
}

/// True, or the reason why not.
fn summary(object: &DynamicObject, kind: &str) -> String {
    match condition(object, kind) {
        Some(condition) if condition["status"] == "True" => kind.to_owned(),
        Some(condition) => format!("not {kind}: {}", condition["reason"].as_str().unwrap_or_default()),
        None => format!("{kind} not known yet"),
    }
}

fn fresh(object: &DynamicObject, known: &BTreeSet<String>) -> &'static str {
    if known.is_empty() || object.metadata.uid.as_ref().is_some_and(|uid| known.contains(uid)) {
        ""
    } else {
        "  <- new"
    }
}

fn leaving(object: &DynamicObject) -> &'static str {
    if is_terminating(object) { ", terminating" } else { "" }
}

fn branches(at: usize, count: usize) -> (&'static str, &'static str) {
    if at + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") }
}

fn line(text: &mut String, branch: &str, what: &str, state: &str) {
    // Writing to a String cannot fail.
    _ = writeln!(text, "{:<48} {state}", format!("{branch}{what}"));
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::demo::world::World;
    use expect_test::{Expect, expect};
    use kube::api::DynamicObject;
    use std::collections::BTreeSet;

    #[track_caller]
    fn check(objects: &str, expected: &Expect) -> World {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(objects).unwrap();
        let world = World::of(&objects);
        expected.assert_eq(&draw(&world, &BTreeSet::new()));
        world
    }

    const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, uid: s, generation: 1}
spec: {replicas: 1, template: {cliques: [{name: decode}]}}
status: {observedGeneration: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True'}]}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, uid: g, ownerReferences: [{apiVersion: v1, kind: PodCliqueSet, name: demo, uid: s}]}
status: {phase: Running}
---
apiVersion: grove.io/v1alpha1
kind: PodClique
metadata:
  name: demo-0-decode
  uid: c
  labels: {grove.io/podgang: demo-0}
  ownerReferences: [{apiVersion: v1, kind: PodCliqueSet, name: demo, uid: s}]
spec: {replicas: 1}
status: {readyReplicas: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: demo-0-decode-abcde, uid: p, ownerReferences: [{apiVersion: v1, kind: PodClique, name: c, uid: c}]}
spec: {nodeName: node-3}
status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}
";

    #[test]
    fn a_ready_set_is_drawn_to_its_pods() {
        let world = check(
            SET,
            &expect![[r"
                PodCliqueSet demo                                1/1 available, Available
                └─ PodGang demo-0                                Running
                   └─ PodClique demo-0-decode                    1/1 ready
                      └─ Pod demo-0-decode-abcde                 node-3   Ready
            "]],
        );
        assert!(world.is_ready("demo"));
    }

    #[test]
    fn what_was_not_there_before_is_marked() {
        let world = World::of(&serde_saphyr::from_multiple::<DynamicObject>(SET).unwrap());
        let before = BTreeSet::from(["s", "g", "c"].map(str::to_owned));
        let marked: Vec<String> =
            draw(&world, &before).lines().filter(|line| line.ends_with("<- new")).map(str::to_owned).collect();
        assert_eq!(marked, ["      └─ Pod demo-0-decode-abcde                 node-3   Ready  <- new"]);
    }

    #[test]
    fn an_empty_world_says_so() {
        let world = check(
            "",
            &expect![["
            (nothing)
        "]],
        );
        assert!(world.is_empty() && !world.is_ready("demo"));
    }

    #[test]
    fn a_pod_that_is_not_ready_keeps_the_set_from_being_so() {
        let objects = SET.replace("{type: Ready, status: 'True'}", "{type: Ready, status: 'False'}");
        let world = World::of(&serde_saphyr::from_multiple::<DynamicObject>(&objects).unwrap());
        assert!(!world.is_ready("demo"));
    }
}
