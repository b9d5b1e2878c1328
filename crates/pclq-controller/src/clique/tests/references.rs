//! The pod references in the gang.

use std::cell::Cell;

use expect_test::expect;
use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta, InformerOptions};
use serde_json::json;

use super::{NAME, check, gang, plan, snapshot};
use crate::clique::triggers::{changed_names, changed_pod_groups, cliques_of_gang};
use crate::gang_pods::{LimitedCliques, PODS_BY_GANG, cliques_after_scaling, limited_references};

/// The largest number of pods of the gang of the tests, which has two pod groups.
const MAX_PODS: usize = MAX_GANG_SIZE - 2;

#[test]
fn pod_references_are_first_written_when_the_clique_is_complete() {
    check(
        "{replicas: 2, gang: [], pods: [{i: 0, name: a}]}",
        &expect![[r"
        pods: create Pod ~-vk7tm
    "]],
    );
    check(
        "{replicas: 2, gang: [], pods: [{i: 0, name: b}, {i: 1, name: a}]}",
        &expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"},{"name":"~-b","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn written_pod_references_follow_every_change() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b, terminating: true}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
            pods: create Pod ~-lpll5
        "#]],
    );
    check(
        "{replicas: 1, gang: [a, b], pods: [{i: 0, name: a}, {i: 1, name: b}]}",
        &expect![[r#"
        pods: delete Pod ~-b
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
    "#]],
    );
}

#[test]
fn pod_references_are_written_once_per_observed_version_of_the_gang() {
    check("{replicas: 1, gang: [], writtenAt: '7', pods: [{i: 0, name: a}]}", &expect!["nothing to do\n"]);
    check(
        "{replicas: 1, gang: [], writtenAt: '6', pods: [{i: 0, name: a}]}",
        &expect![[r#"
            references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-a","namespace":"prod"}]}]
        "#]],
    );
}

#[test]
fn a_gang_has_a_limited_number_of_pod_references() {
    let pods = "[{i: 0, name: c}, {i: 1, name: b}, {i: 2, name: a}]";
    let mut observed = snapshot(&format!("{{replicas: 3, gang: [], pods: {pods}}}"));
    observed.limited_references = Some(1);
    expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-c","namespace":"prod"}]}]
        wait: TooManyPodReferences PodGang llm-0 can have at most 7998 pod references; 2 pods of the clique have no reference
    "#]]
    .assert_eq(&plan(&observed).to_string().replace(NAME, "~"));
}

#[test]
fn stored_references_to_retained_pods_are_not_removed_because_of_the_limit() {
    let plan_of = |stored: &str, pods: &str| {
        let mut observed = snapshot(&format!("{{replicas: 3, gang: {stored}, pods: {pods}}}"));
        observed.limited_references = Some(0);
        plan(&observed).to_string().replace(NAME, "~")
    };
    let pods = "[{i: 0, name: a}, {i: 1, name: b}, {i: 2, name: c}]";
    expect!["nothing to do\n"].assert_eq(&plan_of("[a, b, c]", pods));
    expect![[r"
        wait: TooManyPodReferences PodGang llm-0 can have at most 7998 pod references; 1 pods of the clique have no reference
    "]]
    .assert_eq(&plan_of("[a, b]", pods));
    expect![[r#"
        references: patch PodGang llm-0 [{"op":"test","path":"/metadata/uid","value":"gang-uid"},{"op":"test","path":"/spec/podgroups/1/name","value":"~"},{"op":"replace","path":"/spec/podgroups/1/podReferences","value":[{"name":"~-b","namespace":"prod"},{"name":"~-c","namespace":"prod"}]}]
        wait: TooManyPodReferences PodGang llm-0 can have at most 7998 pod references; 1 pods of the clique have no reference
    "#]]
    .assert_eq(&plan_of("[b, c, deleted]", pods));
}

const EARLIER: &str = "llm-0-prefill";

fn clique(name: &str, replicas: usize) -> PodClique {
    let mut clique = snapshot(&format!("{{replicas: {replicas}}}")).clique;
    clique.metadata.name = Some(name.to_owned());
    clique
}

#[test]
fn the_references_of_other_cliques_do_not_change_those_of_the_clique() {
    let mut observed = snapshot("{replicas: 1, gang: [a], pods: [{i: 0, name: a}]}");
    let mut gang = PodGang::clone(observed.gang.as_ref().expect("a gang"));
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "other".to_owned() };
    gang.spec.podgroups[0].pod_references = vec![reference; MAX_PODS];
    observed.gang = Some(gang.into());
    expect!["nothing to do\n"].assert_eq(&plan(&observed).to_string());
}

/// The cache of cliques as the service sums it.
fn cache(cliques: impl IntoIterator<Item = PodClique>) -> Cache<PodClique> {
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_sum(PODS_BY_GANG));
    writer.replace(cliques.into_iter().collect());
    cache
}

/// The number of references that the clique may have.
fn limit(cliques: &Cache<PodClique>, oversized: &LimitedCliques, gang: &PodGang, name: &str) -> Option<usize> {
    let gangs = Cache::from_objects([gang.clone()]);
    limited_references((cliques, &gangs), oversized, ("prod", "llm-0"), name).1
}

/// The result of a reconcile of each clique.
fn oversized(cliques: &Cache<PodClique>, gang: &PodGang) -> LimitedCliques {
    let oversized = LimitedCliques::default();
    for group in &gang.spec.podgroups {
        limit(cliques, &oversized, gang, &group.name);
    }
    oversized
}

#[test]
fn the_desired_pods_of_earlier_groups_get_references_first() {
    let (gang, oversized) = (gang(&json!([])), LimitedCliques::default());
    let limit = |cliques: &[PodClique], name: &str| limit(&cache(cliques.iter().cloned()), &oversized, &gang, name);
    let both = [clique(EARLIER, MAX_PODS - 2), clique(NAME, 3)];
    assert_eq!(limit(&both, EARLIER), Some(MAX_PODS));
    assert_eq!(limit(&both, NAME), Some(2));
    assert_eq!(oversized.len(), 1);
    assert_eq!(limit(&[clique(NAME, MAX_PODS + 1)], NAME), Some(MAX_PODS), "the earlier clique does not exist");
    assert_eq!(limit(&[], NAME), None, "the gang fits");
    assert_eq!(oversized.len(), 0);
}

#[test]
fn the_pod_groups_of_a_gang_that_fits_are_not_read() {
    let (gang, oversized) = (gang(&json!([])), LimitedCliques::default());
    let cliques = cache([clique(EARLIER, MAX_PODS - 3), clique(NAME, 3)]);
    assert_eq!(limit(&cliques, &oversized, &gang, NAME), None, "not the pods of the earlier group");
    assert_eq!(oversized.len(), 0);
    let gangs = Cache::from_objects([PodGang::clone(&gang)]);
    for (before, after) in
        [(Some(MAX_PODS), Some(MAX_PODS - 3)), (Some(1), Some(MAX_PODS - 3)), (None, Some(1)), (Some(1), None)]
    {
        let [old, new] = [before, after].map(|pods| pods.map(|pods| clique(EARLIER, pods).into()));
        let triggered = cliques_after_scaling(&cliques, &gangs, &oversized, &Delta { old, new });
        assert_eq!(triggered, [], "the group without references is not read: {before:?} to {after:?}");
    }
}

#[test]
fn a_scaled_clique_of_a_gang_above_the_limit_triggers_the_cliques_with_another_share() {
    let triggered = |scaled: &str, before: Option<usize>, after: Option<usize>, references: &str| {
        let gang = gang(&serde_saphyr::from_str(references).expect("YAML"));
        let other = if scaled == NAME { EARLIER } else { NAME };
        let scaled_to = |replicas: Option<usize>| replicas.map(|replicas| clique(scaled, replicas));
        let cliques = |replicas| cache([clique(other, 10)].into_iter().chain(scaled_to(replicas)));
        let oversized = oversized(&cliques(before), &gang);
        let delta = Delta { old: scaled_to(before).map(Into::into), new: scaled_to(after).map(Into::into) };
        let gangs = Cache::from_objects([PodGang::clone(&gang)]);
        let triggered = cliques_after_scaling(&cliques(after), &gangs, &oversized, &delta);
        triggered.into_iter().map(|clique| clique.name).collect::<Vec<_>>()
    };
    // The other clique has ten pods.
    assert_eq!(triggered(EARLIER, Some(MAX_PODS - 9), Some(1), "[]"), [NAME], "the gang was above the limit");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS), None, "[]"), [NAME]);
    assert_eq!(triggered(EARLIER, Some(MAX_PODS), Some(MAX_PODS - 2), "[a]"), [NAME], "one more reference");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS), Some(MAX_PODS - 1), "[a]"), [""; 0], "as many as its share");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS - 5), Some(MAX_PODS - 6), "[a, b, c, d, e, f, g]"), [""; 0], "more");
    assert_eq!(triggered(EARLIER, Some(MAX_PODS - 10), Some(1), "[a]"), [""; 0], "the gang was not above the limit");
    for (scaled, before) in [(EARLIER, None), (EARLIER, Some(1)), (NAME, Some(1)), (EARLIER, Some(MAX_PODS))] {
        let triggered = triggered(scaled, before, Some(MAX_PODS), "[a]");
        assert_eq!(triggered, [""; 0], "an increase of {scaled} from {before:?} takes no references");
    }
}

