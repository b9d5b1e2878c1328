//! The cliques that are created, patched and deleted.

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::plan::{Create, Step, Target};
use grove_runtime::api_error::ApiError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{GROUP, change, executed, new, plan, resized, status_of};
use crate::informers::PcsCaches;
use crate::informers::tests::{clique_of, manager_with};
use crate::scaling_group::Context;
use crate::scaling_group::observe::observe;
use crate::scaling_group::observed::Observed;
use crate::tests::{GROUPED, yaml};

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

#[test]
fn each_replica_of_a_new_group_gets_its_cliques() {
    check(
        &new(2),
        &expect![[r"
        cliques: create PodClique m-0-g-0-p
        cliques: create PodClique m-0-g-0-d
        cliques: create PodClique m-0-g-1-p
        cliques: create PodClique m-0-g-1-d
    "]],
    );
}

#[test]
fn a_clique_carries_the_labels_and_variables_of_its_position() {
    let plan = plan(&new(2));
    let scaled = plan.steps().find(|step| step.target().name == "m-0-g-1-d");
    let Some(Step::Create(Create { target: _, object })) = scaled else { panic!("not created") };
    let text = serde_saphyr::to_string(&object.value()).expect("YAML");
    expect![[r#"
        apiVersion: grove.io/v1alpha1
        kind: PodClique
        metadata:
          annotations:
            grove.io/podcliquescalinggroup-first-pod-index: "1"
            grove.io/podcliqueset-generation-hash: 1431e6d8dce39d9d3
          labels:
            app.kubernetes.io/component: pcsg-podclique
            app.kubernetes.io/managed-by: grove-operator
            app.kubernetes.io/name: m-0-g-1-d
            app.kubernetes.io/part-of: m
            grove.io/base-podgang: m-0
            grove.io/pod-template-hash: 12d36f47c74761357
            grove.io/podcliquescalinggroup: m-0-g
            grove.io/podcliquescalinggroup-replica-index: "1"
            grove.io/podcliqueset-replica-index: "0"
            grove.io/podgang: m-0-g-0
            team: x
          name: m-0-g-1-d
          namespace: prod
          ownerReferences:
          - apiVersion: grove.io/v1alpha1
            blockOwnerDeletion: true
            controller: true
            kind: PodCliqueScalingGroup
            name: m-0-g
            uid: u-group
        spec:
          minAvailable: 2
          podSpec:
            containers:
            - env:
              - name: GROVE_PCSG_NAME
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.labels['grove.io/podcliquescalinggroup']
              - name: GROVE_PCSG_TEMPLATE_NUM_PODS
                value: "4"
              - name: GROVE_PCSG_INDEX
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.labels['grove.io/podcliquescalinggroup-replica-index']
              - name: GROVE_PCSG_POD_INDEX
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.labels['grove.io/podcliquescalinggroup-pod-index']
              name: c
            restartPolicy: Always
            terminationGracePeriodSeconds: 30
          replicas: 3
          roleName: d
          startsAfter:
          - m-0-g-1-p
    "#]]
    .assert_eq(&text);
}

#[test]
fn the_variables_of_the_group_come_first_and_replace_those_of_the_user() {
    let observed = executed(new(1));
    let containers = observed
        .children
        .get::<PodClique>("m-0-g-0-p")
        .expect("a child of that name")
        .spec
        .pod_spec
        .get("containers")
        .expect("containers");
    expect![[r#"
        - name: GROVE_PCSG_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['grove.io/podcliquescalinggroup']
        - name: GROVE_PCSG_TEMPLATE_NUM_PODS
          value: "4"
        - name: GROVE_PCSG_INDEX
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['grove.io/podcliquescalinggroup-replica-index']
        - name: GROVE_PCSG_POD_INDEX
          valueFrom:
            fieldRef:
              fieldPath: metadata.labels['grove.io/podcliquescalinggroup-pod-index']
        - name: OWN
          value: $(GROVE_PCSG_NAME)
    "#]]
    .assert_eq(&serde_saphyr::to_string(&containers[0]["env"]).expect("YAML"));
}

#[test]
fn startup_order_spans_the_base_gang_and_stays_within_a_scaled_gang() {
    let observed = executed(new(2));
    let parents = observed
        .children
        .of_kind()
        .map(|clique: &Arc<PodClique>| format!("{} after {:?}\n", clique.name_any(), clique.spec.starts_after));
    expect![[r#"
        m-0-g-0-d after ["m-0-g-0-p"]
        m-0-g-0-p after ["m-0-f"]
        m-0-g-1-d after ["m-0-g-1-p"]
        m-0-g-1-p after []
    "#]]
    .assert_eq(&parents.collect::<String>());
}

#[test]
fn a_group_that_has_its_cliques_causes_no_write() {
    check(&executed(new(3)), &expect![["nothing to do\n"]]);
}

#[test]
fn a_clique_is_created_after_its_gang() {
    let mut observed = new(3);
    observed.active_gangs.remove("m-0-g-1");
    check(
        &observed,
        &expect![[r"
        cliques: create PodClique m-0-g-0-p
        cliques: create PodClique m-0-g-0-d
        cliques: create PodClique m-0-g-1-p
        cliques: create PodClique m-0-g-1-d
        wait: PodGangNotFound PodGang m-0-g-1 does not exist
    "]],
    );
}

#[test]
fn scale_in_deletes_the_cliques_of_the_highest_replicas() {
    let mut observed = executed(new(3));
    observed.group.spec.replicas = 1;
    check(
        &resized(observed),
        &expect![[r"
        scale-in: delete PodClique m-0-g-1-d
        scale-in: delete PodClique m-0-g-1-p
        scale-in: delete PodClique m-0-g-2-d
        scale-in: delete PodClique m-0-g-2-p
    "]],
    );
}

#[test]
fn an_edited_clique_is_corrected_and_keeps_its_replicas() {
    let mut observed = executed(new(1));
    change(&mut observed, "m-0-g-0-d", |clique| {
        clique.spec.replicas = 7;
        clique.spec.min_available = Some(1);
        clique.labels_mut().remove("grove.io/podcliquescalinggroup");
    });
    check(
        &observed,
        &expect![[r#"
            cliques: patch PodClique m-0-g-0-d {"metadata":{"labels":{"grove.io/podcliquescalinggroup":"m-0-g"}},"spec":{"minAvailable":2}}
            scale: patch PodCliqueScalingGroup m-0-g {"metadata":{"annotations":{"grove.io/scale":"{\"v\":1,\"cliques\":{\"m-0-g-0-d\":{\"replicas\":7,\"template\":3}}}"}}}
        "#]],
    );
}

#[test]
fn nothing_is_created_in_a_terminating_namespace_and_patches_and_deletes_continue() {
    let mut observed = executed(new(3));
    observed.is_namespace_terminating = true;
    check(&observed, &expect![["nothing to do\n"]]);
    observed.children.by_name_mut::<PodClique>().remove("m-0-g-0-p");
    change(&mut observed, "m-0-g-0-d", |clique| clique.spec.min_available = Some(9));
    observed.group.spec.replicas = 2;
    check(
        &resized(observed),
        &expect![[r#"
        cliques: patch PodClique m-0-g-0-d {"spec":{"minAvailable":2}}
        scale-in: delete PodClique m-0-g-2-d
        scale-in: delete PodClique m-0-g-2-p
        wait: NamespaceTerminating nothing is created, because the namespace is terminating
    "#]],
    );
}

#[test]
fn a_missing_clique_without_a_gang_waits_for_the_namespace_while_it_is_terminating() {
    let mut observed = new(1);
    observed.active_gangs.clear();
    observed.is_namespace_terminating = true;
    check(
        &observed,
        &expect![[r"
        wait: NamespaceTerminating nothing is created, because the namespace is terminating
    "]],
    );
    let status = status_of(&observed, Timestamp::UNIX_EPOCH);
    assert!(status.conditions.iter().any(|condition| condition.reason == "NamespaceTerminating"));
}

#[test]
fn a_group_without_its_set_waits_for_it() {
    let mut observed = executed(new(1));
    observed.set = None;
    check(
        &observed,
        &expect![[r"
        wait: PodCliqueSetNotFound the PodCliqueSet that controls the group does not exist
    "]],
    );
}

#[test]
fn a_group_of_a_removed_replica_of_its_set_writes_nothing() {
    let mut observed = new(1);
    if let Some(set) = &mut observed.set {
        set.spec.replicas = 0;
    }
    check(&observed, &expect![["nothing to do\n"]]);
}

#[test]
fn a_terminating_group_deletes_its_cliques() {
    let mut observed = executed(new(1));
    observed.group.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    check(
        &observed,
        &expect![[r"
        children: delete PodClique m-0-g-0-d
        children: delete PodClique m-0-g-0-p
    "]],
    );
    observed.orphans_children = true;
    check(&observed, &expect![["nothing to do\n"]]);
}

#[test]
fn the_garbage_collector_deletes_the_first_clique_of_a_foreground_deletion() {
    let mut observed = executed(new(1));
    observed.group.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    observed.group.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
    observed.group.metadata.owner_references = observed.set.as_ref().map(controller_owner_reference);
    check(&observed, &expect![["nothing to do\n"]]);
    change(&mut observed, "m-0-g-0-d", |clique| {
        clique.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    check(&observed, &expect![["nothing to do\n"]]);
    change(&mut observed, "m-0-g-0-d", |clique| {
        clique.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
    });
    check(
        &observed,
        &expect![[r"
        children: delete PodClique m-0-g-0-p in the foreground
    "]],
    );
}

#[test]
fn a_terminating_group_loses_the_finalizer_of_the_go_operator() {
    let mut observed = executed(new(1));
    observed.group.metadata.finalizers = Some(vec!["grove.io/podcliquescalinggroup.grove.io".to_owned()]);
    check(&observed, &expect![["nothing to do\n"]]);
    observed.group.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    check(
        &observed,
        &expect![[r#"
            finalizers: patch PodCliqueScalingGroup m-0-g [{"op":"test","path":"/metadata/uid","value":"u-group"},{"op":"test","path":"/metadata/finalizers/0","value":"grove.io/podcliquescalinggroup.grove.io"},{"op":"remove","path":"/metadata/finalizers/0"}]
            children: delete PodClique m-0-g-0-d
            children: delete PodClique m-0-g-0-p
        "#]],
    );
    assert!(plan(&observed).has_independent_stages, "a rejected patch blocks no delete");
}

#[test]
fn changed_replicas_of_a_template_do_not_change_the_default_minimum_of_existing_cliques() {
    let mut observed = executed(new(2));
    let clique = observed.set.as_mut().and_then(|set| set.spec.template.cliques.get_mut(1)).expect("the template of p");
    (clique.spec.replicas, clique.spec.min_available) = (4, Some(4));
    assert!(plan(&observed).to_string().contains(r#""minAvailable":4"#));
    let (template, stored) =
        (observed.set.as_ref().expect("the set").spec.template.clone(), yaml::<PodCliqueSet>(GROUPED));
    let revision = Revision::new(template, OmittedMinima::of(&stored.spec.template));
    let observed = resized(Observed { revision: Some(Arc::new(revision)), ..observed });
    let text = plan(&observed).to_string();
    assert!(!text.contains("minAvailable"), "{text}");
    let more = resized(Observed { group: new(3).group, active_gangs: new(3).active_gangs, ..observed });
    let created = plan(&more);
    let created = created.steps().find(|step| step.target().name == "m-0-g-2-p");
    let Some(Step::Create(create)) = created else { panic!("not created") };
    assert_eq!(create.object.value()["spec"]["minAvailable"], 4, "a new clique gets the default of the template");
}

#[tokio::test]
async fn the_snapshot_of_a_group_contains_the_minima_of_existing_cliques() {
    let set: Value = serde_saphyr::from_str(GROUPED).expect("YAML");
    let mut group: Value = serde_saphyr::from_str(GROUP).expect("YAML");
    let mut clique = clique_of("PodCliqueScalingGroup", &group);
    (clique["metadata"]["name"], clique["spec"]["minAvailable"]) = (json!("m-0-g-0-p"), json!(5));
    group["metadata"]["ownerReferences"] = clique_of("PodCliqueSet", &set)["metadata"]["ownerReferences"].clone();
    let owned = serde_json::from_value(group.clone()).expect("a group");
    let objects = [("podcliquesets", set), ("podcliquescalinggroups", group), ("podcliques", clique)];
    let manager = manager_with(objects);
    let caches = PcsCaches::start(&manager).expect("the caches");
    let ctx = Context::new(&manager, caches.clone());
    assert!(manager.wait_for_cache_sync().await);
    let replica = observe(&ctx, &owned).set_replica.expect("the replica of the set");
    let members: Vec<_> = replica.groups[0].replicas[0].cliques.iter().collect();
    let member = members.iter().find(|clique| clique.name.as_str() == "m-0-g-0-p").expect("the clique");
    assert_eq!(member.min_available, 5);
}

#[test]
fn a_backed_off_clique_is_not_created_and_blocks_no_delete() {
    let mut observed = executed(new(3));
    let clique = observed.children.by_name_mut::<PodClique>().remove("m-0-g-0-d").expect("a clique");
    let quota = ApiError::new(403, "Forbidden", "\"m-0-g-0-d\" is forbidden: exceeded quota: small");
    observed.backed_off.children.push((Target::of(&*clique), quota));
    observed.group.spec.replicas = 2;
    check(
        &resized(observed),
        &expect![[r"
        scale-in: delete PodClique m-0-g-2-d
        scale-in: delete PodClique m-0-g-2-p
    "]],
    );
}

#[test]
fn a_group_above_the_object_limit_is_left_unchanged() {
    let mut observed = executed(new(3));
    observed.group.spec.replicas = 100_000;
    let plan = plan(&resized(observed));
    assert!(plan.is_empty(), "{plan}");
    assert_eq!(plan.waiting[0].reason, "TooManyObjects");
}

#[test]
fn a_group_above_the_limit_of_startup_dependencies_is_left_unchanged() {
    let mut observed = executed(new(3));
    let set = observed.set.as_mut().expect("a set");
    set.spec.template.pod_clique_scaling_groups[0].min_available = Some(2000);
    observed.group.spec.replicas = 2000;
    let observed = resized(observed);
    let plan = plan(&observed);
    assert!(plan.is_empty(), "{plan}");
    assert_eq!(plan.waiting[0].reason, "TooManyStartupDependencies");
    let status = status_of(&observed, Timestamp::UNIX_EPOCH);
    assert_eq!(status.observed_generation, None, "the work of the generation is not done");
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("the condition");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "TooManyStartupDependencies"));
}
