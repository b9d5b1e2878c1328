//! Which references a gang gets: YAML in, plan out. And which changes trigger a gang.

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::{Patch, PatchBody, Step};
use grove_controller::slim_pod::SlimPod;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta};
use json_patch::{PatchOperation, ReplaceOperation};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observed::{Member, Observed};
use super::plan::plan;
use super::triggers::{gangs_of_clique, gangs_of_pod};

/// The snapshot that a row describes: pod groups, each `{name, stored, pods, desired}`. A group without `pods` has no clique.
fn observed(groups: &Value) -> Observed {
    let groups = groups.as_array().expect("a list");
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(String::from)).collect()
    };
    let reference = |name: &String| json!({ "namespace": "prod", "name": name });
    let podgroups: Vec<_> = groups
        .iter()
        .map(|group| {
            let references: Vec<_> = names(&group["stored"]).iter().map(reference).collect();
            json!({ "name": group["name"], "minReplicas": 1, "podReferences": references })
        })
        .collect();
    let gang = json!({ "metadata": { "name": "llm-0", "namespace": "prod", "uid": "gang-uid" },
        "spec": { "podgroups": podgroups } });
    let members = groups.iter().map(|group| {
        let pods = names(group.get("pods")?);
        let desired = group["desired"].as_u64().map_or(pods.len(), |desired| usize::try_from(desired).expect("a size"));
        Some(Member { desired, pods })
    });
    Observed { gang: Arc::new(serde_json::from_value(gang).expect("a gang")), members: members.collect() }
}

#[track_caller]
fn check(groups: &str, expected: &Expect) {
    expected.assert_eq(&plan(&observed(&serde_saphyr::from_str(groups).expect("YAML"))).to_string());
}

