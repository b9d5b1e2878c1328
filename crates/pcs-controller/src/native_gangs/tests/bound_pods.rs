//! The decisions that depend on the bound pods of a gang.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;

use super::super::gang_pods::{BoundPod, BoundPods};
use super::*;

const FIRST: &str = "llm-0-5";

/// The pods of these cliques: name, minimum, desired number and scheduled number.
fn pods(cliques: &[(&str, i32, i32, i32)]) -> GangPods {
    let mut pods = GangPods::default();
    for (name, minimum, replicas, scheduled) in cliques {
        let clique = serde_json::json!({ "metadata": { "name": name },
            "spec": { "roleName": "r", "replicas": replicas, "podSpec": { "containers": [] } },
            "status": { "scheduledReplicas": scheduled } });
        pods.insert(name, *minimum, 1, Some(&serde_json::from_value(clique).expect("a clique")));
    }
    pods
}

/// Bound pods: the clique and the `PodGroup` of each.
fn bound(pods: &[(&str, &str)]) -> BoundPods {
    let mut bound = BoundPods::default();
    for (clique, group) in pods {
        bound.push(BoundPod { clique: Some((*clique).to_owned()), pod_group: Some((*group).to_owned()) });
    }
    bound
}

/// A gang with these pods and this `PodGroup`.
fn changed(current: PodGroupRef, pods: &GangPods, choice: Choice) -> GangState<'static> {
    let wanted = Some(wanted(pods));
    let cliques = GangCliques { exist: true, pod_group: Some(current.name.clone()) };
    GangState { wanted, pods: pods.clone(), choice, ..state(Some(current), cliques) }
}

fn wanted(pods: &GangPods) -> PodGroupSpec {
    PodGroupSpec { below_minimum: pods.below_minimum(), ..spec(pods.required()) }
}

fn postponed(pods: &GangPods) -> DecisionInput {
    DecisionInput { wanted: wanted(pods), pods: pods.clone() }
}

/// The `PodGroup` with a record of the cliques that are below their minimum now.
fn decided(group: PodGroupRef, pods: &GangPods) -> PodGroupRef {
    PodGroupRef { spec: PodGroupSpec { below_minimum: pods.below_minimum(), ..group.spec }, ..group }
}

fn successor(number: i64, min_count: i32) -> PodGroupRef {
    PodGroupRef { name: format!("{FIRST}.{number}"), spec: spec(min_count) }
}

#[test]
fn other_fields_begin_the_next_incarnation_unless_a_pod_is_bound() {
    let all = pods(&[("f", 1, 1, 1), ("w", 1, 1, 1)]);
    let mut low = group(5, 2);
    low.spec.priority_class_name = Some("low".to_owned());
    let open = Decision::NextUnlessBound { current: low.clone(), wanted: postponed(&all) };
    check(&changed(low.clone(), &all, Choice::default()), &open, &Choice::default());
    let close = |bound: &BoundPods| after_list_of_bound_pods((GANG, low.clone()), postponed(&all), bound, now());
    let (next, choice) = close(&bound(&[]));
    assert_eq!((&next, &choice), (&Decision::Next(group(NOW, 2)), &chosen(group(NOW, 2))));
    check(&changed(low.clone(), &all, choice), &next, &chosen(group(NOW, 2)));
    let (current, choice) = close(&bound(&[("f", FIRST)]));
    assert_eq!(current, Decision::Current(Some(low.clone())), "its PodGroup demands the pod that is missing");
    assert_eq!(choice, Choice { next: None, postponed: Some(postponed(&all)) });
    check(&changed(low.clone(), &all, choice.clone()), &current, &choice);
    let mut high = changed(low.clone(), &all, choice.clone());
    high.wanted.as_mut().expect("fields").priority_class_name = Some("high".to_owned());
    let wanted = DecisionInput { wanted: high.wanted.clone().expect("fields"), pods: all };
    check(&high, &Decision::NextUnlessBound { current: low, wanted }, &choice);
}

#[test]
fn a_postponed_decision_is_open_again_after_a_change_of_the_pods() {
    let before = pods(&[("f", 1, 1, 1), ("w", 1, 0, 0)]);
    let choice = Choice { next: None, postponed: Some(postponed(&before)) };
    let current = Decision::Current(Some(decided(group(5, 2), &before)));
    check(&changed(group(5, 2), &before, choice.clone()), &current, &choice);
    for after in [
        pods(&[("f", 1, 1, 0), ("w", 1, 0, 0)]),
        pods(&[("f", 1, 2, 1), ("w", 1, 0, 0)]),
        pods(&[("f", 1, 1, 1), ("w", 1, 0, 1)]),
    ] {
        let open = Decision::NextUnlessBound { current: group(5, 2), wanted: postponed(&after) };
        check(&changed(group(5, 2), &after, choice.clone()), &open, &choice);
    }
    let as_recorded = pods(&[("f", 1, 1, 1), ("w", 1, 1, 0)]);
    check(&changed(group(5, 2), &as_recorded, choice), &Decision::Current(Some(group(5, 2))), &Choice::default());
}

