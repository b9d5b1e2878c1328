//! The condition of a clique about its claims.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::{Expect, expect};
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::v1alpha1::PodCliqueStatus;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::Target;
use grove_controller::status_limiter::StatusChange;
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;

use super::{NAME, snapshot, status};
use crate::clique::status::status_change;

fn status_of(row: &str, result: &ExecutionResult) -> PodCliqueStatus {
    status(&snapshot(row), result, Timestamp::from_second(1).unwrap())
}

/// The conditions about claims and about availability.
#[track_caller]
fn check(row: &str, result: &ExecutionResult, expected: &Expect) {
    let conditions = status_of(row, result).conditions;
    let shown =
        conditions.iter().filter(|condition| ["ResourceClaimsCreated", "Available"].contains(&&*condition.type_));
    let lines = shown.map(|shown| format!("{}={} {}: {}\n", shown.type_, shown.status, shown.reason, shown.message));
    expected.assert_eq(&lines.collect::<String>());
}

fn none() -> ExecutionResult {
    ExecutionResult::default()
}

/// The result of the create of a claim that the API server rejects.
fn rejected(name: &str, code: u16, message: &str) -> ExecutionResult {
    let mut claim = ResourceClaim::default();
    claim.metadata.name = Some(format!("{NAME}-{name}"));
    let error = ApiError::new(code, "Forbidden", format!("resourceclaims.resource.k8s.io \"{NAME}-{name}\" {message}"));
    ExecutionResult { steps: vec![StepResult::new("s", "create", Target::of(&claim), Err(error))] }
}

