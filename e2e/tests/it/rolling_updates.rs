//! A changed template replaces the pods: one replica of the set after the other, and within it one unit after the other.

pub(super) mod scenarios;
pub(super) mod units;

use std::collections::{BTreeMap, BTreeSet};

use e2e::watch_history::{Change, WatchHistory};
use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_ready};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const FIRST_IMAGE: &str = "registry.k8s.io/pause:3.10";
const NEW_IMAGE: &str = "registry.k8s.io/pause:3.9";
const THIRD_IMAGE: &str = "registry.k8s.io/pause:3.8";

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref()).expect("an image")
}

pub(super) fn label<'p>(pod: &'p Pod, key: &str) -> &'p str {
    pod.labels().get(key).map_or("", String::as_str)
}

#[tokio::test]
async fn pods_of_a_clique_are_replaced_one_after_the_other() {
    in_namespace("e2e-ru-7", ru_7).await;
}

#[tokio::test]
async fn replicas_of_a_group_are_replaced_as_a_whole_one_after_the_other() {
    in_namespace("e2e-ru-8", ru_8).await;
}

#[tokio::test]
async fn with_on_delete_the_user_replaces_the_pods() {
    in_namespace("e2e-od-1", od_1).await;
}

/// The pods of the cliques whose names end with this.
fn pods_of<'a>(state: &'a NamespaceState, clique: &str) -> Vec<&'a Pod> {
    state.active_pods().filter(|pod| label(pod, labels::POD_CLIQUE).ends_with(clique)).collect()
}

/// Changes fields of the cliques at these positions of the template, in one patch.
async fn change(ns: &Namespace, cliques: &[usize], fields: &[(&str, Value)]) {
    let change = cliques.iter().flat_map(|clique| {
        fields.iter().map(move |(path, value)| {
            json!({ "op": "add", "path": format!("/spec/template/cliques/{clique}/{path}"), "value": value })
        })
    });
    let patch = Patch::Json::<()>(serde_json::from_value(change.collect()).expect("a patch"));
    let patched = ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await;
    patched.expect("the template is patched");
}

