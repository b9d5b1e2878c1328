//! Tables of short YAML rows: each row describes a gang, and the expected plan and conditions are text.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::configuration::NativeGangs;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::{Plan, Step};
use grove_runtime::caches::Availability;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

mod existing;
mod scaled_down;
mod workload_api;

use super::observed::Observed;
use super::{CHILD_KINDS, plan, status};
use crate::pod_groups::PodGroupApi;
use crate::slim_clique::SlimClique;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

/// A gang of the cliques of a row, with a minimum of one pod each unless the row has another one.
fn gang(row: &Value) -> PodGang {
    let group = |(name, clique): (&String, &Value)| {
        let mut group =
            json!({ "name": name, "podReferences": [], "minReplicas": clique["min"].as_i64().unwrap_or(1) });
        if let Some(pack) = clique.get("pack") {
            group["topologyConstraint"] = json!({ "packConstraint": pack });
        }
        group
    };
    let cliques = row["cliques"].as_object().expect("cliques");
    let mut gang = json!({ "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": { "name": "llm-0", "namespace": "prod", "uid": "gang", "generation": 2,
            "labels": { "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm" } },
        "spec": { "podgroups": cliques.iter().map(group).collect::<Vec<_>>() } });
    json_patch::merge(&mut gang, row.get("gang").unwrap_or(&json!({})));
    serde_json::from_value(gang).expect("a gang")
}

fn clique(name: &str, row: &Value) -> Arc<SlimClique> {
    let replicas = row["replicas"].as_i64().or(row["min"].as_i64()).unwrap_or(1);
    let clique = json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "replicas": replicas },
        "status": { "scheduledReplicas": row["scheduled"].as_i64().unwrap_or(0), "updateProgress": row["update"] } });
    Arc::new(serde_json::from_value(clique).expect("a clique"))
}

fn observed(row: &str) -> Observed {
    let row: Value = serde_saphyr::from_str(row).expect("YAML");
    let scheduler = Scheduler::named(row["scheduler"].as_str().expect("a scheduler")).expect("a known scheduler");
    let cliques = row["cliques"].as_object().expect("cliques").iter();
    let availability = match row["availability"].as_str() {
        Some("NotServed") => Some(Availability::NotServed),
        Some("Forbidden") => Some(Availability::Forbidden),
        _ => Some(Availability::Served),
    };
    Observed {
        gang: gang(&row),
        scheduler,
        cliques: cliques.map(|(name, row)| (name.clone(), clique(name, row))).collect(),
        base_gang: None,
        availability,
        native_gangs: if row["nativeGangs"] == json!("off") { NativeGangs::Off } else { NativeGangs::Auto },
        children: ObservedChildren::default(),
        name_conflicts: vec![],
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
        orphans_children: false,
        is_namespace_terminating: false,
    }
}

/// The object that the plan creates.
fn created(plan: &Plan) -> Option<Value> {
    plan.steps().find_map(|step| match step {
        Step::Create(create) => Some(create.object.value()),
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    })
}

/// The created object as YAML, or the plan as text.
fn text(plan: &Plan) -> String {
    let Some(object) = created(plan) else { return plan.to_string() };
    let spec = serde_saphyr::to_string(&object["spec"]).expect("YAML");
    format!(
        "{} {}\n{spec}",
        object["apiVersion"].as_str().unwrap_or_default(),
        object["kind"].as_str().unwrap_or_default()
    )
}

#[track_caller]
fn check_plan(row: &str, expected: &Expect) {
    expected.assert_eq(&text(&plan::plan(&observed(row))));
}

#[track_caller]
fn check_conditions(observed: &Observed, expected: &Expect) {
    let plan = plan::plan(observed);
    let status = status::status(observed, &plan, &ExecutionResult::default(), at(1));
    let line = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{}={} {}: {}\n", c.type_, c.status, c.reason, c.message)
    };
    expected.assert_eq(&status.conditions.iter().map(line).collect::<String>());
}