#[test]
fn a_clique_without_claims_has_no_condition_about_them() {
    let condition = "{type: ResourceClaimsCreated, status: 'True', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}";
    check(
        &format!("{{gang: [], status: {{conditions: [{condition}]}}}}"),
        &none(),
        &expect![[r"
        Available=False MinimumReplicasUnavailable: 0 of 1 pods ready, 1 to be created
    "]],
    );
}

#[test]
fn the_condition_counts_the_claims_that_exist() {
    let claims = "{references: [{name: llm-all-x}], own: [{t: shared}, {t: gpus, per: true}], existing: [{name: all-shared}, {name: 0-gpus}, {name: 1-gpus}]}";
    check(
        &format!("{{replicas: 2, gang: [], claims: {claims}}}"),
        &none(),
        &expect![[r"
        Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 to be created
        ResourceClaimsCreated=True AllResourceClaimsExist: all 4 ResourceClaims exist
    "]],
    );
    check(
        "{replicas: 0, gang: [], claims: {own: [{t: shared}]}}",
        &none(),
        &expect![[r"
        Available=True MinimumReplicasAvailable: 0 of 0 pods ready
        ResourceClaimsCreated=True AllResourceClaimsExist: the PodClique has no pods that need ResourceClaims
    "]],
    );
}

#[test]
fn the_most_specific_cause_is_the_reason() {
    check(
        "{replicas: 2, gang: [], claims: {references: [{name: llm-all-x, state: NotFound}], own: [{t: shared, template: NotFound}, {t: gpus, per: true}],
          existing: [{name: 0-gpus, terminating: true}, {name: 1-gpus, owner: other, ownerName: other}]}}",
        &none(),
        &expect![[r"
            Available=False ResourceClaimTemplateNotFound: 0 of 2 pods ready, 2 to be created; ResourceClaimTemplate shared in namespace prod, which f refers to, does not exist; the pods are created once it exists
            ResourceClaimsCreated=False ResourceClaimTemplateNotFound: 0 of 4 ResourceClaims exist; ResourceClaimTemplate shared in namespace prod, which f refers to, does not exist; the pods are created once it exists; ResourceClaim llm-0-decode-1-gpus exists and PodClique llm-0-decode does not control it; rename or delete it to free the name; these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: llm-0-decode-0-gpus; new pods wait for ResourceClaims of the set or of the scaling group: llm-all-x does not exist
        "]],
    );
}

#[test]
fn a_missing_template_is_in_the_errors_of_the_clique() {
    let errors = status_of("{gang: [], claims: {own: [{t: gpus, template: NotFound}]}}", &none()).last_errors;
    let errors: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.code, error.description)).collect();
    expect!["ERR_SYNC_PCLQ_RESOURCE_CLAIM: ResourceClaimTemplate gpus in namespace prod, which f refers to, does not exist; the pods are created once it exists"].assert_eq(&errors.join("\n"));
}

#[test]
fn a_rejected_claim_is_reported_with_the_message_of_the_api_server() {
    let row = "{replicas: 1, gang: [], claims: {own: [{t: gpus}]}}";
    let quota = rejected("all-gpus", 403, "is forbidden: exceeded quota: claims, requested: 1, used: 2, limited: 2");
    check(
        row,
        &quota,
        &expect![[r"
        Available=False FailedCreate: 0 of 1 pods ready, 1 to be created; the API server rejected the create of 1 ResourceClaim: exceeded quota: claims, requested: 1, used: 2, limited: 2; raise the quota or release some of it; Grove then creates the missing objects
        ResourceClaimsCreated=False ResourceClaimRejected: 0 of 1 ResourceClaims exist; the API server rejected the create of ResourceClaim llm-0-decode-all-gpus: exceeded quota: claims, requested: 1, used: 2, limited: 2; raise the quota or release some of it; Grove then creates the missing objects
    "]],
    );
    let errors = status_of(row, &quota).last_errors;
    assert_eq!(errors[0].code, "ERR_SYNC_PCLQ_RESOURCE_CLAIM");
    check(
        "{replicas: 1, gang: [], claims: {own: [{t: gpus}], rejected: [all-gpus]}}",
        &none(),
        &expect![[r"
        Available=False FailedCreate: 0 of 1 pods ready, 1 to be created; the API server rejected the create of 1 ResourceClaim: exceeded quota: claims; raise the quota or release some of it; Grove then creates the missing objects
        ResourceClaimsCreated=False ResourceClaimRejected: 0 of 1 ResourceClaims exist; the API server rejected the create of ResourceClaim llm-0-decode-all-gpus: exceeded quota: claims; raise the quota or release some of it; Grove then creates the missing objects
    "]],
    );
}

#[test]
fn an_api_that_is_not_served_is_reported_with_the_remedy() {
    check(
        "{replicas: 1, gang: [], claims: {availability: NotServed, own: [{t: gpus}]}}",
        &none(),
        &expect![[r"
        Available=False ResourceClaimsNotServed: 0 of 1 pods ready, 1 to be created; the API server does not serve resource.k8s.io/v1; run Kubernetes 1.34 or later, and enable dynamic resource allocation
        ResourceClaimsCreated=False ResourceClaimsNotServed: 0 of 1 ResourceClaims exist; the API server does not serve resource.k8s.io/v1; run Kubernetes 1.34 or later, and enable dynamic resource allocation
    "]],
    );
}

/// For example, Kubernetes allows at most 256 pods per claim.
#[test]
fn the_condition_contains_the_message_of_the_scheduler_about_a_claim() {
    let row = |message: &str| {
        let mut observed = snapshot(
            "{replicas: 1, gang: [a], pods: [{i: 0, name: a}], claims: {own: [{t: gpus}], existing: [{name: all-gpus, allocated: true}]}}",
        );
        let mut pod = grove_controller::slim_pod::SlimPod::clone(&observed.pods[0]);
        pod.status.conditions.push(grove_controller::slim_pod::SlimPodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            message: Some(message.to_owned()),
            ..grove_controller::slim_pod::SlimPodCondition::default()
        });
        observed.pods = vec![std::sync::Arc::new(pod)];
        let status = status(&observed, &none(), Timestamp::from_second(1).unwrap());
        let condition = status.conditions.iter().find(|condition| condition.type_ == "ResourceClaimsCreated").unwrap();
        format!("{} {}: {}", condition.status, condition.reason, condition.message)
    };
    expect![[r#"True AllResourceClaimsExist: all 1 ResourceClaims exist; Pod llm-0-decode-a is not scheduled: running PreBind plugin "DynamicResources": ResourceClaim x is invalid: status.reservedFor: Too many: 257: must have at most 256 items"#]].assert_eq(&row("running PreBind plugin \"DynamicResources\": ResourceClaim x is invalid: status.reservedFor: Too many: 257: must have at most 256 items"));
    expect!["True AllResourceClaimsExist: all 1 ResourceClaims exist; Pod llm-0-decode-a is not scheduled: 0/3 nodes are available: 3 cannot allocate all claims."].assert_eq(&row("0/3 nodes are available: 3 cannot allocate all claims."));
    expect!["True AllResourceClaimsExist: all 1 ResourceClaims exist"]
        .assert_eq(&row("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."));
}

#[test]
fn a_new_cause_is_significant_and_the_creation_of_the_claims_is_progress() {
    let change = |old: &str, claims: &str| {
        let observed = snapshot(&format!("{{gang: [], minAvailable: 1, status: {old}, claims: {claims}}}"));
        let new = status(&observed, &none(), Timestamp::from_second(1).unwrap());
        status_change(&observed, &new)
    };
    let with = |status: &str, reason: &str| {
        format!(
            "{{conditions: [{{type: ResourceClaimsCreated, status: '{status}', reason: {reason}, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}},
              {{type: MinAvailableBreached, status: 'True', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}"
        )
    };
    let (exists, missing) =
        ("{own: [{t: a}], existing: [{name: all-a}]}", "{references: [{name: llm-all-a, state: NotFound}]}");
    let pending = with("False", "ResourceClaimsPending");
    assert_eq!(change("null", exists), StatusChange::Minor);
    assert_eq!(change("null", missing), StatusChange::Significant);
    assert_eq!(change(&pending, missing), StatusChange::Minor);
    assert_eq!(change(&pending, exists), StatusChange::Significant);
    assert_eq!(change(&with("False", "ResourceClaimTerminating"), missing), StatusChange::Significant);
}
