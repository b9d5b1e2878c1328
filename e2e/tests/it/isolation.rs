//! Two sets of which each one's names begin the other's: what is done to one leaves the other alone.

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Namespace, World, in_namespace, sets, world::is_ready};
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use kube::{Resource, ResourceExt};

/// Of one replica of [`sets::grouped`].
const PODS: usize = 14;
/// Of one replica of its group.
const PODS_OF_GROUP: usize = 4;

fn is_part_of<K: Resource>(object: &K, set: &str) -> bool {
    object.labels().get("app.kubernetes.io/part-of").is_some_and(|name| name == set)
}

/// All that was made for a set, each by kind, name and uid.
fn made_for(world: &World, set: &str) -> BTreeSet<String> {
    fn of<K: Resource<DynamicType = ()>>(objects: &BTreeMap<String, K>, set: &str) -> BTreeSet<String> {
        let told = |object: &K| format!("{} {} {:?}", K::kind(&()), object.name_any(), object.uid());
        objects.values().filter(|object| is_part_of(*object, set)).map(told).collect()
    }
    let LiveObjects { groups, cliques, gangs, services, autoscalers, pods, .. } = &world.objects;
    let kinds =
        [of(groups, set), of(cliques, set), of(gangs, set), of(services, set), of(autoscalers, set), of(pods, set)];
    kinds.into_iter().flatten().collect()
}

/// Whether the set is available with so many pods and nothing of it moves any more.
fn rests(world: &World, set: &str, pods: usize) -> bool {
    let gangs = world.gangs.values().filter(|gang| is_part_of(*gang, set));
    let references = gangs.flat_map(|gang| &gang.spec.podgroups).map(|group| group.pod_references.len());
    world.is_available(set)
        && references.sum::<usize>() == pods
        && world.pods.values().filter(|pod| is_part_of(*pod, set)).count() == pods
        && world.live_pods().filter(|pod| is_part_of(*pod, set) && is_ready(pod)).count() == pods
}

/// Scales one set and its group out and in and deletes it, while the other keeps all that it has.
async fn one_moves(ns: &Namespace, moved: &str, other: &str) {
    ns.create_yaml::<PodCliqueSet>(&sets::grouped(moved, 1, "")).await;
    ns.create_yaml::<PodCliqueSet>(&sets::grouped(other, 1, "")).await;
    // A group, seven cliques, three gangs, a Service, two autoscalers.
    let is_made = |world: &World, set: &str| made_for(world, set).len() == 14 + PODS && rests(world, set, PODS);
    let world = ns.until("both serve", |world| is_made(world, moved) && is_made(world, other)).await;
    let kept = made_for(&world, other);
    let becomes = async |what: &str, holds: &dyn Fn(&World) -> bool| {
        ns.until(what, |world| {
            assert_eq!(made_for(world, other), kept, "{other} was touched when {moved} moved");
            holds(world)
        })
        .await;
    };
    ns.scale::<PodCliqueSet>(moved, 3).await;
    becomes("three replicas", &|world| rests(world, moved, 3 * PODS)).await;
    ns.scale::<PodCliqueScalingGroup>(&format!("{moved}-0-g"), 5).await;
    becomes("a larger group", &|world| rests(world, moved, 3 * PODS + 2 * PODS_OF_GROUP)).await;
    ns.scale::<PodCliqueScalingGroup>(&format!("{moved}-0-g"), 2).await;
    becomes("a smaller group", &|world| rests(world, moved, 3 * PODS - PODS_OF_GROUP)).await;
    ns.scale::<PodCliqueSet>(moved, 1).await;
    becomes("one replica", &|world| rests(world, moved, PODS - PODS_OF_GROUP)).await;
    ns.remove::<PodCliqueSet>(moved).await;
    let gone = |world: &World| !world.sets.contains_key(moved) && made_for(world, moved).is_empty();
    becomes("nothing of it", &|world| gone(world) && rests(world, other, PODS)).await;
}

#[tokio::test]
async fn a_set_does_not_touch_a_set_whose_name_extends_its_own() {
    in_namespace("e2e-neighbours-short", async |ns| one_moves(ns, "x", "x-0").await).await;
}

#[tokio::test]
async fn a_set_does_not_touch_a_set_whose_name_is_a_prefix_of_its_own() {
    in_namespace("e2e-neighbours-long", async |ns| one_moves(ns, "x-0", "x").await).await;
}
