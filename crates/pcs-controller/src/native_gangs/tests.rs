//! The decisions about the incarnations of a gang.

use grove_api_types::pod_group::{PackRecord, PodGroupRef, PodGroupSpec};
use k8s_openapi::jiff::Timestamp;

use super::decision::{Decision, GangCliques, GangState, after_list_of_bound_pods, after_list_of_cliques, decide};
use super::gang_pods::GangPods;
use super::{Choice, DecisionInput, Incarnations};

const GANG: &str = "llm-0";
/// The time of every decision: the incarnation 9000.
const NOW: i64 = 9000;

fn now() -> Timestamp {
    Timestamp::from_millisecond(NOW).expect("a time")
}

fn spec(min_count: i32) -> PodGroupSpec {
    PodGroupSpec { min_count, ..PodGroupSpec::default() }
}

fn group(incarnation: i64, min_count: i32) -> PodGroupRef {
    PodGroupRef::of_incarnation(GANG, incarnation, spec(min_count))
}

fn chosen(group: PodGroupRef) -> Choice {
    Choice { next: Some(group), postponed: None }
}

/// The cliques of the gang, which name these incarnations; 0 for none.
fn cliques(incarnations: &[i64]) -> GangCliques {
    let name = |incarnation: i64| (incarnation > 0).then(|| group(incarnation, 1).name);
    incarnations.iter().fold(GangCliques::default(), |all, at| all.with(GANG, name(*at).as_ref()))
}

fn state(live: Option<PodGroupRef>, cliques: GangCliques) -> GangState<'static> {
    let (wanted, pods, choice) = (Some(spec(2)), GangPods::default(), Choice::default());
    GangState {
        gang: GANG,
        live,
        unreadable: None,
        cliques,
        wanted,
        pods,
        relies_on_key: false,
        restarts: false,
        choice,
    }
}

#[track_caller]
fn check(state: &GangState<'_>, decision: &Decision, choice: &Choice) {
    let actual = decide(state.clone(), now());
    assert_eq!((&actual.0, &actual.1), (decision, choice), "{state:?}");
}

#[test]
fn a_new_gang_begins_its_first_incarnation() {
    check(&state(None, cliques(&[])), &Decision::Next(group(NOW, 2)), &chosen(group(NOW, 2)));
}

#[test]
fn a_gang_without_cliques_begins_the_next_incarnation_if_a_list_confirms_it() {
    let open = |live: PodGroupRef, next| Decision::NextUnlessCliques { current: live, next };
    let five = group(5, 2);
    check(&state(Some(five.clone()), cliques(&[])), &open(five.clone(), Some(group(NOW, 2))), &Choice::default());
    let ahead = group(NOW + 5, 2);
    check(&state(Some(ahead.clone()), cliques(&[])), &open(ahead, Some(group(NOW + 6, 2))), &Choice::default());
    let off = GangState { wanted: None, ..state(Some(five.clone()), cliques(&[])) };
    check(&off, &open(five.clone(), None), &Choice::default());
    let after = |next, has_cliques| after_list_of_cliques(five.clone(), next, has_cliques);
    let current = (Decision::Current(Some(five.clone())), Choice::default());
    assert_eq!(after(Some(group(NOW, 2)), true), current);
    assert_eq!(after(None, true), current);
    assert_eq!(after(Some(group(NOW, 2)), false), (Decision::Next(group(NOW, 2)), chosen(group(NOW, 2))));
    assert_eq!(after(None, false), (Decision::Current(None), Choice::default()));
}

#[test]
fn a_chosen_incarnation_stays_until_the_gang_has_cliques() {
    let choice = chosen(group(7, 2));
    let with = |live| GangState { choice: choice.clone(), ..state(live, cliques(&[])) };
    check(&with(None), &Decision::Next(group(7, 2)), &choice);
    check(&with(Some(group(5, 2))), &Decision::Next(group(7, 2)), &choice);
    check(&with(Some(group(7, 2))), &Decision::Current(Some(group(7, 2))), &choice);
    let in_use = GangState { choice, ..state(Some(group(7, 2)), cliques(&[7])) };
    check(&in_use, &Decision::Current(Some(group(7, 2))), &Choice::default());
}

#[test]
fn a_chosen_incarnation_with_other_fields_is_replaced_before_the_gang_has_cliques() {
    let other = GangState { choice: chosen(group(7, 5)), ..state(None, cliques(&[])) };
    check(&other, &Decision::Next(group(NOW, 2)), &chosen(group(NOW, 2)));
}

