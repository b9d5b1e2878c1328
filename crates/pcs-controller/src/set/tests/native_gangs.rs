//! The `PodGroup`s of the gangs of a set in the workload API.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use futures::{FutureExt, StreamExt};
use grove_api_types::labels::{GENERATION_HASH, POD_GROUP, POD_GROUP_SPEC};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Cache;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::observe::{decide_gangs, observe, record_gang_decisions};
use super::*;
use crate::informers::PcsCaches;
use crate::informers::tests::{clique_of, manager_with};
use crate::native_gangs::{BoundPod, BoundPods, Incarnations, gang_decisions};
use crate::set::Context;

const NATIVE: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: m, namespace: prod, uid: u}
spec:
  replicas: 1
  template:
    priorityClassName: high
    cliques:
    - {name: a, spec: {roleName: a, replicas: 3, minAvailable: 2, podSpec: {containers: [{name: c}]}}}
    - {name: b, spec: {roleName: b, replicas: 1, podSpec: {containers: [{name: c}]}}}
";

/// The snapshot as the service takes it at this time, in milliseconds. The LIST of the cliques has those of the cache.
pub(super) fn observe_at(milliseconds: i64, incarnations: &Incarnations, observed: &Observed) -> Observed {
    let cliques = observed.children.of_kind::<PodClique>().map(|clique| PodClique::clone(clique));
    let (cliques, now) = (Cache::from_objects(cliques), Timestamp::from_millisecond(milliseconds).expect("a time"));
    let mut gang_decisions = gang_decisions(incarnations, &cliques, |_| true, &expanded(observed).gangs(), now);
    gang_decisions.close_with_cliques(&BTreeSet::new());
    incarnations.record(&observed.set, gang_decisions.choices());
    Observed { gang_decisions, pack_affinities: observed.pack_affinities_of_cliques(), ..observed.clone() }
}

/// The steps for gangs and cliques, with their annotations.
fn check(observed: &Observed, expected: &Expect) {
    let plan = plan(observed);
    let steps = plan.steps().filter(|step| ["PodGang", "PodClique"].contains(&step.target().resource.kind.as_str()));
    let line = |step: &Step| match step {
        Step::Create(create) => {
            let value = create.object.value();
            let annotation = |key: &str| value["metadata"]["annotations"][key].as_str().unwrap_or("-").to_owned();
            format!("create {}: {} {}\n", create.target, annotation(POD_GROUP), annotation(POD_GROUP_SPEC))
        }
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => format!("{step}\n"),
    };
    let waiting = plan.waiting.iter().map(|waiting| format!("wait: {} {}\n", waiting.reason, waiting.message));
    expected.assert_eq(&steps.map(line).chain(waiting).collect::<String>());
}

/// The settled set, with the incarnation 1000.
pub(super) fn settled(incarnations: &Incarnations) -> Observed {
    let with_gang = executed(observe_at(1000, incarnations, &new(NATIVE)));
    let with_cliques = executed(observe_at(2000, incarnations, &with_gang));
    observe_at(3000, incarnations, &with_cliques)
}

pub(super) fn needs_bound_pods(observed: &Observed) -> bool {
    observed.gang_decisions.need_bound_pods().next().is_some()
}

/// The four pods of the incarnation 1000.
pub(super) fn all_bound() -> BTreeMap<String, BoundPods> {
    let mut bound = BoundPods::default();
    for clique in ["m-0-a", "m-0-a", "m-0-a", "m-0-b"] {
        bound.push(BoundPod { clique: Some(clique.to_owned()), pod_group: Some("m-0-1000".to_owned()) });
    }
    BTreeMap::from([("m-0".to_owned(), bound)])
}

pub(super) fn delete_clique(observed: &mut Observed, name: &str) {
    observed.children.by_name_mut::<PodClique>().remove(name).expect("a clique");
}