/// A new image whose pods never become ready.
fn unready_template() -> [(&'static str, Value); 2] {
    new_template("unready")
}

/// A new image whose pods behave so.
fn new_template(behaviour: &str) -> [(&'static str, Value); 2] {
    let behaviour = json!({ "test.grove.io/behaviour": behaviour });
    [("spec/podSpec/containers/0/image", json!(NEW_IMAGE)), ("annotations", behaviour)]
}

/// Whether a pod of these cliques has the new image.
fn has_new_pod(state: &NamespaceState, clique: &str) -> bool {
    pods_of(state, clique).iter().any(|pod| image(pod) == NEW_IMAGE)
}

async fn change_image(ns: &Namespace, cliques: &[usize], image: &str) {
    change(ns, cliques, &[("spec/podSpec/containers/0/image", json!(image))]).await;
}

/// Whether the set has observed its generation, and its last update has ended.
fn has_ended(state: &NamespaceState) -> bool {
    let Some(set) = state.sets.get("llm") else { return false };
    let Some(status) = &set.status else { return false };
    let progress = status.update_progress.as_ref();
    status.observed_generation == set.metadata.generation
        && progress.is_some_and(|progress| progress.update_ended_at.is_some() && progress.currently_updating.is_empty())
}

/// Waits until the update has ended. Then all pods of these cliques have this image, and the set is available. Returns the state when all pods are
/// ready.
async fn wait_for_end(ns: &Namespace, cliques: &[&str], image_of_all: &str) -> NamespaceState {
    let state = ns.wait_for("the update has ended", has_ended).await;
    assert!(state.is_available("llm"), "the update ended before the set is available");
    for clique in cliques {
        for pod in pods_of(&state, clique) {
            assert_eq!(image(pod), image_of_all, "{}", pod.name_any());
        }
    }
    ns.wait_for("all pods are ready", |state| has_ended(state) && all_are_ready(state)).await
}

async fn available(ns: &Namespace, yaml: &str) -> NamespaceState {
    ns.create_yaml::<PodCliqueSet>(yaml).await;
    let is_settled = |state: &NamespaceState| {
        state.sets.contains_key("llm") && state.is_available("llm") && state.status_is_current() && all_are_ready(state)
    };
    ns.wait_for("the set is available", is_settled).await
}

/// Whether all desired pods are ready.
fn all_are_ready(state: &NamespaceState) -> bool {
    let has_all = |clique: &PodClique| {
        let desired = usize::try_from(clique.spec.replicas).expect("not negative");
        state.ready_indices(&clique.name_any()).len() == desired
    };
    state.cliques.values().all(has_all)
}

fn uids(pods: &[&Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.uid()).collect()
}

/// Asserts after each watch event that at most one unit is down. `unit` is the unit of a pod, and `needed` how many of its pods must be ready.
pub(super) fn assert_one_unit_at_a_time(
    changes: &[Change<Pod>],
    is_of: impl Fn(&Pod) -> bool,
    (unit, needed): (impl Fn(&Pod) -> String, usize),
) {
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    let mut complete = BTreeSet::new();
    for change in changes.iter().filter(|change| is_of(&change.object)) {
        let name = change.object.name_any();
        if change.is_deleted {
            pods.remove(&name);
        } else {
            pods.insert(name, change.object.clone());
        }
        let mut ready: BTreeMap<String, usize> = BTreeMap::new();
        for pod in pods.values().filter(|pod| is_ready(pod) && !is_terminating(*pod)) {
            *ready.entry(unit(pod)).or_default() += 1;
        }
        let is_up = |unit: &String| ready.get(unit).is_some_and(|count| *count >= needed);
        complete.extend(ready.keys().filter(|unit| is_up(unit)).cloned());
        let down: Vec<_> = complete.iter().filter(|unit| !is_up(unit)).collect();
        assert!(down.len() <= 1, "{down:?} are down after {}", change.object.name_any());
    }
    assert!(!complete.is_empty());
}

/// Asserts after each watch event that the set updates at most one replica.
fn assert_one_replica_at_a_time(changes: &[Change<PodCliqueSet>]) {
    let mut updated = BTreeSet::new();
    for change in changes {
        let progress = change.object.status.as_ref().and_then(|status| status.update_progress.as_ref());
        let current: Vec<_> = progress.iter().flat_map(|progress| &progress.currently_updating).collect();
        assert!(current.len() <= 1, "{current:?}");
        updated.extend(current.iter().map(|entry| entry.replica_index));
    }
    assert_eq!(updated, BTreeSet::from([0, 1]), "each replica has had its turn");
}

/// RU-7: pods of a standalone clique, in two replicas of the set.
pub(super) async fn ru_7(ns: &Namespace) {
    let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
    let sets = WatchHistory::default().record::<PodCliqueSet>(ns, |set| *set).await;
    let before = available(ns, &fixtures::three_cliques("llm", 2)).await;
    change_image(ns, &[2], NEW_IMAGE).await;
    let after = wait_for_end(ns, &["-decode"], NEW_IMAGE).await;
    for clique in ["-frontend", "-prefill"] {
        assert_eq!(uids(&pods_of(&before, clique)), uids(&pods_of(&after, clique)), "{clique} has not changed");
    }
    let changes = history.changes().await;
    for clique in ["llm-0-decode", "llm-1-decode"] {
        let is_of = |pod: &Pod| label(pod, labels::POD_CLIQUE) == clique;
        assert_one_unit_at_a_time(&changes, is_of, (|pod: &Pod| label(pod, labels::POD_INDEX).to_owned(), 1));
    }
    assert_one_replica_at_a_time(&sets.changes().await);
    for clique in ["llm-0-decode", "llm-1-decode"] {
        let status = after.cliques[clique].status.as_ref().expect("a status");
        let progress = status.update_progress.as_ref().expect("the progress");
        assert!(progress.update_ended_at.is_some() && status.updated_replicas == 2, "{status:?}");
        assert_eq!(status.current_pod_template_hash.as_ref(), Some(&progress.pod_template_hash));
    }
}

/// RU-8: the replicas of a scaling group, each as a whole, although the template of only one clique has changed.
pub(super) async fn ru_8(ns: &Namespace) {
    let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
    let before = available(ns, &fixtures::with_scaling_group("llm", 1, "")).await;
    change_image(ns, &[1], NEW_IMAGE).await;
    let after = wait_for_end(ns, &["-p"], NEW_IMAGE).await;
    assert_eq!(uids(&pods_of(&before, "-f")), uids(&pods_of(&after, "-f")), "the standalone clique has not changed");
    let (were, are) = (uids(&pods_of(&before, "-d")), uids(&pods_of(&after, "-d")));
    assert!(were.is_disjoint(&are), "the replicas are replaced as a whole");
    let is_of = |pod: &Pod| !label(pod, labels::SCALING_GROUP).is_empty();
    let changes = history.changes().await;
    // One pod of p, and two of d.
    let replica = |pod: &Pod| label(pod, labels::SCALING_GROUP_REPLICA).to_owned();
    assert_one_unit_at_a_time(&changes, is_of, (replica, 3));
    let status = after.groups["llm-0-g"].status.clone().expect("a status");
    assert_eq!((status.updated_replicas, status.available_replicas), (3, 3));
    assert!(status.update_progress.is_some_and(|progress| progress.update_ended_at.is_some()));
}

/// An image that never becomes ready blocks the update of its replica, and the correction replaces it.
#[tokio::test]
async fn a_correction_unblocks_an_update() {
    in_namespace("e2e-ru-correction", async |ns| {
        let before = available(ns, &fixtures::three_cliques("llm", 2)).await;
        change(ns, &[2], &unready_template()).await;
        let is_blocked = |state: &NamespaceState| has_new_pod(state, "-decode");
        let blocked = ns.wait_for("a pod has the new template", is_blocked).await;
        let old: Vec<_> = pods_of(&blocked, "-decode").into_iter().filter(|pod| image(pod) == FIRST_IMAGE).collect();
        assert_eq!(old.len(), 3, "one of four pods is replaced");
        let set = blocked.sets["llm"].status.clone().expect("a status");
        assert!(set.update_progress.is_some_and(|progress| progress.update_ended_at.is_none()));
        let waits_for = "the update waits for PodClique llm-0-decode";
        ns.wait_for_condition("llm", "UpdateInProgress", "Progressing", waits_for).await;
        let correction = [("spec/podSpec/containers/0/image", json!(THIRD_IMAGE)), ("annotations", json!({}))];
        change(ns, &[2], &correction).await;
        let after = wait_for_end(ns, &["-decode"], THIRD_IMAGE).await;
        assert!(uids(&pods_of(&before, "-decode")).is_disjoint(&uids(&pods_of(&after, "-decode"))));
        ns.wait_for_condition("llm", "UpdateInProgress", "NoActiveUpdate", "no update is in progress").await;
    })
    .await;
}

/// Two changes within a moment lead to the last template, and a change back to the first one ends when all pods have it.
#[tokio::test]
async fn changes_in_quick_succession_lead_to_the_last_template() {
    in_namespace("e2e-ru-quick", async |ns| {
        available(ns, &fixtures::three_cliques("llm", 1)).await;
        change_image(ns, &[0, 1, 2], NEW_IMAGE).await;
        change_image(ns, &[0, 1, 2], THIRD_IMAGE).await;
        wait_for_end(ns, &["-frontend", "-prefill", "-decode"], THIRD_IMAGE).await;
        change_image(ns, &[1], NEW_IMAGE).await;
        let has_begun = |state: &NamespaceState| has_new_pod(state, "-prefill");
        ns.wait_for("a pod is replaced", has_begun).await;
        change_image(ns, &[1], THIRD_IMAGE).await;
        wait_for_end(ns, &["-frontend", "-prefill", "-decode"], THIRD_IMAGE).await;
    })
    .await;
}

/// A set scales, and so do its cliques and groups, in the middle of an update.
#[tokio::test]
async fn an_update_continues_while_the_set_scales() {
    in_namespace("e2e-ru-scale", async |ns| {
        available(ns, &fixtures::with_scaling_group("llm", 2, "")).await;
        change_image(ns, &[0, 1, 2], NEW_IMAGE).await;
        let has_begun = |state: &NamespaceState| state.active_pods().any(|pod| image(pod) == NEW_IMAGE);
        ns.wait_for("the update has begun", has_begun).await;
        ns.scale::<PodCliqueScalingGroup>("llm-0-g", 2).await;
        ns.scale::<PodClique>("llm-1-f", 3).await;
        ns.scale::<PodCliqueSet>("llm", 3).await;
        let is_scaled = |state: &NamespaceState| has_ended(state) && state.groups.len() == 3 && all_are_ready(state);
        let state = ns.wait_for("the update has ended", is_scaled).await;
        assert!(state.active_pods().all(|pod| image(pod) == NEW_IMAGE));
        let of_clique = |clique: &str| pods_of(&state, clique).len();
        assert_eq!((of_clique("llm-1-f"), of_clique("llm-0-g-1-p"), of_clique("llm-0-g-2-p")), (3, 1, 0));
        ns.scale::<PodCliqueSet>("llm", 1).await;
        ns.wait_for("the other replicas are deleted", |state| state.groups.len() == 1).await;
    })
    .await;
}

/// OD-1: with `OnDelete`, pods stay until the user deletes them. A change to `OnDelete` ends an update.
pub(super) async fn od_1(ns: &Namespace) {
    let before = available(ns, &fixtures::three_cliques("llm", 2)).await;
    change(ns, &[1], &unready_template()).await;
    let is_blocked = |state: &NamespaceState| has_new_pod(state, "-prefill");
    ns.wait_for("a pod has the new template", is_blocked).await;
    let strategy = json!({ "spec": { "updateStrategy": { "type": "OnDelete" } } });
    ns.patch::<PodCliqueSet>("llm", strategy).await;
    let has_new_template = |state: &NamespaceState| {
        let hash = |clique: &str| state.cliques[clique].labels().get(labels::TEMPLATE_HASH).cloned();
        has_ended(state) && hash("llm-0-prefill") == hash("llm-1-prefill")
    };
    let ended = ns.wait_for("the update has ended", has_new_template).await;
    let old =
        |state: &NamespaceState| pods_of(state, "-prefill").iter().filter(|pod| image(pod) == FIRST_IMAGE).count();
    assert_eq!(old(&ended), 3, "the pods of the other replica stay");
    a_change_of_the_strategy_replaces_no_pod(ns, &ended).await;
    change_image(ns, &[2], NEW_IMAGE).await;
    let of_decode = |state: &NamespaceState| {
        let hashes =
            |state: &NamespaceState| state.cliques["llm-0-decode"].labels().get(labels::TEMPLATE_HASH).cloned();
        has_ended(state) && hashes(state) != hashes(&before)
    };
    let state = ns.wait_for("the cliques have the new template", of_decode).await;
    assert_eq!(uids(&pods_of(&before, "-decode")), uids(&pods_of(&state, "-decode")), "no pod is replaced");
    for pod in pods_of(&state, "-decode") {
        ns.delete_object::<Pod>(&pod.name_any()).await;
    }
    let are_new = |state: &NamespaceState| {
        let pods = pods_of(state, "-decode");
        pods.len() == 4 && pods.iter().all(|pod| image(pod) == NEW_IMAGE && is_ready(pod))
    };
    ns.wait_for("the new pods have the new template", are_new).await;
}

/// There is nothing left to do for a generation with another strategy, although old pods run.
async fn a_change_of_the_strategy_replaces_no_pod(ns: &Namespace, before: &NamespaceState) {
    for strategy in ["RollingRecreate", "OnDelete"] {
        let patch = json!({ "spec": { "updateStrategy": { "type": strategy } } });
        ns.patch::<PodCliqueSet>("llm", patch).await;
        let generation = ns.api::<PodCliqueSet>().get("llm").await.expect("the set").metadata.generation;
        let is_observed = |state: &NamespaceState| {
            state.sets["llm"].status.as_ref().is_some_and(|status| status.observed_generation == generation)
        };
        let state = ns.wait_for(&format!("the generation with {strategy} is observed"), is_observed).await;
        assert_eq!(uids(&pods_of(before, "")), uids(&pods_of(&state, "")), "{strategy} replaces no pod");
    }
}

/// The user writes the template of an earlier revision into the set. A clique that is deleted before its turn has its former template.
#[tokio::test]
async fn a_set_is_rolled_back_to_an_earlier_revision() {
    in_namespace("e2e-ru-rollback", async |ns| {
        available(ns, &fixtures::three_cliques("llm", 2)).await;
        let revisions = async || {
            let list = ns.api::<ControllerRevision>().list(&ListParams::default()).await.expect("the revisions");
            let mut revisions = list.items;
            revisions.sort_by_key(|revision| revision.revision);
            revisions
        };
        let first = revisions().await.pop().expect("a revision");
        change(ns, &[0], &unready_template()).await;
        let has_begun = |state: &NamespaceState| has_new_pod(state, "llm-0-frontend");
        ns.wait_for("the update has begun", has_begun).await;
        ns.delete_object::<PodClique>("llm-1-frontend").await;
        let is_recreated = |state: &NamespaceState| pods_of(state, "llm-1-frontend").iter().any(|pod| is_ready(pod));
        let state = ns.wait_for("the clique is created again", is_recreated).await;
        assert_eq!(image(pods_of(&state, "llm-1-frontend")[0]), FIRST_IMAGE, "it is not its turn");
        assert_eq!(revisions().await.len(), 2);
        ns.patch::<PodCliqueSet>("llm", first.data.0.clone()).await;
        wait_for_end(ns, &["-frontend"], FIRST_IMAGE).await;
        let all = revisions().await;
        assert_eq!(all.iter().map(|revision| revision.revision).collect::<Vec<_>>(), [Some(2), Some(3)]);
        assert_eq!(all[1].name_any(), first.name_any(), "the first template is the latest one again");
        for image in [NEW_IMAGE, THIRD_IMAGE] {
            change(ns, &[0], &[("spec/podSpec/containers/0/image", json!(image)), ("annotations", json!({}))]).await;
            wait_for_end(ns, &["-frontend"], image).await;
        }
        let all = revisions().await;
        let of_image = |image: &str| {
            let has_image = |revision: &&ControllerRevision| revision.data.0.to_string().contains(image);
            all.iter().rev().find(has_image).expect("the revision").data.0.clone()
        };
        let earlier =
            [(FIRST_IMAGE, first.data.0), (NEW_IMAGE, of_image(NEW_IMAGE)), (THIRD_IMAGE, of_image(THIRD_IMAGE))];
        for (image, template) in earlier {
            ns.patch::<PodCliqueSet>("llm", template).await;
            wait_for_end(ns, &["-frontend"], image).await;
        }
    })
    .await;
}

/// Replaces the controls of the updates of the set.
async fn control(ns: &Namespace, controls: Value) {
    let strategy = json!({ "type": "RollingRecreate", "rollingUpdate": controls });
    let patch = json!([{ "op": "add", "path": "/spec/updateStrategy", "value": strategy }]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"));
    ns.api::<PodCliqueSet>().patch("llm", &PatchParams::default(), &patch).await.expect("the set is patched");
}

/// Replicas below `partition` keep their template. While the set is paused, no pod is replaced. Then all replicas are updated at once.
#[tokio::test]
async fn an_update_is_limited_to_some_replicas_and_paused() {
    in_namespace("e2e-ru-controls", async |ns| {
        let before = available(ns, &fixtures::three_cliques("llm", 3)).await;
        control(ns, json!({ "partition": 2 })).await;
        change_image(ns, &[0, 1], NEW_IMAGE).await;
        let canary = ns.wait_for("the update has ended", |state| has_ended(state) && all_are_ready(state)).await;
        for clique in ["-frontend", "-prefill"] {
            let images = [0, 1, 2].map(|replica| image(pods_of(&canary, &format!("llm-{replica}{clique}"))[0]));
            assert_eq!(images, [FIRST_IMAGE, FIRST_IMAGE, NEW_IMAGE], "{clique}");
        }
        assert_eq!(uids(&pods_of(&before, "-decode")), uids(&pods_of(&canary, "-decode")), "decode has not changed");
        let status = canary.sets["llm"].status.as_ref().expect("a status");
        assert_eq!((status.updated_replicas, status.available_replicas), (1, 3));
        ns.delete_object::<PodClique>("llm-0-frontend").await;
        let is_recreated = |state: &NamespaceState| {
            pods_of(state, "llm-0-frontend").iter().any(|pod| is_ready(pod)) && all_are_ready(state)
        };
        let recreated = ns.wait_for("the clique is created again", is_recreated).await;
        assert_eq!(image(pods_of(&recreated, "llm-0-frontend")[0]), FIRST_IMAGE, "it keeps its template");

        control(ns, json!({ "partition": 0, "paused": true })).await;
        ns.wait_for_condition("llm", "UpdateInProgress", "Paused", "the update is paused").await;
        change_image(ns, &[2], NEW_IMAGE).await;
        let is_observed = |state: &NamespaceState| {
            let hash =
                |replica: &str| state.cliques[&format!("llm-{replica}-decode")].labels()[labels::TEMPLATE_HASH].clone();
            let status = state.sets["llm"].status.as_ref().expect("a status");
            let revision = status.current_generation_hash.as_ref();
            hash("0") == hash("2")
                && revision != canary.sets["llm"].status.as_ref().and_then(|it| it.current_generation_hash.as_ref())
        };
        let paused = ns.wait_for("the change is observed", is_observed).await;
        assert_eq!(uids(&pods_of(&recreated, "")), uids(&pods_of(&paused, "")), "no pod is replaced");

        control(ns, json!({ "maxUnavailable": "67%" })).await;
        let both = |state: &NamespaceState| {
            let status = state.sets["llm"].status.as_ref().and_then(|status| status.update_progress.as_ref());
            status.is_some_and(|progress| progress.currently_updating.len() == 2)
        };
        ns.wait_for("two replicas are updated at a time", both).await;
        wait_for_end(ns, &["-frontend", "-prefill", "-decode"], NEW_IMAGE).await;
    })
    .await;
}

/// The number of ready pods of a clique with ten pods never falls below that which its `maxUnavailable` promises, and reaches it.
#[tokio::test]
async fn several_pods_are_replaced_at_a_time() {
    in_namespace("e2e-ru-bounds", async |ns| {
        let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
        available(ns, &fixtures::three_cliques("llm", 1)).await;
        ns.scale::<PodClique>("llm-0-decode", 10).await;
        ns.wait_for("ten pods are ready", all_are_ready).await;
        let (mut pods, mut seen) = (BTreeMap::new(), 0);
        let mut lowest_since = async || {
            let changes = history.changes().await;
            let of_clique = |change: &&Change<Pod>| label(&change.object, labels::POD_CLIQUE) == "llm-0-decode";
            let lowest = changes[seen..].iter().filter(of_clique).map(|change| {
                let pod = (!change.is_deleted).then(|| change.object.clone());
                pods.insert(change.object.name_any(), pod);
                pods.values().flatten().filter(|pod| is_ready(pod) && !is_terminating(*pod)).count()
            });
            let lowest = lowest.min();
            seen = changes.len();
            lowest
        };
        lowest_since().await;
        for (max_unavailable, image, expected) in
            [(json!(1), NEW_IMAGE, 9), (json!(2), THIRD_IMAGE, 8), (json!("30%"), FIRST_IMAGE, 7)]
        {
            change(ns, &[2], &[("rollingUpdate", json!({ "maxUnavailable": max_unavailable }))]).await;
            change_image(ns, &[2], image).await;
            wait_for_end(ns, &["-decode"], image).await;
            assert_eq!(lowest_since().await, Some(expected), "{max_unavailable} of ten pods");
        }
    })
    .await;
}

/// The next pod is replaced when the new one has been ready for `minReadySeconds`.
#[tokio::test]
async fn a_new_pod_must_be_ready_for_some_time() {
    in_namespace("e2e-ru-min-ready", async |ns| {
        let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
        available(ns, &fixtures::three_cliques("llm", 1)).await;
        control(ns, json!({ "minReadySeconds": 2 })).await;
        change_image(ns, &[2], NEW_IMAGE).await;
        wait_for_end(ns, &["-decode"], NEW_IMAGE).await;
        let changes = history.changes().await;
        let of = |index: &str| {
            let is_of = move |change: &&Change<Pod>| {
                label(&change.object, labels::POD_CLIQUE) == "llm-0-decode"
                    && label(&change.object, labels::POD_INDEX) == index
            };
            changes.iter().filter(is_of).map(|change| &change.object).collect::<Vec<_>>()
        };
        let ready_since = of("0").into_iter().filter(|pod| image(pod) == NEW_IMAGE && is_ready(pod)).find_map(|pod| {
            let conditions = pod.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|condition| condition.type_ == "Ready")?.last_transition_time.clone()
        });
        // The timestamp is the end of the grace period.
        let deleted = of("1").into_iter().find_map(|pod| {
            let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds?);
            Some(pod.metadata.deletion_timestamp.as_ref()?.0 - grace)
        });
        let (ready_since, deleted) = (ready_since.expect("a ready pod").0, deleted.expect("a deleted pod"));
        let seconds = deleted.duration_since(ready_since).as_secs();
        assert!(seconds >= 2, "the next pod was deleted after {seconds} s");
    })
    .await;
}

/// The container of the new image ends again and again: the set reports what the kubelet says, and a correction ends it. The same if no node has the
/// label that the new pods want: the set reports what the scheduler says, and then that the deadline is exceeded.
#[tokio::test]
async fn a_blocked_update_names_its_cause() {
    in_namespace("e2e-ru-blocked", async |ns| {
        available(ns, &fixtures::with_scaling_group("llm", 1, "")).await;
        change(ns, &[0], &new_template("crash")).await;
        ns.wait_for_condition("llm", "UpdateInProgress", "Blocked", "PodClique llm-0-f: Pod llm-0-f-").await;
        change(ns, &[0], &[("spec/podSpec/containers/0/image", json!(FIRST_IMAGE)), ("annotations", json!({}))]).await;
        wait_for_end(ns, &["-f"], FIRST_IMAGE).await;
        let nowhere = json!({ "test.grove.io/no-node": "true" });
        change(ns, &[0], &[("spec/podSpec/nodeSelector", nowhere.clone())]).await;
        let cause = "PodClique llm-0-f: not scheduled: llm-0-f-";
        ns.wait_for_condition("llm", "UpdateInProgress", "Blocked", cause).await;
        change(ns, &[0], &[("rollingUpdate", json!({ "progressDeadline": "1s" }))]).await;
        let exceeded = "PodClique llm-0-f: no progress for the progressDeadline of 1s; not scheduled: llm-0-f-";
        ns.wait_for_condition("llm", "UpdateInProgress", "ProgressDeadlineExceeded", exceeded).await;
        change(ns, &[0], &[("spec/podSpec/nodeSelector", json!({}))]).await;
        wait_for_end(ns, &["-f"], FIRST_IMAGE).await;
        ns.wait_for_condition("llm", "UpdateInProgress", "NoActiveUpdate", "no update is in progress").await;
        change(ns, &[1], &[("spec/podSpec/nodeSelector", nowhere)]).await;
        let cause = "PodCliqueScalingGroup llm-0-g: PodClique llm-0-g-0-p: not scheduled: llm-0-g-0-p-";
        ns.wait_for_condition("llm", "UpdateInProgress", "Blocked", cause).await;
    })
    .await;
}

/// The quota has no space for the successor of a replaced pod. The set reports it, and goes on when the quota is raised.
#[tokio::test]
async fn an_exhausted_quota_blocks_an_update() {
    in_namespace("e2e-ru-quota", async |ns| {
        available(ns, &fixtures::three_cliques("llm", 1)).await;
        let quota = |pods: usize| json!({ "spec": { "hard": { "pods": pods.to_string() } } });
        let mut object = quota(4);
        object["metadata"] = json!({ "name": "pods" });
        ns.create_yaml::<ResourceQuota>(&object.to_string()).await;
        change_image(ns, &[2], NEW_IMAGE).await;
        ns.wait_for_condition("llm", "UpdateInProgress", "Blocked", "exceeded quota").await;
        let state = ns.wait_for("one pod is missing", |state| pods_of(state, "-decode").len() == 1).await;
        assert_eq!(image(pods_of(&state, "-decode")[0]), FIRST_IMAGE, "the other pod stays");
        ns.patch::<ResourceQuota>("pods", quota(20)).await;
        wait_for_end(ns, &["-decode"], NEW_IMAGE).await;
    })
    .await;
}