/// Which `PodGroup` the pods that are not bound get; `None` if the current one stays. `cliques` has the name, the minimum, the desired and the
/// scheduled number of each clique, and `bound_pods` the clique and the `PodGroup` of each pod.
#[track_caller]
fn check_next(what: &str, current: PodGroupRef, [cliques, bound_pods]: [&str; 2], expected: Option<PodGroupRef>) {
    let number = |text: &str| text.parse::<i32>().expect("a number");
    let clique = |row| {
        let fields: Vec<&str> = str::split(row, ' ').collect();
        (fields[0], number(fields[1]), number(fields[2]), number(fields[3]))
    };
    let pods = pods(&cliques.split(", ").map(clique).collect::<Vec<_>>());
    let rows = bound_pods.split(", ").filter_map(|row| row.split_once(' '));
    let rows: Vec<_> = rows.map(|(clique, group)| (clique, format!("{GANG}-{group}"))).collect();
    let bound = bound(&rows.iter().map(|(clique, group)| (*clique, group.as_str())).collect::<Vec<_>>());
    let (decision, choice) = after_list_of_bound_pods((GANG, current.clone()), postponed(&pods), &bound, now());
    let unchanged = Decision::Current(Some(decided(current.clone(), &pods)));
    let expected = expected.map(|next| decided(next, &pods));
    assert_eq!(decision, expected.clone().map_or(unchanged, Decision::Next), "{what}");
    let is_postponed = (!rows.is_empty()).then(|| postponed(&pods));
    assert_eq!(choice, Choice { next: expected.clone(), postponed: is_postponed }, "{what}");
    // The next decision does not need a LIST: before the gang has its PodGroup, and then.
    assert_eq!(decide(changed(current, &pods, choice.clone()), now()).0, decision, "{what}");
    if let Some(next) = expected {
        let in_use = decide(changed(next.clone(), &pods, Choice { next: None, ..choice }), now());
        assert_eq!(in_use.0, Decision::Current(Some(next)), "{what}");
    }
}

#[test]
fn pods_that_are_not_bound_get_a_pod_group_that_demands_what_is_missing() {
    let check =
        |what: &str, minimum: i32, pods: [&str; 2], expected| check_next(what, group(5, minimum), pods, expected);
    check("no pod waits", 3, ["f 1 1 1, w 2 0 0", "f 5"], None);
    check("no pod is bound", 3, ["f 1 1 0, w 2 0 0", ""], Some(group(NOW, 1)));
    check("one of two frontends waits for unwanted workers", 4, ["f 2 2 1, w 2 0 0", "f 5"], Some(successor(NOW, 1)));
    check("a surplus pod waits for unwanted workers", 3, ["f 1 2 1, w 2 0 0", "f 5"], Some(successor(NOW, 1)));
    check("surplus pods are bound one by one", 3, ["f 1 3 1, w 2 0 0", "f 5"], Some(successor(NOW, 1)));
    check("enough surplus pods are bound", 3, ["f 1 4 3, w 2 0 0", "f 5, f 5, f 5"], None);
    check(
        "workers return after their gang began without them",
        1,
        ["f 1 1 1, w 3 3 0", "f 5"],
        Some(successor(NOW, 3)),
    );
    check("workers below their minimum", 4, ["f 1 1 0, w 3 1 1", "w 5"], Some(successor(NOW, 1)));
}

#[test]
fn a_successor_stays_while_it_demands_what_is_missing() {
    let check = |what: &str, pods: [&str; 2], expected| check_next(what, successor(7, 3), pods, expected);
    check("its pods wait", ["f 1 1 1, w 3 3 0", "f 5"], None);
    check(
        "a pod was bound before, and the others are never three",
        ["f 1 1 1, w 3 3 1", "f 5, w 5"],
        Some(successor(NOW, 2)),
    );
    check("all pods are bound", ["f 1 1 1, w 3 3 3", "f 5, w 5.7, w 5.7, w 5.7"], None);
    check("one of its pods is replaced", ["f 1 1 1, w 3 3 2", "f 5, w 5.7, w 5.7"], None);
    check("an earlier pod is replaced", ["f 1 1 0, w 3 3 3", "w 5.7, w 5.7, w 5.7"], None);
    check(
        "an earlier pod and one of its pods are replaced",
        ["f 1 1 0, w 3 3 2", "w 5.7, w 5.7"],
        Some(successor(NOW, 2)),
    );
    check_next("the clock was ahead", successor(NOW, 3), ["f 3 3 2", "f 5, f 5.9000"], Some(successor(NOW + 1, 1)));
}

