//! Two sets whose names are prefixes of each other: changes of one do not touch the other.

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_ready};
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use kube::{Resource, ResourceExt};

/// The pods of one replica of [`fixtures::with_scaling_group`].
const PODS: usize = 14;
/// The pods of one replica of its scaling group.
const PODS_OF_GROUP: usize = 4;

fn is_part_of<K: Resource>(object: &K, set: &str) -> bool {
    object.labels().get("app.kubernetes.io/part-of").is_some_and(|name| name == set)
}

/// Kind, name and UID of all objects of a set.
fn objects_of(state: &NamespaceState, set: &str) -> BTreeSet<String> {
    fn of<K: Resource<DynamicType = ()>>(objects: &BTreeMap<String, K>, set: &str) -> BTreeSet<String> {
        let line = |object: &K| format!("{} {} {:?}", K::kind(&()), object.name_any(), object.uid());
        objects.values().filter(|object| is_part_of(*object, set)).map(line).collect()
    }
    let LiveObjects { groups, cliques, gangs, services, autoscalers, pods, .. } = &state.objects;
    let kinds =
        [of(groups, set), of(cliques, set), of(gangs, set), of(services, set), of(autoscalers, set), of(pods, set)];
    kinds.into_iter().flatten().collect()
}

/// Whether the set is available, and exactly this many pods exist, are ready and have a reference in a `PodGang`.
fn is_settled(state: &NamespaceState, set: &str, pods: usize) -> bool {
    let gangs = state.gangs.values().filter(|gang| is_part_of(*gang, set));
    let references = gangs.flat_map(|gang| &gang.spec.podgroups).map(|group| group.pod_references.len());
    state.is_available(set)
        && references.sum::<usize>() == pods
        && state.pods.values().filter(|pod| is_part_of(*pod, set)).count() == pods
        && state.active_pods().filter(|pod| is_part_of(*pod, set) && is_ready(pod)).count() == pods
}

/// Scales one set and its group out and in and deletes the set, while the objects of the other set do not change.
async fn changes_do_not_touch_the_other(ns: &Namespace, changed: &str, other: &str) {
    ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group(changed, 1, "")).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group(other, 1, "")).await;
    // One scaling group, seven cliques, three gangs, one Service and two autoscalers.
    let is_complete =
        |state: &NamespaceState, set: &str| objects_of(state, set).len() == 14 + PODS && is_settled(state, set, PODS);
    let state =
        ns.wait_for("both sets are complete", |state| is_complete(state, changed) && is_complete(state, other)).await;
    let before = objects_of(&state, other);
    let wait_for = async |what: &str, holds: &dyn Fn(&NamespaceState) -> bool| {
        ns.wait_for(what, |state| {
            assert_eq!(objects_of(state, other), before, "an object of {other} changed with {changed}");
            holds(state)
        })
        .await;
    };
    ns.scale::<PodCliqueSet>(changed, 2).await;
    wait_for("two replicas are ready", &|state| is_settled(state, changed, 2 * PODS)).await;
    ns.scale::<PodCliqueScalingGroup>(&format!("{changed}-0-g"), 5).await;
    wait_for("five replicas of the group are ready", &|state| is_settled(state, changed, 2 * PODS + 2 * PODS_OF_GROUP))
        .await;
    ns.scale::<PodCliqueScalingGroup>(&format!("{changed}-0-g"), 2).await;
    wait_for("two replicas of the group are ready", &|state| is_settled(state, changed, 2 * PODS - PODS_OF_GROUP))
        .await;
    ns.scale::<PodCliqueSet>(changed, 1).await;
    wait_for("one replica is ready", &|state| is_settled(state, changed, PODS - PODS_OF_GROUP)).await;
    ns.delete_object::<PodCliqueSet>(changed).await;
    let is_deleted =
        |state: &NamespaceState| !state.sets.contains_key(changed) && objects_of(state, changed).is_empty();
    wait_for("all objects of the set are deleted", &|state| is_deleted(state) && is_settled(state, other, PODS)).await;
}

/// It takes long on a loaded machine: five changes follow one another, and each waits for the pods of the one before.
#[tokio::test]
async fn a_set_does_not_touch_a_set_with_its_name_as_prefix() {
    in_namespace("e2e-isolation-prefix", async |ns| changes_do_not_touch_the_other(ns, "x", "x-0").await).await;
}

/// It takes as long as the other one.
#[tokio::test]
async fn a_set_does_not_touch_a_set_with_a_prefix_of_its_name() {
    in_namespace("e2e-isolation-extension", async |ns| changes_do_not_touch_the_other(ns, "x-0", "x").await).await;
}
