//! Scaling groups: the objects that Grove creates for them, scaling, and scaled gangs that stay gated until the base gang is
//! scheduled.

use e2e::{NamespaceState, fixtures, in_namespace, namespace_state::is_newer, snapshot};
use expect_test::{Expect, expect};
use grove_api_types::labels::SCALE;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Whether the set is available, and exactly this many pods exist, are ready and have a reference in a `PodGang`.
fn is_settled(state: &NamespaceState, set: &str, pods: usize) -> bool {
    state.is_available(set) && has_ready_pods(state, pods)
}

fn has_ready_pods(state: &NamespaceState, pods: usize) -> bool {
    state.pods.len() == pods
        && state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == pods
        && state.reference_count() == pods
}

#[track_caller]
fn names(state: &NamespaceState, expected: &Expect) {
    fn joined<K>(objects: &std::collections::BTreeMap<String, K>) -> String {
        objects.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
    let mut hosts: Vec<_> = state.pods.values().map(snapshot::hostname).collect();
    hosts.sort_unstable();
    let LiveObjects { groups, cliques, gangs, services, autoscalers, .. } = &state.objects;
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
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        let state = ns.wait_for("all pods are ready, and every status is current", |state| is_settled(state, "m", 14) && state.status_is_current()).await;
        names(&state, &expect![[r"
            groups: m-0-g
            cliques: m-0-f m-0-g-0-d m-0-g-0-p m-0-g-1-d m-0-g-1-p m-0-g-2-d m-0-g-2-p
            gangs: m-0 m-0-g-0 m-0-g-1
            services: m-0
            autoscalers: m-0-f m-0-g
            hosts: m-0-f-0 m-0-f-1 m-0-g-0-d-0 m-0-g-0-d-1 m-0-g-0-d-2 m-0-g-0-p-0 m-0-g-1-d-0 m-0-g-1-d-1 m-0-g-1-d-2 m-0-g-1-p-0 m-0-g-2-d-0 m-0-g-2-d-1 m-0-g-2-d-2 m-0-g-2-p-0
        "]]);
        expect_file("member-of-scaled", &snapshot::object(&state.cliques["m-0-g-1-p"], &[]));
        let gang = |name: &str| snapshot::with_reference_counts(&snapshot::object(&state.gangs[name], &["spec"]));
        expect_file("base-gang", &gang("m-0"));
        expect_file("scaled-gang", &gang("m-0-g-1"));
        expect_file("status-of-set", &snapshot::status(&state.sets["m"]));
        expect_file("status-of-group", &snapshot::status(&state.groups["m-0-g"]));
        expect_file("status-of-clique", &snapshot::status(&state.cliques["m-0-f"]));
        expect_file("status-of-member", &snapshot::status(&state.cliques["m-0-g-1-d"]));
        expect_file("status-of-gang", &snapshot::status(&state.gangs["m-0"]));
    })
    .await;
}

#[tokio::test]
async fn a_scaling_group_scales_out_and_in() {
    in_namespace("e2e-groups-scale", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("the group has three replicas", |state| is_settled(state, "m", 14)).await;
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 5).await;
        let state = ns.wait_for("the group has five replicas", |state| is_settled(state, "m", 22) && state.gangs.len() == 5).await;
        assert!(state.gangs.contains_key("m-0-g-3") && state.cliques.contains_key("m-0-g-4-d"), "{state}");
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 2).await;
        let has_two = |state: &NamespaceState| is_settled(state, "m", 10) && (state.gangs.len(), state.cliques.len()) == (2, 5);
        let state = ns.wait_for("the group has two replicas", has_two).await;
        names(&state, &expect![[r"
            groups: m-0-g
            cliques: m-0-f m-0-g-0-d m-0-g-0-p m-0-g-1-d m-0-g-1-p
            gangs: m-0 m-0-g-0
            services: m-0
            autoscalers: m-0-f m-0-g
            hosts: m-0-f-0 m-0-f-1 m-0-g-0-d-0 m-0-g-0-d-1 m-0-g-0-d-2 m-0-g-0-p-0 m-0-g-1-d-0 m-0-g-1-d-1 m-0-g-1-d-2 m-0-g-1-p-0
        "]]);
        // A change of the set's template does not reset the replicas of the group.
        ns.patch::<PodCliqueSet>("m", json!({ "spec": { "template": { "priorityClassName": "other" } } })).await;
        let state = ns
            .wait_for("the gangs have the new priority class", |state| {
                let other = |name: Option<&str>| name == Some("other");
                has_ready_pods(state, 10)
                    && state.gangs.values().all(|gang| other(gang.spec.priority_class_name.as_deref()))
            })
            .await;
        assert_eq!(state.groups["m-0-g"].spec.replicas, 2);
        // Neither does its deletion.
        let uid = state.groups["m-0-g"].uid();
        ns.delete_object::<PodCliqueScalingGroup>("m-0-g").await;
        let is_new = |state: &NamespaceState| state.groups.get("m-0-g").is_some_and(|group| group.uid() != uid);
        let state = ns.wait_for("the group is created again", |state| is_new(state) && has_ready_pods(state, 10)).await;
        assert_eq!(state.groups["m-0-g"].spec.replicas, 2);
    })
    .await;
}

#[tokio::test]
async fn a_group_below_min_available_has_the_replicas_that_exist_and_reports_the_breach() {
    in_namespace("e2e-groups-below", async |ns| {
        // Without an autoscaler, which would scale the group out again.
        let set = fixtures::with_scaling_group("m", 1, "").replace("minAvailable: 1\n      scaleConfig", "scaleConfig");
        let set = format!("{}      minAvailable: 2\n", set.split("      scaleConfig").next().expect("a set"));
        ns.create_yaml::<PodCliqueSet>(&set).await;
        ns.wait_for("the group has three replicas", |state| is_settled(state, "m", 14)).await;
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 1).await;
        let is_below = |state: &NamespaceState| {
            let condition = ("MinAvailableBreached", "InsufficientAvailablePodCliqueScalingGroupReplicas");
            has_ready_pods(state, 6)
                && state.gangs.len() == 1
                && state.gangs["m-0"].spec.podgroups.len() == 3
                && state.has_condition("m-0-g", condition.0, condition.1, "(1) below MinAvailable (2)")
        };
        ns.wait_for("the base gang has one replica of the group, which reports the breach", is_below).await;
        ns.scale::<PodCliqueScalingGroup>("m-0-g", 3).await;
        let is_restored = |state: &NamespaceState| {
            let reason = "SufficientAvailablePodCliqueScalingGroupReplicas";
            is_settled(state, "m", 14) && state.has_condition("m-0-g", "MinAvailableBreached", reason, "")
        };
        ns.wait_for("the group has three replicas again", is_restored).await;
    })
    .await;
}

#[tokio::test]
async fn a_set_with_a_scaling_group_scales_out_and_in() {
    in_namespace("e2e-groups-sets", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("the set has one replica", |state| is_settled(state, "m", 14)).await;
        ns.scale::<PodCliqueSet>("m", 3).await;
        ns.wait_for("the set has three replicas", |state| is_settled(state, "m", 42) && state.gangs.len() == 9).await;
        ns.scale::<PodCliqueSet>("m", 1).await;
        ns.wait_for("the set has one replica again, and no other objects exist", |state| {
            let LiveObjects { groups, cliques, gangs, services, autoscalers, .. } = &state.objects;
            let counts = (groups.len(), cliques.len(), gangs.len(), services.len(), autoscalers.len());
            is_settled(state, "m", 14) && counts == (1, 7, 3, 1, 2)
        })
        .await;
        ns.delete_object::<PodCliqueSet>("m").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    })
    .await;
}