#[test]
fn a_gang_with_cliques_has_the_latest_incarnation() {
    let current = |at| Decision::Current(Some(group(at, 2)));
    check(&state(Some(group(5, 2)), cliques(&[5, 5])), &current(5), &Choice::default());
    check(&state(None, cliques(&[5])), &current(5), &Choice::default());
    check(&state(None, cliques(&[0, 5, 4])), &current(5), &Choice::default());
    check(&state(Some(group(6, 2)), cliques(&[5])), &current(6), &Choice::default());
    check(&state(Some(group(4, 2)), cliques(&[5])), &current(5), &Choice::default());
    let without_record = PodGroupRef { spec: PodGroupSpec::default(), ..group(5, 1) };
    check(&state(Some(without_record), cliques(&[5])), &current(5), &Choice::default());
}

#[test]
fn pods_without_a_pod_group_stay_without_one() {
    check(&state(None, cliques(&[0, 0])), &Decision::Current(None), &Choice::default());
}

#[test]
fn without_native_gangs_existing_pod_groups_stay_until_the_gang_restarts() {
    let off = |live, cliques| GangState { wanted: None, ..state(live, cliques) };
    check(&off(Some(group(5, 7)), cliques(&[5])), &Decision::Current(Some(group(5, 7))), &Choice::default());
}

#[test]
fn a_gang_scaled_to_zero_keeps_its_pod_group() {
    let zero = GangState { wanted: Some(spec(0)), ..state(Some(group(5, 7)), cliques(&[5])) };
    check(&zero, &Decision::Current(Some(group(5, 7))), &Choice::default());
}

mod bound_pods;

mod with_caches {
    use crate::tests::yaml;
    use grove_api_types::scheduler::Scheduler;
    use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangSpec};
    use grove_api_types::v1alpha1::{PodClique, PodCliqueSet, PodCliqueStatus};
    use std::sync::Arc;

    use grove_runtime::caches::{Cache, Delta};
    use kube::ResourceExt;

    use super::*;
    use crate::native_gangs::cliques_of_gang;

    const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm, namespace: prod, uid: u}
spec:
  replicas: 1
  template: {cliques: [{name: a, spec: {roleName: a, replicas: 1, podSpec: {containers: []}}}]}