#[test]
fn the_cliques_of_a_new_gang_wait_until_it_names_its_pod_group() {
    let incarnations = Incarnations::of_served_api();
    let first = observe_at(1000, &incarnations, &new(NATIVE));
    check(
        &first,
        &expect![[r#"
            create PodGang m-0: m-0-1000 {"v":1,"minCount":3,"priorityClassName":"high"}
            wait: PodGangPending the next incarnation of PodGang m-0 begins with the next update of the PodGang
        "#]],
    );
    let second = observe_at(2000, &incarnations, &executed(first));
    check(
        &second,
        &expect![[r"
        create PodClique m-0-a: m-0-1000 -
        create PodClique m-0-b: m-0-1000 -
    "]],
    );
    check(&observe_at(3000, &incarnations, &executed(second)), &expect![[r""]]);
}

#[test]
fn a_deleted_clique_of_a_gang_gets_the_same_pod_group() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    delete_clique(&mut observed, "m-0-a");
    check(
        &observe_at(4000, &incarnations, &observed),
        &expect![[r"
        create PodClique m-0-a: m-0-1000 -
    "]],
    );
}

#[test]
fn a_gang_that_lost_all_cliques_begins_the_next_incarnation() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    delete_clique(&mut observed, "m-0-a");
    delete_clique(&mut observed, "m-0-b");
    check(
        &observe_at(4000, &incarnations, &observed),
        &expect![[r#"
            patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group":"m-0-4000"},"resourceVersion":"7"}}
            wait: PodGangPending the next incarnation of PodGang m-0 begins with the next update of the PodGang
        "#]],
    );
}

#[test]
fn a_deleted_gang_with_cliques_gets_the_same_pod_group() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    observed.children.by_name_mut::<PodGang>().remove("m-0").expect("a gang");
    delete_clique(&mut observed, "m-0-a");
    check(
        &observe_at(4000, &incarnations, &observed),
        &expect![[r#"
            create PodGang m-0: m-0-1000 {"v":1,"minCount":3,"priorityClassName":"high"}
            create PodClique m-0-a: m-0-1000 -
        "#]],
    );
}

#[test]
fn edited_annotations_are_restored() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    change(&mut observed, "m-0", |gang: &mut PodGang| {
        gang.annotations_mut().insert(POD_GROUP.to_owned(), "forged".to_owned());
    });
    change(&mut observed, "m-0-a", |clique: &mut PodClique| {
        clique.annotations_mut().remove(POD_GROUP);
    });
    check(
        &observe_at(4000, &incarnations, &observed),
        &expect![[r#"
        patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group":"m-0-1000"},"resourceVersion":"7"}}
        patch PodClique m-0-a {"metadata":{"annotations":{"grove.io/pod-group":"m-0-1000"}}}
    "#]],
    );
}

#[test]
fn another_priority_is_recorded_if_no_pod_is_bound() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    observed.set.spec.template.priority_class_name = "low".to_owned();
    let close = |has_bound_pods: bool| {
        let mut open = observe_at(4000, &incarnations, &observed);
        assert!(needs_bound_pods(&open));
        let bound = if has_bound_pods { all_bound() } else { BTreeMap::new() };
        open.gang_decisions.close_with_bound_pods(&bound, Timestamp::from_millisecond(4000).expect("a time"));
        incarnations.record(&open.set, open.gang_decisions.choices());
        open
    };
    let bound = close(true);
    check(
        &bound,
        &expect![[r#"
            patch PodGang m-0 {"metadata":{"labels":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"resourceVersion":"7"},"spec":{"priorityClassName":"low"}}
            patch PodClique m-0-a {"metadata":{"annotations":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"labels":{"grove.io/pod-template-hash":"1a0e9097b6d4f45e7"},"resourceVersion":"7"}}
            patch PodClique m-0-b {"metadata":{"annotations":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"labels":{"grove.io/pod-template-hash":"1a0e9097b6d4f45e7"},"resourceVersion":"7"}}
        "#]],
    );
    assert!(!needs_bound_pods(&observe_at(5000, &incarnations, &bound)), "no second LIST");
    incarnations.forget(&bound.set);
    check(
        &close(false),
        &expect![[r#"
            patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group":"m-0-4000","grove.io/pod-group-spec":"{\"v\":1,\"minCount\":3,\"priorityClassName\":\"low\"}"},"labels":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"resourceVersion":"7"},"spec":{"priorityClassName":"low"}}
            patch PodClique m-0-a {"metadata":{"annotations":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"labels":{"grove.io/pod-template-hash":"1a0e9097b6d4f45e7"},"resourceVersion":"7"}}
            patch PodClique m-0-b {"metadata":{"annotations":{"grove.io/podcliqueset-generation-hash":"1feb35c44250d42fa"},"labels":{"grove.io/pod-template-hash":"1a0e9097b6d4f45e7"},"resourceVersion":"7"}}
        "#]],
    );
}

#[test]
fn a_clique_at_zero_is_not_demanded() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    change(&mut observed, "m-0-a", |clique: &mut PodClique| clique.spec.replicas = 0);
    let close = |bound: BTreeMap<String, BoundPods>| {
        let mut open = observe_at(4000, &incarnations, &observed);
        assert!(needs_bound_pods(&open));
        open.gang_decisions.close_with_bound_pods(&bound, Timestamp::from_millisecond(4000).expect("a time"));
        open
    };
    check(
        &close(all_bound()),
        &expect![[r#"
        patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group-spec":"{\"v\":1,\"minCount\":3,\"priorityClassName\":\"high\",\"belowMinimum\":{\"m-0-a\":0}}","grove.io/scale":"{\"v\":1,\"cliques\":{\"m-0-a\":{\"replicas\":0,\"template\":3}}}"},"resourceVersion":"7"}}
    "#]],
    );
    check(
        &close(BTreeMap::new()),
        &expect![[r#"
        patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group":"m-0-4000","grove.io/pod-group-spec":"{\"v\":1,\"minCount\":1,\"priorityClassName\":\"high\",\"belowMinimum\":{\"m-0-a\":0}}","grove.io/scale":"{\"v\":1,\"cliques\":{\"m-0-a\":{\"replicas\":0,\"template\":3}}}"},"resourceVersion":"7"}}
    "#]],
    );
}

/// A change that arrives while the set is decided triggers nothing, because the earlier decision does not depend on it.
#[tokio::test]
async fn the_set_is_decided_again_if_a_clique_changed_in_the_meantime() {
    let set: Value = serde_saphyr::from_str(NATIVE).expect("YAML");
    let mut current = clique_of("PodCliqueSet", &set);
    current["metadata"]["name"] = json!("m-0-a");
    current["metadata"]["annotations"] = json!({ POD_GROUP: "m-0-1000.5" });
    let mut earlier = current.clone();
    earlier["status"] = json!({ "scheduledReplicas": 1 });
    let manager = manager_with([("podcliquesets", set), ("podcliques", current.clone())]);
    let caches = PcsCaches::start(&manager).expect("the caches");
    let ctx = Context::new(&manager, caches.clone());
    assert!(manager.wait_for_cache_sync().await);
    let mut requests = caches.incarnations.requested_decisions().expect("the first call");
    for (clique, is_requested) in [(current, false), (earlier, true)] {
        let cliques = Cache::from_objects([serde_json::from_value::<PodClique>(clique).expect("a clique")]);
        let mut observed = observe(&ctx, &yaml(NATIVE));
        let incarnations = Incarnations::of_served_api();
        observed.gang_decisions =
            gang_decisions(&incarnations, &cliques, |_| true, &observed.gangs(), Timestamp::UNIX_EPOCH);
        observed.gang_decisions.close_with_bound_pods(&all_bound(), Timestamp::UNIX_EPOCH);
        record_gang_decisions(&ctx, &observed);
        assert_eq!(requests.next().now_or_never().is_some(), is_requested);
    }
}

#[test]
fn the_cliques_follow_the_gang_to_the_next_incarnation() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    change(&mut observed, "m-0", |gang: &mut PodGang| {
        gang.annotations_mut().insert(POD_GROUP.to_owned(), "m-0-4000".to_owned());
    });
    check(
        &observe_at(5000, &incarnations, &observed),
        &expect![[r#"
        patch PodClique m-0-a {"metadata":{"annotations":{"grove.io/pod-group":"m-0-4000"}}}
        patch PodClique m-0-b {"metadata":{"annotations":{"grove.io/pod-group":"m-0-4000"}}}
    "#]],
    );
}

#[test]
fn a_gang_that_was_created_without_a_pod_group_stays_without_one() {
    let incarnations = Incarnations::of_served_api();
    let observed = executed(new(NATIVE));
    check(&observe_at(4000, &incarnations, &observed), &expect![[r""]]);
}

#[tokio::test]
async fn the_cliques_of_an_earlier_set_of_the_same_name_do_not_count() {
    for (owner_uid, is_next) in [("u", false), ("u-earlier", true)] {
        let set: Value = serde_saphyr::from_str(NATIVE).expect("YAML");
        let mut owner = set.clone();
        owner["metadata"]["uid"] = json!(owner_uid);
        let mut clique = clique_of("PodCliqueSet", &owner);
        clique["metadata"]["name"] = json!("m-0-a");
        clique["metadata"]["labels"] = json!({ "grove.io/podgang": "m-0" });
        clique["metadata"]["annotations"] = json!({ POD_GROUP: "m-0-1000" });
        let manager = manager_with([("podcliquesets", set), ("podcliques", clique)]);
        let caches = PcsCaches::start(&manager).expect("the caches");
        let ctx = Context::new(&manager, caches.clone());
        assert!(manager.wait_for_cache_sync().await);
        let mut observed = observe(&ctx, &yaml(NATIVE));
        decide_gangs(&ctx, &mut observed, Timestamp::UNIX_EPOCH);
        assert_eq!(observed.gang_decisions.is_next("m-0"), is_next, "{owner_uid}");
    }
}

#[test]
fn a_gang_that_restarts_without_a_pod_group_loses_its_annotations_before_it_gets_cliques() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    observed.set.spec.template.cliques[0].spec.pod_spec.insert("schedulingGroup", json!({ "podGroupName": "own" }));
    delete_clique(&mut observed, "m-0-a");
    delete_clique(&mut observed, "m-0-b");
    check(
        &observe_at(4000, &incarnations, &observed),
        &expect![[r#"
            patch PodGang m-0 {"metadata":{"annotations":{"grove.io/pod-group":null,"grove.io/pod-group-spec":null},"labels":{"grove.io/podcliqueset-generation-hash":"13fc879aabdaf4178"},"resourceVersion":"7"}}
            wait: PodGangPending the next incarnation of PodGang m-0 begins with the next update of the PodGang
        "#]],
    );
}

#[test]
fn the_cliques_of_a_deleted_gang_keep_their_pod_group_also_if_native_gangs_no_longer_apply() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    observed.set.spec.template.cliques[0].spec.pod_spec.insert("schedulingGroup", json!({ "podGroupName": "own" }));
    observed.children.by_name_mut::<PodGang>().remove("m-0").expect("a gang");
    let observed = observe_at(4000, &incarnations, &observed);
    assert_eq!(observed.gang_decisions.of_cliques("m-0"), Some("m-0-1000"));
    assert_eq!(observed.gang_decisions.of_gang("m-0").map(|group| group.name.as_str()), Some("m-0-1000"));
}

/// The gang of a later replica of a scaling group names the revision of its pods. It gets the current one together with the next `PodGroup`, when its
/// group requests it for this revision, and the set is being updated.
#[test]
fn a_scaled_gang_names_its_earlier_revision_until_its_turn() {
    let group = "    podCliqueScalingGroups: [{name: g, cliqueNames: [b], replicas: 2, minAvailable: 1}]\n";
    let incarnations = Incarnations::of_served_api();
    let mut observed = executed(observe_at(1000, &incarnations, &new(&format!("{NATIVE}{group}"))));
    change::<PodGang>(&mut observed, "m-0-g-0", |gang| {
        gang.labels_mut().insert(GENERATION_HASH.to_owned(), "1old".to_owned());
    });
    let clique = json!({
        "metadata": { "name": "m-0-g-1-b", "namespace": "prod",
            "annotations": { POD_GROUP: "m-0-g-0-1000", GENERATION_HASH: "1old" } },
        "spec": { "replicas": 1, "podSpec": {} },
    });
    let cliques = Cache::from_objects([serde_json::from_value::<PodClique>(clique).expect("a clique")]);
    let decide = |observed: &Observed, given: &[i32], waiting: &[i32]| {
        let mut snapshot = expanded(observed);
        snapshot.turns.given = given.iter().copied().collect();
        snapshot.turns.waiting = waiting.iter().copied().collect();
        let now = Timestamp::from_millisecond(5000).expect("a time");
        let decided = gang_decisions(&incarnations, &cliques, |_| true, &snapshot.gangs(), now);
        let pod_group = decided.of_gang("m-0-g-0").map(|group| group.name.clone()).unwrap_or_default();
        (decided.earlier_revision("m-0-g-0").map(str::to_owned), pod_group)
    };
    let kept = (Some("1old".to_owned()), "m-0-g-0-1000".to_owned());
    let mut without_gang = observed.clone();
    without_gang.children.by_name_mut::<PodGang>().remove("m-0-g-0").expect("a gang");
    assert_eq!(decide(&without_gang, &[0], &[]), kept, "a user has deleted the gang");
    let mut not_native = observed.clone();
    let spec = &mut not_native.set.spec.template.cliques[0].spec.pod_spec;
    spec.insert("schedulingGroup", json!({ "podGroupName": "own" }));
    assert_eq!(decide(&not_native, &[0], &[]), kept, "native gangs no longer apply");
    assert_eq!(decide(&observed, &[0], &[]), kept, "the set is updated, and the replica of the group later");
    assert_eq!(decide(&observed, &[], &[0]), kept, "the replica of the set is updated later");
    assert_eq!(decide(&observed, &[], &[]).0, None, "no update is in progress");
    let sets = Cache::from_objects([observed.set.clone()]);
    incarnations.request_restart(&Cache::from_objects([]), &observed.set, "m-0-g-0".to_owned(), "1other");
    assert!(incarnations.requested_restarts(&observed.set).is_empty(), "the set was deleted");
    incarnations.request_restart(&sets, &observed.set, "m-0-g-0".to_owned(), "1other");
    assert_eq!(decide(&observed, &[0], &[]), kept, "the request was for another revision");
    let hash = expanded(&observed).hash().to_owned();
    incarnations.request_restart(&sets, &observed.set, "m-0-g-0".to_owned(), &hash);
    assert_eq!(decide(&observed, &[], &[0]), kept, "another update has begun");
    assert_eq!(decide(&observed, &[0], &[]), (None, "m-0-g-0-5000".to_owned()));
}