#[test]
fn a_clique_that_is_scaled_repeatedly_triggers_no_clique_without_a_larger_share() {
    let mut gang = PodGang::clone(&gang(&json!([])));
    let groups: Vec<_> = (0..50).map(|number| format!("llm-0-g-{number}-d")).collect();
    let group = gang.spec.podgroups[1].clone();
    gang.spec.podgroups = groups.iter().map(|name| PodGroup { name: name.clone(), ..group.clone() }).collect();
    // The groups 1 to 29 can have references, but their cliques are incomplete.
    let cliques = |first: usize| {
        let others = groups.iter().skip(1).map(|name| clique(name, 1));
        cache(others.chain([clique("llm-0-g-0-d", first)]))
    };
    let oversized = oversized(&cliques(7_921), &gang);
    assert_eq!(oversized.len(), 20, "the cliques without a share");
    let gangs = Cache::from_objects([gang]);
    let triggered = |from: usize, to: usize| {
        let [old, new] = [from, to].map(|pods| Some(clique("llm-0-g-0-d", pods).into()));
        let triggered = cliques_after_scaling(&cliques(to), &gangs, &oversized, &Delta { old, new });
        triggered.into_iter().map(|clique| clique.name).collect::<Vec<_>>()
    };
    assert_eq!(triggered(7_920, 7_921), [""; 0]);
    assert_eq!(triggered(7_921, 7_920), ["llm-0-g-30-d"], "the only clique with a larger share");
}