";

    fn clique(name: &str, gang: &str, pod_group: &str, is_terminating: bool) -> PodClique {
        let deletion = if is_terminating { "2026-01-01T00:00:00Z" } else { "null" };
        let mut clique: PodClique = yaml(&format!(
            "{{apiVersion: grove.io/v1alpha1, kind: PodClique, metadata: {{name: {name}, namespace: prod, uid: u-{name}, deletionTimestamp: {deletion},
              labels: {{grove.io/podgang: {gang}}}}}, spec: {{roleName: a, replicas: 1, podSpec: {{containers: []}}}}}}"
        ));
        if !pod_group.is_empty() {
            clique.annotations_mut().insert("grove.io/pod-group".to_owned(), pod_group.to_owned());
        }
        clique
    }

    #[test]
    fn cliques_of_other_sets_and_terminating_ones_do_not_count() {
        let cache = Cache::from_objects([
            clique("a", GANG, "llm-0-5", false),
            clique("b", GANG, "llm-0-7", true),
            clique("c", "other", "other-8", false),
            clique("d", GANG, "forged", false),
            clique("e", GANG, "llm-0-9", false),
        ]);
        let of = |names: &[&'static str]| {
            let belongs_to_set = |clique: &PodClique| clique.name_any() != "e";
            cliques_of_gang(&cache, ("prod", GANG), names.iter().copied(), belongs_to_set)
        };
        assert_eq!(of(&["a", "b", "d", "e", "missing"]), cliques(&[5]));
        assert_eq!(of(&["b", "e", "missing"]), GangCliques::default());
        assert_eq!(of(&["c"]), cliques(&[0]), "a user has edited its label");
        assert_eq!(of(&["d"]), cliques(&[0]));
    }

    #[test]
    fn a_group_creates_cliques_only_of_a_decided_incarnation() {
        let (incarnations, set) = (Incarnations::of_served_api(), yaml::<PodCliqueSet>(SET));
        let gang = |pod_group: Option<&PodGroupRef>| {
            let mut gang = PodGang::new(GANG, PodGangSpec::default());
            gang.metadata.annotations = pod_group.map(PodGroupRef::annotations);
            gang
        };
        let five = group(5, 1);
        let allows = |applies, pod_group: Option<&PodGroupRef>, has_cliques| {
            incarnations.allow_creates((&set, applies), &gang(pod_group), has_cliques)
        };
        assert!(allows(false, None, false), "without native gangs");
        assert!(!allows(true, None, false), "the set chooses a PodGroup first");
        assert!(!allows(true, Some(&five), false), "it may be that of an earlier incarnation");
        assert!(!allows(false, Some(&five), false), "the set removes it first");
        assert!(allows(true, Some(&five), true), "another clique shows that it is the current one");
        incarnations.record(&set, [(GANG.to_owned(), chosen(five.clone()))].into());
        assert!(allows(true, Some(&five), false));
        assert!(!allows(true, Some(&group(4, 1)), false));
        incarnations.record(&set, incarnations.choices(&set));
        assert!(allows(true, Some(&five), false));
        let named = Some(Arc::new(clique("a", GANG, &five.name, false)));
        incarnations.observe_clique(&Delta { old: None, new: named });
        assert!(!allows(true, Some(&five), false), "a clique has named it, and may have been deleted");
        assert_eq!(incarnations.choices(&set)[GANG], Choice::default());
        incarnations.record(&set, [(GANG.to_owned(), chosen(five.clone()))].into());
        assert!(!allows(true, Some(&five), false), "a reconcile that began before the clique existed");
        incarnations.record(&set, [(GANG.to_owned(), chosen(group(6, 1)))].into());
        assert!(allows(true, Some(&group(6, 1)), false));
        incarnations.forget(&set);
        assert!(!allows(true, Some(&group(6, 1)), false));
    }

    #[test]
    fn another_number_of_pods_triggers_the_set_if_the_decision_depends_on_it() {
        let (incarnations, set) = (Incarnations::of_served_api(), yaml::<PodCliqueSet>(SET));
        let sets = Cache::from_objects([set.clone()]);
        let clique = |replicas: i32, scheduled: i32| {
            let mut clique = clique("a", GANG, "llm-0-5", false);
            clique.labels_mut().insert("app.kubernetes.io/part-of".to_owned(), "llm".to_owned());
            clique.spec.replicas = replicas;
            clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
            Arc::new(clique)
        };
        let triggers = |old: &Arc<PodClique>, new: &Arc<PodClique>| {
            let delta = Delta { old: Some(Arc::clone(old)), new: Some(Arc::clone(new)) };
            incarnations.set_of_changed_clique(&sets, &delta).is_some()
        };
        let before = clique(2, 2);
        assert!(triggers(&before, &clique(0, 2)), "its set does not own the cliques of its scaling groups");
        assert!(!triggers(&before, &clique(2, 1)), "no decision depends on the bound pods");
        let postponed = DecisionInput { wanted: spec(1), pods: GangPods::default() };
        let choice = Choice { next: None, postponed: Some(postponed) };
        incarnations.record(&set, [(GANG.to_owned(), choice)].into());
        assert!(triggers(&before, &clique(2, 1)));
        assert!(triggers(&before, &clique(2, 3)));
        assert!(!triggers(&before, &clique(2, 2)));
        let mut individual = PodClique::clone(&before);
        individual.annotations_mut().remove("grove.io/pod-group");
        let mut scaled = individual.clone();
        scaled.spec.replicas = 0;
        assert!(!triggers(&Arc::new(individual), &Arc::new(scaled)), "its gang has no PodGroup");
    }

    #[test]
    fn native_gangs_apply_to_sets_of_the_default_scheduler_without_scheduling_groups() {
        let incarnations = Incarnations::of_served_api();
        let set = yaml::<PodCliqueSet>(SET);
        assert!(incarnations.apply_to(&set, Scheduler::Kube));
        for (_, other) in Scheduler::ALL.into_iter().filter(|(_, scheduler)| *scheduler != Scheduler::Kube) {
            assert!(!incarnations.apply_to(&set, other), "{other:?}");
        }
        let own = SET.replace("containers: []", "containers: [], schedulingGroup: {podGroupName: own}");
        assert!(!incarnations.apply_to(&yaml(&own), Scheduler::Kube));
        assert!(
            !Incarnations::new(grove_api_types::configuration::NativeGangs::Off, None).apply_to(&set, Scheduler::Kube)
        );
    }
}

/// An update replaces all pods of a scaled gang, although its `PodGroup` has the wanted fields.
#[test]
fn an_update_begins_the_next_incarnation() {
    let restart = |live, choice| GangState { restarts: true, choice, ..state(Some(live), cliques(&[5])) };
    let next = group(NOW, 2);
    let began = (Decision::Next(next.clone()), chosen(next));
    check(&restart(group(5, 2), Choice::default()), &began.0, &began.1);
    let chosen_before = chosen(group(7, 2));
    check(&restart(group(5, 2), chosen_before.clone()), &Decision::Next(group(7, 2)), &chosen_before);
    check(&restart(group(5, 2), chosen(group(4, 2))), &began.0, &began.1);
    let off = GangState { wanted: None, ..restart(group(5, 2), Choice::default()) };
    check(&off, &Decision::Current(Some(group(5, 2))), &Choice::default());
}