#[tokio::test]
async fn pods_of_scaled_gangs_stay_gated_until_the_base_gang_is_scheduled() {
    in_namespace("e2e-groups-gates", async |ns| {
        let gate = "schedulingGates: [{name: e2e.example/hold}], ";
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, gate)).await;
        let gated_pods = |state: &NamespaceState| {
            let gates = |pod: &&Pod| pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).count();
            state.active_pods().filter(|pod| gates(pod) > 0).count()
        };
        let reason = |state: &NamespaceState, clique: &str| {
            let status = state.cliques.get(clique).and_then(|clique| clique.status.clone()).unwrap_or_default();
            status.conditions.into_iter().find(|c| c.type_ == "Available").map(|c| c.reason).unwrap_or_default()
        };
        // The four pods of the base gang's own replica of the group run; the pods of `f` have a foreign gate.
        let state = ns
            .wait_for("the pods of f and of the scaled gangs are gated, and the cliques report the reason", |state| {
                gated_pods(state) == 2 + 8
                    && state.ready_indices("m-0-g-0-d") == [0, 1, 2]
                    && reason(state, "m-0-g-1-p") == "BaseGangNotScheduled"
            })
            .await;
        for pod in state.active_pods().filter(|pod| snapshot::hostname(pod).starts_with("m-0-f-")) {
            ns.patch::<Pod>(&pod.name_any(), json!({ "spec": { "schedulingGates": null } })).await;
        }
        let state = ns.wait_for("all pods are ready", |state| is_settled(state, "m", 14)).await;
        assert_eq!(gated_pods(&state), 0);
    })
    .await;
}