#[test]
fn a_free_reference_is_for_the_first_clique_that_lacks_one() {
    let mut gang = PodGang::clone(&gang(&json!([])));
    let last = PodGroup { name: "llm-0-last".to_owned(), ..gang.spec.podgroups[1].clone() };
    gang.spec.podgroups.push(last);
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() };
    gang.spec.podgroups[2].pod_references = vec![reference.clone(); MAX_PODS - 1];
    let cliques = cache([clique(EARLIER, 1), clique(NAME, 1), clique("llm-0-last", MAX_PODS - 1)]);
    let full = gang.clone();
    let limits = |gang: &PodGang, limited: &LimitedCliques| {
        [EARLIER, NAME, "llm-0-last"].map(|name| limit(&cliques, limited, gang, name))
    };
    let limited = LimitedCliques::default();
    assert_eq!(limits(&full, &limited), [Some(0), Some(0), Some(MAX_PODS - 3)]);
    assert_eq!(limited.len(), 2, "the last clique has all its references");
    gang.spec.podgroups[2].pod_references.pop();
    assert_eq!(limits(&gang, &limited.clone()), [Some(1), Some(0), Some(MAX_PODS - 3)]);
    let triggered = triggered_by_gang(&cliques, &oversized(&cliques, &full), &full, &gang);
    assert_eq!(triggered, format!("llm-0-last {EARLIER}"), "the last clique because of its own pod group");
}