#[test]
fn kai_gets_a_subgroup_per_clique() {
    check_plan(
        "{scheduler: kai-scheduler, cliques: {a: {min: 2}, b: {}}, gang: {metadata: {labels: {kai.scheduler/queue: q}}, spec: {priorityClassName: high}}}",
        &expect![[r"
            scheduling.run.ai/v2alpha2 PodGroup
            minMember: 3
            priorityClassName: high
            queue: q
            subGroups:
            - minMember: 2
              name: a
            - minMember: 1
              name: b
            topologyConstraint: {}
        "]],
    );
}

#[test]
fn a_label_that_names_the_queue_has_precedence_and_an_empty_one_names_none() {
    let queue = |metadata: &str| {
        let observed =
            observed(&format!("{{scheduler: kai-scheduler, cliques: {{a: {{}}}}, gang: {{metadata: {metadata}}}}}"));
        let plan = plan::plan(&observed);
        created(&plan).map_or_else(|| plan.to_string(), |group| group["spec"]["queue"].to_string())
    };
    let key = "kai.scheduler/queue";
    assert_eq!(queue(&format!("{{labels: {{{key}: q}}, annotations: {{{key}: r}}}}")), r#""q""#);
    assert_eq!(queue(&format!("{{labels: {{{key}: ''}}, annotations: {{{key}: r}}}}")), r#""r""#);
    expect![[r"
        wait: QueueMissing the gang has no label or annotation kai.scheduler/queue; the set or its cliques must name one queue
        warn: KAIBackendMappingFailed the gang has no label or annotation kai.scheduler/queue; the set or its cliques must name one queue
    "]]
    .assert_eq(&queue("{}"));
}

#[test]
fn a_pod_group_has_the_metadata_of_its_gang() {
    let metadata = |scheduler: &str| {
        let gang = "{metadata: {labels: {team: a, kai.scheduler/queue: q, grove.io/podcliqueset-generation-hash: 1h}, annotations: {note: b}}}";
        let plan = plan::plan(&observed(&format!("{{scheduler: {scheduler}, cliques: {{a: {{}}}}, gang: {gang}}}")));
        created(&plan).expect("a create")["metadata"].clone()
    };
    let owner = json!({ "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "llm-0", "uid": "gang",
        "controller": true, "blockOwnerDeletion": true });
    let labels = json!({ "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm", "team": "a",
        "kai.scheduler/queue": "q" });
    let expected = json!({ "name": "llm-0", "namespace": "prod", "labels": labels, "ownerReferences": [owner] });
    assert_eq!(metadata("volcano"), expected);
    let mut expected = expected;
    expected["annotations"] = json!({ "note": "b" });
    assert_eq!(metadata("kai-scheduler"), expected);
}

#[test]
fn kai_gets_topology_constraints() {
    check_plan(
        "{scheduler: kai-scheduler, cliques: {a: {pack: {preferred: host}}, b: {}, c: {}}, gang: {
            metadata: {labels: {kai.scheduler/queue: q}, annotations: {grove.io/topology-name: t}},
            spec: {topologyConstraint: {packConstraint: {required: zone}}, topologyConstraintGroupConfigs: [
                {name: g-0, podGroupNames: [b, c], topologyConstraint: {packConstraint: {required: rack}}},
                {name: g-1, podGroupNames: []}]}}}",
        &expect![[r"
            scheduling.run.ai/v2alpha2 PodGroup
            minMember: 3
            queue: q
            subGroups:
            - minSubGroup: 2
              name: g-0
              topologyConstraint:
                requiredTopologyLevel: rack
                topology: t
            - minMember: 1
              name: a
              topologyConstraint:
                preferredTopologyLevel: host
                topology: t
            - minMember: 1
              name: b
              parent: g-0
            - minMember: 1
              name: c
              parent: g-0
            topologyConstraint:
              requiredTopologyLevel: zone
              topology: t
        "]],
    );
    check_plan(
        "{scheduler: kai-scheduler, cliques: {a: {pack: {preferred: host}}}, gang: {metadata: {labels: {kai.scheduler/queue: q}}}}",
        &expect![[r"
            wait: TopologyNameMissing the gang has topology constraints and no annotation grove.io/topology-name
            warn: KAIBackendMappingFailed the gang has topology constraints and no annotation grove.io/topology-name
        "]],
    );
}

#[test]
fn volcano_gets_a_policy_per_clique_and_minimums_of_one() {
    check_plan(
        "{scheduler: volcano, cliques: {a: {min: 2}, b: {min: 0}}}",
        &expect![[r"
        scheduling.volcano.sh/v1beta1 PodGroup
        minMember: 2
        queue: default
        subGroupPolicy:
        - labelSelector:
            matchLabels:
              grove.io/podclique: a
          matchLabelKeys:
          - grove.io/podclique
          minSubGroups: 1
          name: a
          subGroupSize: 2
        - labelSelector:
            matchLabels:
              grove.io/podclique: b
          matchLabelKeys:
          - grove.io/podclique
          minSubGroups: 1
          name: b
          subGroupSize: 1
    "]],
    );
    check_plan(
        "{scheduler: volcano, cliques: {a: {min: 0}}, gang: {metadata: {annotations: {scheduling.grove.io/volcano-queue: q}}, spec: {priorityClassName: high}}}",
        &expect![[r"
            scheduling.volcano.sh/v1beta1 PodGroup
            minMember: 1
            priorityClassName: high
            queue: q
            subGroupPolicy:
            - labelSelector:
                matchLabels:
                  grove.io/podclique: a
              matchLabelKeys:
              - grove.io/podclique
              minSubGroups: 1
              name: a
              subGroupSize: 1
        "]],
    );
}

/// Without its row, a plan neither creates a `PodGroup` nor waits for one, so that `GangScheduling` would be true.
#[test]
fn the_children_of_gangs_have_the_kind_of_each_api() {
    let kinds = PodGroupApi::ALL.map(PodGroupApi::group_kind);
    assert_eq!(CHILD_KINDS.kinds().collect::<Vec<_>>(), kinds);
}

#[test]
fn other_schedulers_get_no_pod_group() {
    for scheduler in ["default-scheduler", "lpx-scheduler"] {
        let observed = observed(&format!("{{scheduler: {scheduler}, cliques: {{a: {{}}}}}}"));
        assert_eq!(text(&plan::plan(&observed)), "nothing to do\n");
    }
}

#[test]
fn a_kind_that_is_not_served_is_a_condition() {
    let observed = observed("{scheduler: volcano, availability: NotServed, cliques: {a: {min: 2}}}");
    check_conditions(
        &observed,
        &expect![[r"
            GangScheduling=False PodGroupsNotServed: the API server does not serve podgroups.scheduling.volcano.sh; install volcano
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
    assert!(plan::plan(&observed).is_empty());
}

#[test]
fn a_kind_that_must_not_be_read_is_a_condition() {
    check_conditions(
        &observed("{scheduler: kai-scheduler, availability: Forbidden, cliques: {a: {}}}"),
        &expect![[r"
            GangScheduling=False PodGroupsForbidden: topology-controller must not read podgroups.scheduling.run.ai; add the component deploy/components/kai-scheduler
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
}

#[test]
fn the_conditions_name_the_scheduler() {
    check_conditions(
        &observed("{scheduler: volcano, cliques: {a: {min: 2, scheduled: 2}}}"),
        &expect![[r"
        GangScheduling=True Volcano: volcano schedules the PodGroup of the gang
        Scheduled=True SufficientScheduledPods: every clique has its minimum of scheduled pods
    "]],
    );
    check_conditions(
        &observed("{scheduler: kai-scheduler, cliques: {a: {scheduled: 0}}}"),
        &expect![[r"
            GangScheduling=False QueueMissing: the gang has no label or annotation kai.scheduler/queue; the set or its cliques must name one queue
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
    check_conditions(
        &observed("{scheduler: default-scheduler, cliques: {a: {}}}"),
        &expect![[r"
            GangScheduling=False PodsScheduledIndividually: default-scheduler schedules each pod of the gang on its own: the gang was created without a PodGroup, which a restart of the gang (the deletion of all its cliques) changes, or the pods of its set name a schedulingGroup
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
    check_conditions(
        &observed("{scheduler: lpx-scheduler, cliques: {a: {}}}"),
        &expect![[r"
            GangScheduling=False NoPodGroup: Grove creates no object for lpx-scheduler that describes the gang
            Scheduled=False InsufficientScheduledPods: fewer scheduled pods than the minimum: a
        "]],
    );
}