#[test]
fn a_successor_retains_priority_and_topology() {
    let mut current = group(5, 4);
    current.spec.priority_class_name = Some("low".to_owned());
    let packing = PackRecord { key: Some("rack".to_owned()), constraints: "1".to_owned() };
    current.spec.packing = Some(packing);
    let pods = pods(&[("f", 2, 2, 1), ("w", 2, 0, 0)]);
    let (decision, _) =
        after_list_of_bound_pods((GANG, current.clone()), postponed(&pods), &bound(&[("f", FIRST)]), now());
    let spec = PodGroupSpec { min_count: 1, below_minimum: [("w".to_owned(), 0)].into(), ..current.spec };
    assert_eq!(decision, Decision::Next(PodGroupRef { spec, ..successor(NOW, 1) }));
}

/// Its minimum is by chance that of the gang, but other pods of the gang belong to an earlier `PodGroup`.
#[test]
fn a_successor_never_counts_all_pods_of_the_gang() {
    let pods = pods(&[("f", 1, 1, 1), ("w", 1, 1, 0)]);
    let open = Decision::NextUnlessBound { current: successor(7, 2), wanted: postponed(&pods) };
    check(&changed(successor(7, 2), &pods, Choice::default()), &open, &Choice::default());
}

/// Until then, pclq-controller creates none of the pods that the decision has not considered.
#[test]
fn the_record_has_the_cliques_below_their_minimum_once_they_are_decided() {
    let below = pods(&[("f", 1, 1, 1), ("w", 3, 2, 0)]);
    let recorded = decided(group(5, 4), &below);
    assert_eq!(recorded.spec.below_minimum, [("w".to_owned(), 2)].into());
    let all = pods(&[("f", 1, 1, 1), ("w", 3, 3, 0)]);
    let open = Decision::NextUnlessBound { current: recorded.clone(), wanted: postponed(&all) };
    check(&changed(recorded.clone(), &all, Choice::default()), &open, &Choice::default());
    let bound = bound(&[("f", FIRST)]);
    let (decision, _) = after_list_of_bound_pods((GANG, recorded.clone()), postponed(&all), &bound, now());
    assert_eq!(decision, Decision::Current(Some(group(5, 4))), "the PodGroup demands the workers together");
    let zero = pods(&[("f", 1, 0, 0), ("w", 3, 0, 0)]);
    let of_zero = Decision::Current(Some(decided(group(5, 4), &zero)));
    check(&changed(recorded.clone(), &zero, Choice::default()), &of_zero, &Choice::default());
    let off = GangState { wanted: None, ..changed(recorded, &all, Choice::default()) };
    check(&off, &Decision::Current(Some(group(5, 4))), &Choice::default());
}

/// A pod was replaced, and the numbers that its clique reports are the same.
#[test]
fn other_pods_with_the_same_numbers_are_another_state() {
    let of = |pod: &str| {
        let spec = serde_json::json!({ "podgroups": [{ "name": "f", "minReplicas": 1,
            "podReferences": [{ "namespace": "prod", "name": pod }] }] });
        PodGang::new(GANG, serde_json::from_value(spec).expect("a spec"))
    };
    let state = GangPods::of_gang(Some(&of("f-1")));
    let cliques = Cache::from_objects([]);
    assert!(state.equal_those_of(Some(&of("f-1")), &cliques, "prod"));
    assert!(!state.equal_those_of(Some(&of("f-2")), &cliques, "prod"));
    assert!(!state.equal_those_of(None, &cliques, "prod"));
}

/// The cached clique, and the numbers of the decision: minimum, desired and scheduled pods.
#[test]
fn other_numbers_of_a_cached_clique_are_another_state() {
    let clique = |replicas: i32, scheduled: i32| {
        let clique = serde_json::json!({ "metadata": { "name": "f", "namespace": "prod" },
            "spec": { "roleName": "r", "replicas": replicas, "podSpec": { "containers": [] } },
            "status": { "scheduledReplicas": scheduled } });
        Cache::from_objects([serde_json::from_value::<PodClique>(clique).expect("a clique")])
    };
    let state = pods(&[("f", 1, 2, 1)]);
    for (cached, is_same) in
        [(clique(2, 1), true), (clique(3, 1), false), (clique(2, 2), false), (Cache::from_objects([]), false)]
    {
        assert_eq!(state.equal_those_of(None, &cached, "prod"), is_same);
    }
}