#[tokio::test]
async fn a_clique_scaled_to_zero_does_not_gate_new_pods_of_scaled_gangs() {
    in_namespace("e2e-groups-zero", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        ns.wait_for("all pods are ready", |state| is_settled(state, "m", 14)).await;
        ns.scale::<PodClique>("m-0-f", 0).await;
        let is_of_f = |pod: &Pod| snapshot::hostname(pod).starts_with("m-0-f-");
        let state = ns
            .wait_for("the clique has no pods", |state| {
                let status = state.cliques.get("m-0-f").and_then(|clique| clique.status.as_ref());
                !state.pods.values().any(is_of_f) && status.is_some_and(|status| status.scheduled_replicas == 0)
            })
            .await;
        let of_scaled_gang = |pod: &&Pod| snapshot::hostname(pod) == "m-0-g-1-d-0";
        let old = state.active_pods().find(of_scaled_gang).expect("a pod of a scaled gang").clone();
        ns.delete_object::<Pod>(&old.name_any()).await;
        ns.wait_for("another pod is ready at its index", |state| {
            let successor = state.active_pods().find(of_scaled_gang);
            successor.is_some_and(|pod| pod.uid() != old.uid()) && state.ready_indices("m-0-g-1-d") == [0, 1, 2]
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn deleted_and_edited_objects_of_a_scaling_group_are_restored() {
    in_namespace("e2e-groups-heal", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::with_scaling_group("m", 1, "")).await;
        let state = ns.wait_for("all pods are ready", |state| is_settled(state, "m", 14)).await;
        let uid = |state: &NamespaceState| state.cliques["m-0-g-1-d"].metadata.uid.clone();
        let before = uid(&state);
        ns.scale::<PodClique>("m-0-g-1-d", 5).await;
        let has_record = |state: &NamespaceState| state.groups["m-0-g"].annotations().contains_key(SCALE);
        ns.wait_for("the group records the scale", |state| is_settled(state, "m", 16) && has_record(state)).await;
        ns.delete_object::<PodClique>("m-0-g-1-d").await;
        ns.wait_for("the clique of the group is recreated with its scale", |state| {
            is_settled(state, "m", 16) && state.cliques.contains_key("m-0-g-1-d") && uid(state) != before
        })
        .await;
        ns.scale::<PodClique>("m-0-g-1-d", 3).await;
        ns.wait_for("the group has no record", |state| is_settled(state, "m", 14) && !has_record(state)).await;
        ns.delete_object::<PodCliqueScalingGroup>("m-0-g").await;
        let group_uid = state.groups["m-0-g"].metadata.uid.clone();
        ns.wait_for("the group is recreated", |state| {
            let group = state.groups.get("m-0-g");
            is_settled(state, "m", 14) && group.is_some_and(|group| group.metadata.uid != group_uid)
        })
        .await;
        let autoscaler_uid = state.autoscalers["m-0-g"].uid();
        ns.delete_object::<HorizontalPodAutoscaler>("m-0-g").await;
        ns.wait_for("the autoscaler is recreated", |state| {
            state.autoscalers.get("m-0-g").is_some_and(|live| live.uid() != autoscaler_uid)
        })
        .await;
        // Foreign annotations stay.
        let note = "example.com/owner";
        let autoscaler = json!({ "metadata": { "annotations": { (note): "team" } }, "spec": { "maxReplicas": 99 } });
        let autoscaler = ns.patch::<HorizontalPodAutoscaler>("m-0-f", autoscaler).await;
        ns.wait_for("the autoscaler is restored", |state| {
            // The watched object may still be the one before the edit, which looks the same.
            let is_restored = |live: &HorizontalPodAutoscaler| {
                live.spec.max_replicas == 4 && live.annotations().contains_key(note) && is_newer(live, &autoscaler)
            };
            state.autoscalers.get("m-0-f").is_some_and(is_restored)
        })
        .await;
        for invalid in [2, i32::MIN] {
            let edit = json!({ "spec": { "minAvailable": invalid } });
            let group = ns.patch::<PodCliqueScalingGroup>("m-0-g", edit).await;
            ns.wait_for("the group is restored", |state| {
                let is_restored =
                    |live: &PodCliqueScalingGroup| live.spec.min_available == Some(1) && is_newer(live, &group);
                state.groups.get("m-0-g").is_some_and(is_restored)
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