#[test]
fn references_that_other_cliques_retain_are_available_after_their_removal() {
    let gang_of = |earlier: usize, references: &str| {
        let mut gang = PodGang::clone(&gang(&serde_saphyr::from_str(references).expect("YAML")));
        let reference = NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() };
        gang.spec.podgroups[0].pod_references = vec![reference; earlier];
        gang
    };
    let cliques = cache([clique(EARLIER, MAX_PODS), clique(NAME, 3)]);
    let before = gang_of(0, "[a, b, c]");
    assert_eq!(limit(&cliques, &LimitedCliques::default(), &before, EARLIER), Some(MAX_PODS - 3));
    let oversized = oversized(&cliques, &before);
    assert_eq!(oversized.len(), 1, "only the earlier clique has too few references");
    let triggered = |old: &PodGang, new: &PodGang| triggered_by_gang(&cliques, &oversized, old, new);
    assert_eq!(triggered(&before, &gang_of(0, "[a]")), format!("{NAME} {EARLIER}"), "two references are free");
    assert_eq!(triggered(&gang_of(0, "[a]"), &before), NAME, "no reference is free");
    let full = [gang_of(MAX_PODS - 1, "[a, b]"), gang_of(MAX_PODS - 1, "[a]")];
    assert_eq!(triggered(&full[0], &full[1]), NAME, "the gang still has as many references as it may have");
}

#[test]
fn two_cliques_that_were_scaled_in_at_once_trigger_the_later_clique_without_references() {
    let mut gang = PodGang::clone(&gang(&json!([])));
    let last = PodGroup { name: "llm-0-last".to_owned(), ..gang.spec.podgroups[1].clone() };
    let reference = NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() };
    for group in &mut gang.spec.podgroups {
        group.pod_references = vec![reference.clone(); 1000];
    }
    gang.spec.podgroups.push(last);
    let three = |first, second| cache([clique(EARLIER, first), clique(NAME, second), clique("llm-0-last", 1000)]);
    let oversized = oversized(&three(5000, 4000), &gang);
    let (cliques, gangs) = (three(1000, 1000), Cache::from_objects([gang]));
    let triggered = |name: &str, before| {
        let scaled_in = Delta { old: Some(clique(name, before).into()), new: Some(clique(name, 1000).into()) };
        let triggered = cliques_after_scaling(&cliques, &gangs, &oversized, &scaled_in);
        triggered.into_iter().map(|clique| clique.name).collect::<Vec<_>>()
    };
    assert_eq!(triggered(EARLIER, 5000), ["llm-0-last"], "the cache has both changes");
    assert_eq!((triggered(NAME, 4000), oversized.len()), (vec![], 0), "the clique has already been triggered");
}