#[test]
fn pod_references_are_first_written_when_the_clique_is_complete() {
    check("[{name: a, pods: [a-1], desired: 2}]", &expect!["nothing to do\n"]);
    check(
        "[{name: a, pods: [a-2, a-1]}]",
        &expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/0/name","value":"a"},{"op":"replace","path":"/spec/podgroups/0/podReferences","value":[{"name":"a-1","namespace":"prod"},{"name":"a-2","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn written_pod_references_follow_the_live_pods() {
    check("[{name: a, stored: [a-1, a-2], pods: [a-1, a-2]}]", &expect!["nothing to do\n"]);
    // The deleted pod will have a successor.
    check("[{name: a, stored: [a-1, a-2], pods: [a-1], desired: 2}]", &expect!["nothing to do\n"]);
    // All pods were deleted, and the successors are created.
    check("[{name: a, stored: [a-1, a-2], pods: [a-3], desired: 2}]", &expect!["nothing to do\n"]);
    check(
        "[{name: a, stored: [a-1, a-2], pods: [a-1, a-3], desired: 3}]",
        &expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/0/name","value":"a"},{"op":"replace","path":"/spec/podgroups/0/podReferences","value":[{"name":"a-1","namespace":"prod"},{"name":"a-3","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn one_patch_changes_all_pod_groups_that_differ() {
    check(
        "[{name: a, stored: [], pods: [a-1]}, {name: b, stored: [b-1], pods: [b-1]}, {name: c, stored: [c-1], pods: []}]",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/0/name","value":"a"},{"op":"replace","path":"/spec/podgroups/0/podReferences","value":[{"name":"a-1","namespace":"prod"}]},{"op":"test","path":"/spec/podgroups/2/name","value":"c"},{"op":"replace","path":"/spec/podgroups/2/podReferences","value":[]}]
        "#]],
    );
}

#[test]
fn a_group_without_clique_keeps_its_references_and_a_terminating_gang_is_not_changed() {
    check("[{name: a, stored: [a-1]}]", &expect!["nothing to do\n"]);
    let mut terminating = observed(&json!([{ "name": "a", "pods": ["a-1"] }]));
    let mut gang = PodGang::clone(&terminating.gang);
    gang.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
    terminating.gang = Arc::new(gang);
    assert!(plan(&terminating).is_empty());
}

/// The number of references of each group after the plan. Of each group: the number of stored references, of live pods, and of desired pods. The
/// stored references are those of the first pods.
fn counts(groups: &[(usize, usize, usize)]) -> Vec<usize> {
    let rows = groups.iter().enumerate().map(|(at, (stored, pods, desired))| {
        let names = |count: usize| (0..count).map(|pod| format!("g{at}-{pod:05}")).collect::<Vec<_>>();
        json!({ "name": format!("g{at}"), "stored": names(*stored), "pods": names(*pods), "desired": desired })
    });
    let observed = observed(&rows.collect());
    let mut counts: Vec<_> = groups.iter().map(|(stored, ..)| *stored).collect();
    let plan = plan(&observed);
    let operations = plan.steps().flat_map(|step| match step {
        Step::Patch(Patch { change: PatchBody::Json(patch), .. }) => patch.0.clone(),
        Step::Patch(_) | Step::Create(_) | Step::Delete(_) | Step::Adopt(_) => panic!("{step}"),
    });
    for operation in operations {
        let PatchOperation::Replace(ReplaceOperation { path, value }) = operation else { continue };
        let at = path.tokens().nth(2).and_then(|at| at.decoded().parse::<usize>().ok()).expect("a position");
        counts[at] = value.as_array().expect("a list").len();
    }
    counts
}

#[test]
fn a_gang_has_a_limited_number_of_references_which_the_groups_get_in_their_order() {
    const MAX: usize = MAX_GANG_SIZE - 2;
    for (groups, expected) in [
        ([(0, MAX - 1, MAX - 1), (0, 1, 1)], [MAX - 1, 1]),
        ([(0, MAX - 1, MAX - 1), (0, 3, 3)], [MAX - 1, 1]),
        // Desired pods of the first group that do not exist yet have their references reserved.
        ([(0, 5, MAX - 1), (0, 3, 3)], [0, 1]),
        // Live pods keep their references.
        ([(0, MAX, MAX), (10, 10, 10)], [MAX - 10, 10]),
        ([(5, MAX, MAX), (MAX - 5, MAX - 5, MAX)], [5, MAX - 5]),
        // A reference that a pod group has lost is free, unless a successor will have it.
        ([(5, 6, 6), (MAX - 5, MAX - 6, MAX - 6)], [6, MAX - 6]),
        ([(5, 6, 6), (MAX - 5, MAX - 6, MAX - 5)], [5, MAX - 5]),
    ] {
        assert_eq!(counts(&groups), expected, "{groups:?}");
    }
}

#[test]
fn a_patch_changes_a_limited_number_of_groups() {
    let groups: Vec<_> = (0..3000).map(|_| (0, 1, 1)).collect();
    let counts = counts(&groups);
    assert!(counts[..2000].iter().all(|count| *count == 1) && counts[2000..].iter().all(|count| *count == 0));
}

fn clique(uid: &str, replicas: i32, gang: Option<&str>) -> Arc<PodClique> {
    let labels = gang.map(|gang| json!({ "grove.io/podgang": gang }));
    let clique = json!({ "metadata": { "name": "llm-0-a", "namespace": "prod", "uid": uid, "labels": labels },
        "spec": { "roleName": "a", "replicas": replicas, "podSpec": { "containers": [] } } });
    Arc::new(serde_json::from_value(clique).expect("a clique"))
}

fn names(triggers: Vec<Trigger<PodGang>>) -> String {
    let names = triggers.into_iter().map(|trigger| match trigger {
        Trigger::LowPriority(gang) => gang.name,
        Trigger::Reconcile(gang) | Trigger::Retry(gang) => panic!("{gang}"),
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_clique_triggers_its_gang_if_its_pods_may_change() {
    let of = |old: Option<Arc<PodClique>>, new: Option<Arc<PodClique>>| names(gangs_of_clique(&Delta { old, new }));
    let first = || Some(clique("u", 1, Some("g")));
    assert_eq!(of(None, first()), "g");
    assert_eq!(of(first(), None), "g");
    assert_eq!(of(first(), first()), "");
    assert_eq!(of(first(), Some(clique("u", 2, Some("g")))), "g");
    assert_eq!(of(first(), Some(clique("v", 1, Some("g")))), "g", "it was replaced");
    assert_eq!(of(first(), Some(clique("u", 1, Some("h")))), "g h");
    assert_eq!(of(first(), Some(clique("u", 1, None))), "g");
    assert_eq!(of(None, Some(clique("u", 1, None))), "");
}

fn pod(uid: &str, phase: &str, controller: Option<&PodClique>) -> Arc<SlimPod> {
    let mut pod: SlimPod =
        serde_json::from_value(json!({ "metadata": { "name": "a-1", "namespace": "prod", "uid": uid },
            "status": { "phase": phase } }))
        .expect("a pod");
    pod.metadata.owner_references = controller.map(controller_owner_reference);
    Arc::new(pod)
}

#[test]
fn a_pod_triggers_the_gang_of_its_clique_if_it_is_created_or_ends() {
    let owner = clique("u", 1, Some("g"));
    let cliques = Cache::from_objects([PodClique::clone(&owner)]);
    let of = |old: Option<Arc<SlimPod>>, new: Option<Arc<SlimPod>>| names(gangs_of_pod(&cliques, &Delta { old, new }));
    let running = || Some(pod("p", "Running", Some(&owner)));
    assert_eq!(of(None, running()), "g");
    assert_eq!(of(running(), None), "g");
    assert_eq!(of(Some(pod("p", "Pending", Some(&owner))), running()), "", "its references stay");
    assert_eq!(of(running(), Some(pod("p", "Failed", Some(&owner)))), "g");
    assert_eq!(of(running(), Some(pod("q", "Running", Some(&owner)))), "g", "it was replaced");
    assert_eq!(of(running(), Some(pod("p", "Running", None))), "g", "it has no controller any more");
    assert_eq!(of(None, Some(pod("p", "Running", None))), "");
    assert_eq!(owner.name_any(), "llm-0-a");
}
