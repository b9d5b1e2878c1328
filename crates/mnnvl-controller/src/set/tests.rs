//! Tables of short rows: a set and its domains; the expected plan and condition are text.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::admission;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{Plan, Step, Target};
use grove_controller::status_limiter::StatusChange;
use grove_runtime::api_error::ApiError;
use grove_runtime::caches::Availability;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use super::{plan, status};

mod events;
mod existing;

const AUTO: &str = "grove.io/auto-mnnvl: enabled";

fn set(annotations: &str, replicas: i32) -> PodCliqueSet {
    let text = format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm, namespace: prod, uid: u-set, generation: 3, annotations: {{{annotations}}}}}
spec:
  replicas: {replicas}
  template:
    cliques:
    - {{name: a, spec: {{roleName: a, replicas: 1, podSpec: {{containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}}}
    - name: b
      annotations: {{grove.io/mnnvl-group: own}}
      spec: {{roleName: b, replicas: 1, podSpec: {{containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}
"
    );
    serde_saphyr::from_str(&text).expect("a set")
}

fn new(annotations: &str, replicas: i32) -> Observed {
    Observed {
        set: admission::default::pod_clique_set(&set(annotations, replicas)),
        availability: Availability::Served,
        children: ObservedChildren::default(),
        name_conflicts: vec![],
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
        namespace_uid: Some("u-namespace".to_owned()),
        is_namespace_terminating: false,
    }
}

fn plan_of(observed: &Observed) -> Plan {
    plan::plan(observed)
}

/// The snapshot after the plan was executed.
fn executed(mut observed: Observed) -> Observed {
    let stored = |meta: &mut ObjectMeta| {
        meta.uid = Some(format!("u-{}", meta.name.clone().unwrap_or_default()));
        meta.resource_version = Some("7".to_owned());
    };
    for step in plan_of(&observed).steps() {
        let Step::Create(create) = step else { panic!("{step} is not a create") };
        assert!(CHILD_KINDS.apply_create(create, &mut observed.children, stored), "a set has no {}", create.target);
    }
    observed
}

fn change(observed: &mut Observed, name: &str, change: impl FnOnce(&mut ComputeDomain)) {
    change(Arc::make_mut(observed.children.by_name_mut().get_mut(name).expect("a domain of that name")));
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan_of(observed).to_string());
}

/// The condition about domains after the plan was executed with these rejected creates.
fn condition_after(observed: &Observed, rejected: &[(&str, &str)]) -> String {
    let rejected = rejected.iter().map(|(name, message)| {
        let mut domain = ComputeDomain::default();
        domain.metadata.name = Some((*name).to_owned());
        (Target::of(&domain), ApiError::new(403, "Forbidden", *message))
    });
    let backed_off = BackedOffCreates { children: rejected.collect(), ..BackedOffCreates::default() };
    let observed = Observed { backed_off, ..observed.clone() };
    let result = ExecutionResult::default();
    let status = status::status(&observed, &plan_of(&observed), &result, Timestamp::UNIX_EPOCH);
    let lines = status.conditions.iter().map(|c| format!("{}={} {}: {}\n", c.type_, c.status, c.reason, c.message));
    lines.collect()
}

#[track_caller]
fn check_condition(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&condition_after(observed, &[]));
}

#[test]
fn each_replica_gets_its_domain_with_the_finalizer_in_the_create() {
    let plan = plan_of(&new(AUTO, 2));
    expect![[r"
        compute-domains: create ComputeDomain llm-0
        compute-domains: create ComputeDomain llm-1
    "]]
    .assert_eq(&plan.to_string());
    let Some(Step::Create(create)) = plan.steps().nth(1) else { panic!("a create") };
    expect![[r#"
        apiVersion: resource.nvidia.com/v1beta1
        kind: ComputeDomain
        metadata:
          finalizers:
          - grove.io/computedomain-finalizer
          labels:
            app.kubernetes.io/component: pcs-computedomain
            app.kubernetes.io/managed-by: grove-operator
            app.kubernetes.io/name: llm-1
            app.kubernetes.io/part-of: llm
            grove.io/podcliqueset-replica-index: "1"
          name: llm-1
          namespace: prod
          ownerReferences:
          - apiVersion: grove.io/v1alpha1
            blockOwnerDeletion: false
            controller: true
            kind: PodCliqueSet
            name: llm
            uid: u-set
          - apiVersion: v1
            kind: Namespace
            name: prod
            uid: u-namespace
        spec:
          channel:
            resourceClaimTemplate:
              name: llm-1
          numNodes: 0
    "#]]
    .assert_eq(&serde_saphyr::to_string(&create.object.value()).expect("YAML"));
}

#[test]
fn each_group_of_a_replica_gets_its_domain_with_the_label_of_the_group() {
    let plan = plan_of(&new("grove.io/mnnvl-group: fabric", 1));
    let created = plan.steps().map(|step| {
        let Step::Create(create) = step else { panic!("a create") };
        format!("{} {}\n", create.target.name, create.object.value()["metadata"]["labels"]["grove.io/mnnvl-group"])
    });
    expect![[r#"
        llm-0-fabric "fabric"
        llm-0-own "own"
    "#]]
    .assert_eq(&created.collect::<String>());
}

#[test]
fn a_set_without_domains_has_neither_a_write_nor_a_condition() {
    let mut observed = new("grove.io/auto-mnnvl: disabled", 2);
    observed.set.spec.template.cliques.truncate(1);
    check(
        &observed,
        &expect![[r"
        nothing to do
    "]],
    );
    check_condition(&observed, &expect![[r""]]);
}

#[test]
fn an_unserved_kind_is_reported_and_nothing_is_created() {
    let observed = Observed { availability: Availability::NotServed, ..new(AUTO, 2) };
    check(
        &observed,
        &expect![[r"
        wait: ComputeDomainsNotServed the API server does not serve computedomains.resource.nvidia.com; install NVIDIA's DRA driver with this CRD
    "]],
    );
    check_condition(
        &observed,
        &expect![[r"
        ComputeDomainsCreated=False ComputeDomainsNotServed: 0 of 2 ComputeDomains exist; the API server does not serve computedomains.resource.nvidia.com; install NVIDIA's DRA driver with this CRD
    "]],
    );
    let forbidden = Observed { availability: Availability::Forbidden, ..new(AUTO, 1) };
    check_condition(
        &forbidden,
        &expect![[r"
        ComputeDomainsCreated=False ComputeDomainsForbidden: 0 of 1 ComputeDomains exist; mnnvl-controller must not read computedomains.resource.nvidia.com; apply its rules in deploy/base
    "]],
    );
}

#[test]
fn the_condition_reports_whether_all_domains_exist() {
    check_condition(
        &new(AUTO, 2),
        &expect![[r"
        ComputeDomainsCreated=False ComputeDomainsMissing: 0 of 2 ComputeDomains exist; these domains do not exist yet: llm-0, llm-1
    "]],
    );
    check_condition(
        &executed(new(AUTO, 2)),
        &expect![[r"
        ComputeDomainsCreated=True AllComputeDomainsExist: all 2 ComputeDomains exist
    "]],
    );
    check_condition(
        &new(AUTO, 0),
        &expect![[r"
        ComputeDomainsCreated=True AllComputeDomainsExist: the set has no replica that needs a ComputeDomain
    "]],
    );
}

#[test]
fn a_first_condition_is_a_minor_change_if_all_domains_exist() {
    let status_of = |observed: &Observed| {
        status::status(observed, &plan_of(observed), &ExecutionResult::default(), Timestamp::UNIX_EPOCH)
    };
    let (missing, mut complete) = (new(AUTO, 2), executed(new(AUTO, 2)));
    assert_eq!(status::status_change(&missing, &status_of(&missing)), StatusChange::Significant);
    assert_eq!(status::status_change(&complete, &status_of(&complete)), StatusChange::Minor);
    complete.set.status = Some(status_of(&missing));
    assert_eq!(status::status_change(&complete, &status_of(&complete)), StatusChange::Significant, "another reason");
}

#[test]
fn a_rejected_create_is_reported_and_blocks_no_other_replica() {
    let mut observed = executed(new(AUTO, 2));
    observed.set.spec.replicas = 3;
    let message = "computedomains.resource.nvidia.com \"llm-2\" is forbidden: exceeded quota: two";
    expect![[r"
        ComputeDomainsCreated=False FailedCreate: 2 of 3 ComputeDomains exist; the API server rejected the create of ComputeDomain llm-2: exceeded quota: two; raise the quota or release some of it; Grove then creates the missing objects
    "]].assert_eq(&condition_after(&observed, &[("llm-2", message)]));
}

/// An object with the name of a domain, with these owners.
fn conflict(name: &str, owners: Option<Vec<OwnerReference>>) -> NameConflict {
    let mut domain = ComputeDomain::default();
    domain.metadata.name = Some(name.to_owned());
    domain.metadata.labels = Some(grove_api_types::labels::base(&grove_api_types::names::PodCliqueSetName::new("llm")));
    domain.metadata.owner_references = owners;
    NameConflict::with(&domain)
}

#[test]
fn an_object_that_the_set_does_not_control_is_never_adopted_and_the_other_replicas_proceed() {
    let mut observed = new(AUTO, 2);
    observed.name_conflicts = vec![conflict("llm-0", None)];
    check(
        &observed,
        &expect![[r"
            compute-domains: create ComputeDomain llm-1
            wait: NameConflict ComputeDomain llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            warn: ComputeDomainFailed ComputeDomain llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
    check_condition(
        &observed,
        &expect![[r"
        ComputeDomainsCreated=False NameConflict: 0 of 2 ComputeDomains exist; ComputeDomain llm-0 exists and PodCliqueSet llm does not control it; rename or delete it to free the name
    "]],
    );
    let status = status::status(&observed, &plan_of(&observed), &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    observed.set.status = Some(status);
    assert!(plan_of(&observed).warnings.is_empty(), "the condition reports the object");
}

#[test]
fn a_domain_of_a_deleted_set_of_the_same_name_is_awaited() {
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "llm", "uid": "old", "controller": true });
    let mut observed = new(AUTO, 1);
    observed.name_conflicts = vec![conflict("llm-0", Some(vec![serde_json::from_value(owner).expect("an owner")]))];
    check(
        &observed,
        &expect![[r"
            wait: NameTerminating ComputeDomain llm-0 is being deleted; its successor is created then
        "]],
    );
}

#[test]
fn a_terminating_namespace_gets_no_domains() {
    check(
        &Observed { is_namespace_terminating: true, ..new(AUTO, 1) },
        &expect![[r"
        wait: NamespaceTerminating nothing is created, because the namespace is terminating
    "]],
    );
}

#[test]
fn a_set_above_the_object_limit_gets_no_domains() {
    let mut observed = new(AUTO, 1000);
    observed.set.spec.template.cliques[0].spec.replicas = 1000;
    check(
        &observed,
        &expect![[r"
        wait: TooManyObjects the set is larger than Grove allows; its condition Available names the limit
    "]],
    );
}

#[test]
fn a_terminating_set_has_no_writes() {
    let mut observed = executed(new(AUTO, 1));
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    change(&mut observed, "llm-0", |domain| domain.metadata.owner_references = None);
    assert!(plan_of(&observed).is_empty(), "the reconciler of domains deletes the domain");
}

#[test]
fn a_domain_is_created_after_its_namespace_was_observed() {
    let observed = Observed { namespace_uid: None, ..new(AUTO, 1) };
    check(
        &observed,
        &expect![[r"
        wait: ComputeDomainsMissing mnnvl-controller has not observed the namespace yet; if this lasts, apply its rules in deploy/base, which allow it to list and watch namespaces
    "]],
    );
    let existing = Observed { namespace_uid: None, ..executed(new(AUTO, 1)) };
    assert!(plan_of(&existing).is_empty(), "the reference to the namespace stays");
}