#[test]
fn pods_are_created_without_waiting_for_the_gang() {
    check(
        "{replicas: 1}",
        &expect![[r"
        pods: create Pod ~-ml5tj
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
    check(
        "{replicas: 1, pods: [{i: 0, name: a}]}",
        &expect![[r"
        wait: PodGangNotFound PodGang llm-0 does not exist
    "]],
    );
}

#[test]
fn a_gang_without_the_pod_group_is_waited_for() {
    let mut observed = snapshot("{replicas: 1, gang: [], pods: [{i: 0, name: a}]}");
    let mut gang = (**observed.gang.as_ref().unwrap()).clone();
    gang.spec.podgroups.pop();
    observed.gang = Some(gang.into());
    expect![[r"
        wait: PodGroupNotFound PodGang llm-0 has no podgroup llm-0-decode
    "]]
    .assert_eq(&plan(&observed).to_string());
}

#[test]
fn a_gang_triggers_the_cliques_of_its_changed_pod_groups() {
    let change = |before: Option<&str>, after: Option<&str>| {
        let gang = |listed: &str| gang(&serde_saphyr::from_str(listed).unwrap());
        let delta = Delta { old: before.map(gang), new: after.map(gang) };
        changed_pod_groups(&delta).into_iter().collect::<Vec<_>>().join(" ")
    };
    let both = change(None, Some("[]"));
    assert!(both.contains("llm-0-decode") && both.contains("llm-0-prefill"), "{both}");
    assert_eq!(change(Some("[]"), None), both);
    assert_eq!(change(Some("[a]"), Some("[a]")), "");
    let one = change(Some("[a]"), Some("[b]"));
    assert!(one.contains("llm-0-decode") && !one.contains("prefill"), "{one}");
}

#[test]
fn a_replaced_pod_group_triggers_the_cliques_of_the_groups_behind_it() {
    let replaced = |at: usize| {
        let mut replaced = PodGang::clone(&gang(&json!([])));
        replaced.spec.podgroups[at].name = "llm-0-new".to_owned();
        let delta = Delta { old: Some(gang(&json!([]))), new: Some(replaced.into()) };
        changed_pod_groups(&delta).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(replaced(0), [NAME, "llm-0-new", EARLIER]);
    assert_eq!(replaced(1), [NAME, "llm-0-new"]);
}

#[test]
fn an_event_of_a_gang_reads_each_of_its_pod_groups_once() {
    let group =
        |number: usize| PodGroup { name: format!("llm-0-g-{number}-d"), ..gang(&json!([])).spec.podgroups[0].clone() };
    let old: Vec<_> = (0..1000).map(group).collect();
    let mut new = old.clone();
    new[900].pod_references = vec![NamespacedName { namespace: "prod".to_owned(), name: "a".to_owned() }];
    let reads = Cell::new(0);
    let count = |_: &&PodGroup| reads.set(reads.get() + 1);
    let changed = changed_names(old.iter().inspect(count), new.iter().inspect(count), false);
    assert_eq!((changed.into_iter().collect::<Vec<_>>(), reads.get()), (vec!["llm-0-g-900-d"], 2000));
}

/// The names of the triggered cliques, with `!` if they need a reconcile.
fn triggered_by_gang(cliques: &Cache<PodClique>, oversized: &LimitedCliques, old: &PodGang, new: &PodGang) -> String {
    let delta = Delta { old: Some(old.clone().into()), new: Some(new.clone().into()) };
    let triggers = cliques_of_gang(cliques, oversized, &delta).into_iter().map(|trigger| match trigger {
        Trigger::Reconcile(clique) | Trigger::Retry(clique) => format!("{}!", clique.name),
        Trigger::StatusOnly(clique) => clique.name,
    });
    triggers.collect::<Vec<_>>().join(" ")
}

#[test]
fn only_a_new_gang_requires_a_reconcile_of_its_cliques() {
    let cliques = cache([]);
    let triggered = |old: &PodGang, new: &PodGang| triggered_by_gang(&cliques, &LimitedCliques::default(), old, new);
    let (old, mut other_minimum) = (gang(&json!([])), PodGang::clone(&gang(&json!([]))));
    assert_eq!(triggered(&old, &gang(&json!(["a"]))), NAME);
    other_minimum.spec.podgroups[1].min_replicas = 2;
    assert_eq!(triggered(&old, &other_minimum), NAME);
    let mut recreated = PodGang::clone(&old);
    recreated.metadata.uid = Some("other".to_owned());
    assert_eq!(triggered(&old, &recreated), format!("{NAME}! {EARLIER}!"));
}

#[test]
fn another_number_of_pod_groups_triggers_the_cliques_with_a_larger_share() {
    let two = gang(&json!([]));
    let mut three = PodGang::clone(&two);
    three.spec.podgroups.push(PodGroup { name: "llm-0-last".to_owned(), ..two.spec.podgroups[1].clone() });
    let of_gang = |pods: usize| cache([clique(EARLIER, pods), clique(NAME, 1)]);
    let triggered = |pods: usize, old: &PodGang, new: &PodGang| {
        let cliques = of_gang(pods);
        triggered_by_gang(&cliques, &oversized(&cliques, old), old, new)
    };
    assert_eq!(triggered(1, &two, &three), "llm-0-last", "the gang fits");
    assert_eq!(triggered(MAX_PODS - 1, &two, &three), "llm-0-last", "no clique gets more references");
    assert_eq!(triggered(MAX_PODS - 1, &three, &two), format!("{NAME} llm-0-last"), "one more reference");
    assert_eq!(triggered(MAX_PODS, &three, &two), format!("llm-0-last {EARLIER}"), "the earlier clique gets it");
}
