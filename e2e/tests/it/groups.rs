//! Scaling groups: what they consist of, how they grow and shrink, and that their gangs wait for the base gang.

use e2e::{World, in_namespace, sets, shown, world::is_later};
use expect_test::{Expect, expect};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Whether the set is available, nothing moves any more, and there are this many pods, all ready and referred to.
fn rests(world: &World, set: &str, pods: usize) -> bool {
    world.is_available(set)
        && world.pods.len() == pods
        && world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == pods
        && world.references() == pods
}

#[track_caller]
fn names(world: &World, expected: &Expect) {
    fn joined<K>(objects: &std::collections::BTreeMap<String, K>) -> String {
        objects.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
    let mut hosts: Vec<_> = world.pods.values().map(shown::hostname).collect();
    hosts.sort_unstable();
    let LiveObjects { groups, cliques, gangs, services, autoscalers, .. } = &world.objects;
    expected.assert_eq(&format!(
        "groups: {}\ncliques: {}\ngangs: {}\nservices: {}\nautoscalers: {}\nhosts: {}\n",
        joined(groups),
        joined(cliques),
        joined(gangs),
        joined(services),
        joined(autoscalers),
        hosts.join(" "),
    ));
}

#[tokio::test]
async fn a_scaling_group_creates_one_base_gang_and_scaled_gangs() {
    in_namespace("e2e-groups", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        let world = ns.until("all is ready, and told", |world| rests(world, "m", 14) && world.is_told()).await;
        names(&world, &expect![[r"
            groups: m-0-g
            cliques: m-0-f m-0-g-0-d m-0-g-0-p m-0-g-1-d m-0-g-1-p m-0-g-2-d m-0-g-2-p
            gangs: m-0 m-0-g-0 m-0-g-1
            services: m-0
            autoscalers: m-0-f m-0-g
            hosts: m-0-f-0 m-0-f-1 m-0-g-0-d-0 m-0-g-0-d-1 m-0-g-0-d-2 m-0-g-0-p-0 m-0-g-1-d-0 m-0-g-1-d-1 m-0-g-1-d-2 m-0-g-1-p-0 m-0-g-2-d-0 m-0-g-2-d-1 m-0-g-2-d-2 m-0-g-2-p-0
        "]]);
        expect_file("member-of-scaled", &shown::object(&world.cliques["m-0-g-1-p"], &[]));
        let gang = |name: &str| shown::with_references_counted(&shown::object(&world.gangs[name], &["spec"]));
        expect_file("base-gang", &gang("m-0"));
        expect_file("scaled-gang", &gang("m-0-g-1"));
        expect_file("status-of-set", &shown::status(&world.sets["m"]));
        expect_file("status-of-group", &shown::status(&world.groups["m-0-g"]));
        expect_file("status-of-clique", &shown::status(&world.cliques["m-0-f"]));
        expect_file("status-of-member", &shown::status(&world.cliques["m-0-g-1-d"]));
        expect_file("status-of-gang", &shown::status(&world.gangs["m-0"]));
    })
    .await;
}

#[tokio::test]
async fn a_scaling_group_scales_out_and_in() {
    in_namespace("e2e-groups-scale", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        ns.until("three replicas of the group", |world| rests(world, "m", 14)).await;
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 5).await;
        let world = ns.until("five", |world| rests(world, "m", 22) && world.gangs.len() == 5).await;
        assert!(world.gangs.contains_key("m-0-g-3") && world.cliques.contains_key("m-0-g-4-d"), "{world}");
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 2).await;
        let two = |world: &World| rests(world, "m", 10) && (world.gangs.len(), world.cliques.len()) == (2, 5);
        let world = ns.until("two", two).await;
        names(&world, &expect![[r"
            groups: m-0-g
            cliques: m-0-f m-0-g-0-d m-0-g-0-p m-0-g-1-d m-0-g-1-p
            gangs: m-0 m-0-g-0
            services: m-0
            autoscalers: m-0-f m-0-g
            hosts: m-0-f-0 m-0-f-1 m-0-g-0-d-0 m-0-g-0-d-1 m-0-g-0-d-2 m-0-g-0-p-0 m-0-g-1-d-0 m-0-g-1-d-1 m-0-g-1-d-2 m-0-g-1-p-0
        "]]);
        // The set is touched, and what its template says of the size does not come back.
        ns.patch::<PodCliqueSet>("m", json!({ "spec": { "template": { "priorityClassName": "other" } } })).await;
        let world = ns
            .until("the change reached the gangs", |world| {
                let other = |name: Option<&str>| name == Some("other");
                rests(world, "m", 10)
                    && world.gangs.values().all(|gang| other(gang.spec.priority_class_name.as_deref()))
            })
            .await;
        assert_eq!(world.groups["m-0-g"].spec.replicas, 2);
    })
    .await;
}

#[tokio::test]
async fn a_set_with_a_scaling_group_scales_out_and_in() {
    in_namespace("e2e-groups-sets", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        ns.until("one replica", |world| rests(world, "m", 14)).await;
        ns.scale::<PodCliqueSet>("m", 3).await;
        ns.until("three replicas", |world| rests(world, "m", 42) && world.gangs.len() == 9).await;
        ns.scale::<PodCliqueSet>("m", 1).await;
        ns.until("one replica again, and nothing else", |world| {
            let LiveObjects { groups, cliques, gangs, services, autoscalers, .. } = &world.objects;
            let left = (groups.len(), cliques.len(), gangs.len(), services.len(), autoscalers.len());
            rests(world, "m", 14) && left == (1, 7, 3, 1, 2)
        })
        .await;
        ns.remove::<PodCliqueSet>("m").await;
        ns.until("nothing is left", World::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn pods_of_scaled_gangs_stay_gated_until_the_base_gang_is_scheduled() {
    in_namespace("e2e-groups-gates", async |ns| {
        let held = "schedulingGates: [{name: e2e.example/hold}], ";
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, held)).await;
        let gated = |world: &World| {
            let gates = |pod: &&Pod| pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).count();
            world.live_pods().filter(|pod| gates(pod) > 0).count()
        };
        let reason = |world: &World, clique: &str| {
            let status = world.cliques.get(clique).and_then(|clique| clique.status.clone()).unwrap_or_default();
            status.conditions.into_iter().find(|c| c.type_ == "Available").map(|c| c.reason).unwrap_or_default()
        };
        // The four pods of the base gang's own replica of the group run; `f` is held by somebody else's gate.
        let world = ns
            .until("the base gang lacks f, and the scaled gangs wait and say why", |world| {
                gated(world) == 2 + 8
                    && world.ready_indices("m-0-g-0-d") == [0, 1, 2]
                    && reason(world, "m-0-g-1-p") == "BaseGangNotScheduled"
            })
            .await;
        for pod in world.live_pods().filter(|pod| shown::hostname(pod).starts_with("m-0-f-")) {
            ns.patch::<Pod>(&pod.name_any(), json!({ "spec": { "schedulingGates": null } })).await;
        }
        let world = ns.until("all is ready", |world| rests(world, "m", 14)).await;
        assert_eq!(gated(&world), 0);
    })
    .await;
}

#[tokio::test]
async fn deleted_and_edited_objects_of_a_scaling_group_are_restored() {
    in_namespace("e2e-groups-heal", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&sets::grouped("m", 1, "")).await;
        let world = ns.until("all is ready", |world| rests(world, "m", 14)).await;
        let uid = |world: &World| world.cliques["m-0-g-1-d"].metadata.uid.clone();
        let before = uid(&world);
        ns.remove::<PodClique>("m-0-g-1-d").await;
        ns.until("a new clique of the group", |world| {
            rests(world, "m", 14) && world.cliques.contains_key("m-0-g-1-d") && uid(world) != before
        })
        .await;
        ns.remove::<PodCliqueScalingGroup>("m-0-g").await;
        let of_group = world.groups["m-0-g"].metadata.uid.clone();
        ns.until("a new group", |world| {
            let group = world.groups.get("m-0-g");
            rests(world, "m", 14) && group.is_some_and(|group| group.metadata.uid != of_group)
        })
        .await;
        let of_autoscaler = world.autoscalers["m-0-g"].uid();
        ns.remove::<HorizontalPodAutoscaler>("m-0-g").await;
        ns.until("another autoscaler", |world| {
            world.autoscalers.get("m-0-g").is_some_and(|live| live.uid() != of_autoscaler)
        })
        .await;
        // What somebody else writes down beside it stays.
        let note = "example.com/owner";
        let autoscaler = json!({ "metadata": { "annotations": { (note): "team" } }, "spec": { "maxReplicas": 99 } });
        let autoscaler = ns.patch::<HorizontalPodAutoscaler>("m-0-f", autoscaler).await;
        ns.until("the autoscaler is put right", |world| {
            // The world may still be the one before the edit, which looks the same.
            let right = |live: &HorizontalPodAutoscaler| {
                live.spec.max_replicas == 4 && live.annotations().contains_key(note) && is_later(live, &autoscaler)
            };
            world.autoscalers.get("m-0-f").is_some_and(right)
        })
        .await;
        for nonsense in [2, i32::MIN] {
            let edit = json!({ "spec": { "minAvailable": nonsense } });
            let group = ns.patch::<PodCliqueScalingGroup>("m-0-g", edit).await;
            ns.until("the group is put right", |world| {
                let right = |live: &PodCliqueScalingGroup| live.spec.min_available == Some(1) && is_later(live, &group);
                world.groups.get("m-0-g").is_some_and(right)
            })
            .await;
        }
    })
    .await;
}

#[track_caller]
fn expect_file(name: &str, actual: &str) {
    let file = expect_test::expect_file![format!("{}/tests/it/groups/{name}.json", env!("CARGO_MANIFEST_DIR"))];
    file.assert_eq(&format!("{actual}\n"));
}
