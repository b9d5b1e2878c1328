//! The claims of a clique: creates before the pods that use them, repairs, and the reasons for which pods wait.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::expect;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Create, Plan, Step};
use grove_runtime::api_error::ApiError;

use super::{NAME, Observed, check, plan, snapshot};

fn plan_of_claims(observed: &Observed) -> Plan {
    crate::claims::plan(observed, &observed.claims)
}

#[test]
fn claims_are_created_before_the_pods_that_use_them() {
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: shared}, {t: gpus, per: true}]}}",
        &expect![[r"
        resource-claims: create ResourceClaim ~-all-shared
        resource-claims: create ResourceClaim ~-0-gpus
        resource-claims: create ResourceClaim ~-1-gpus
        pods: create Pod ~-ml5tj
        pods: create Pod ~-vk7tm
    "]],
    );
}

#[test]
fn a_claim_has_owner_labels_and_the_content_of_its_template() {
    let plan = plan(&snapshot("{gang: [], labels: {team: other}, claims: {own: [{t: gpus, per: true}]}}"));
    let Some(Step::Create(Create { target: _, object })) = plan.steps().next() else { panic!("no claim: {plan}") };
    expect![[r#"
        {
          "apiVersion": "resource.k8s.io/v1",
          "kind": "ResourceClaim",
          "metadata": {
            "annotations": {
              "note": "n"
            },
            "labels": {
              "app.kubernetes.io/component": "resource-claim",
              "app.kubernetes.io/managed-by": "grove-operator",
              "app.kubernetes.io/part-of": "llm",
              "grove.io/podclique": "llm-0-decode",
              "grove.io/podclique-pod-index": "0",
              "team": "x"
            },
            "name": "llm-0-decode-0-gpus",
            "namespace": "prod",
            "ownerReferences": [
              {
                "apiVersion": "grove.io/v1alpha1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "PodClique",
                "name": "llm-0-decode",
                "uid": "clique-uid"
              }
            ]
          },
          "spec": {
            "devices": {
              "requests": [
                {
                  "name": "gpu"
                }
              ]
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&object.value()).unwrap());
}

#[test]
fn existing_claims_are_used_and_not_changed() {
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: shared, template: NotFound}, {t: gpus, per: true, template: NotFound}],
          existing: [{name: all-shared, labels: {team: other}}, {name: 0-gpus}, {name: 1-gpus}]}}",
        &expect![[r"
            pods: create Pod ~-ml5tj
            pods: create Pod ~-vk7tm
        "]],
    );
}

#[test]
fn lost_labels_and_owner_references_are_restored() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a}], claims: {own: [{t: shared}, {t: gpus, per: true}],
          existing: [{name: all-shared, labels: {grove.io/podclique: other, added: by-user}},
                     {name: 0-gpus, orphan: true, owner: none}]}}",
        &expect![[r#"
            resource-claims: patch ResourceClaim ~-all-shared {"metadata":{"labels":{"grove.io/podclique":"~"},"resourceVersion":"3"}}
            resource-claims: adopt ResourceClaim ~-0-gpus
        "#]],
    );
}

#[test]
fn a_replacement_uses_the_claim_of_its_index_at_once() {
    check(
        "{replicas: 2, gang: [a, b], pods: [{i: 0, name: a, terminating: true, bound: true}, {i: 1, name: b, phase: Failed}],
          claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus, allocated: true}, {name: 1-gpus, allocated: true}]}}",
        &expect![[r"
            pods: delete Pod ~-b
            pods: create Pod ~-jjjnq
            pods: create Pod ~-lpll5
        "]],
    );
}

#[test]
fn without_its_template_a_claim_and_the_pods_that_use_it_wait() {
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: gpus, per: true, template: NotFound, ns: shared, field: 'spec.template.cliques[0].resourceSharing[0].name'}],
          existing: [{name: 0-gpus}]}}",
        &expect![[r"
            pods: create Pod ~-ml5tj
            wait: ResourceClaimTemplateNotFound ResourceClaimTemplate gpus in namespace shared, which spec.template.cliques[0].resourceSharing[0].name refers to, does not exist; the pods are created once it exists
            warn: ResourceClaimTemplateNotFound ResourceClaimTemplate gpus in namespace shared, which spec.template.cliques[0].resourceSharing[0].name refers to, does not exist; the pods are created once it exists
        "]],
    );
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: shared, template: 503 no answer}, {t: gpus, per: true}]}}",
        &expect![[r"
            resource-claims: create ResourceClaim ~-0-gpus
            resource-claims: create ResourceClaim ~-1-gpus
            wait: ResourceClaimsPending ResourceClaimTemplate shared in namespace prod, which f refers to, could not be read: 503 no answer
        "]],
    );
}

/// A reported template is in the condition, so no second event follows.
#[test]
fn a_missing_template_causes_one_event() {
    let condition = "{type: ResourceClaimsCreated, status: 'False', reason: R, lastTransitionTime: '2026-01-01T00:00:00Z', message: \
                     '0 of 1 ResourceClaims exist; ResourceClaimTemplate gpus in namespace prod, which f refers to, does not exist; \
                     the pods are created once it exists'}";
    let row = format!(
        "{{gang: [], status: {{conditions: [{condition}]}}, claims: {{own: [{{t: gpus, template: NotFound}}]}}}}"
    );
    assert!(plan(&snapshot(&row)).warnings.is_empty());
    let other = row.replace("ResourceClaimTemplate gpus in", "ResourceClaimTemplate other in");
    assert_eq!(plan(&snapshot(&other)).warnings.len(), 1);
}

#[test]
fn a_foreign_claim_is_not_used_and_only_its_pod_waits() {
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus, owner: other, ownerName: other}]}}",
        &expect![[r"
            resource-claims: create ResourceClaim ~-1-gpus
            pods: create Pod ~-vk7tm
            wait: ResourceClaimNameConflict ResourceClaim ~-0-gpus exists and PodClique ~ does not control it; rename or delete it to free the name
            warn: ResourceClaimCreateFailed ResourceClaim ~-0-gpus exists and PodClique ~ does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
}

#[test]
fn the_claim_of_an_earlier_clique_of_the_name_is_never_used() {
    check(
        "{replicas: 1, gang: [], claims: {own: [{t: shared}], existing: [{name: all-shared, owner: earlier}]}}",
        &expect![[r"
            wait: ResourceClaimTerminating ResourceClaim ~-all-shared is being deleted; its successor is created then
        "]],
    );
}

#[test]
fn a_needed_claim_that_is_terminating_is_used_by_no_new_pod() {
    check(
        "{replicas: 2, gang: [a], pods: [{i: 0, name: a, bound: true}],
          claims: {own: [{t: shared}], existing: [{name: all-shared, terminating: true, allocated: true}]}}",
        &expect![[r"
            wait: ResourceClaimTerminating these ResourceClaims are deleted once no pod uses them; new pods wait for their successors: ~-all-shared
        "]],
    );
}

#[test]
fn pods_wait_for_the_claims_of_their_set_and_scaling_group() {
    let row = |states: [&str; 2]| {
        format!(
            "{{replicas: 1, gang: [], claims: {{references: [{{name: llm-all-x, state: {}}}, {{name: llm-0-g-0-y, state: {}}}]}}}}",
            states[0], states[1]
        )
    };
    check(
        &row(["Usable", "NotFound"]),
        &expect![[r"
        wait: ResourceClaimsPending new pods wait for ResourceClaims of the set or of the scaling group: llm-0-g-0-y does not exist
    "]],
    );
    check(
        &row(["Terminating", "NotControlled"]),
        &expect![[r"
        wait: ResourceClaimsPending new pods wait for ResourceClaims of the set or of the scaling group: llm-all-x is being deleted, llm-0-g-0-y exists, and neither the set nor the scaling group controls it
    "]],
    );
    check(
        &row(["Usable", "Usable"]),
        &expect![[r"
        pods: create Pod ~-ml5tj
    "]],
    );
}

#[test]
fn pods_are_not_created_without_their_claims_if_the_claims_are_unknown() {
    check(
        "{replicas: 1, gang: [], claims: {invalid: 'annotation a is missing', existing: [{name: all-x}, {name: 0-y}]}}",
        &expect![[r"
            wait: ResourceClaimsInvalid annotation a is missing
            warn: UnreadableAnnotation no pods are created: annotation a is missing
        "]],
    );
}

#[test]
fn claims_of_an_api_that_is_not_served_are_not_created() {
    check(
        "{replicas: 1, gang: [], claims: {availability: NotServed, own: [{t: gpus}], references: [{name: llm-all-x, state: NotFound}]}}",
        &expect![[r"
            wait: ResourceClaimsNotServed the API server does not serve resource.k8s.io/v1; run Kubernetes 1.34 or later, and enable dynamic resource allocation
        "]],
    );
    check(
        "{replicas: 1, gang: [], claims: {availability: Forbidden, own: [{t: gpus}]}}",
        &expect![[r"
        wait: ResourceClaimsForbidden pclq-controller must not read ResourceClaims; apply its rules in deploy/base
    "]],
    );
    check(
        "{replicas: 1, gang: [], claims: {availability: NotServed}}",
        &expect![[r"
        pods: create Pod ~-ml5tj
    "]],
    );
}

#[test]
fn a_rejected_claim_delays_only_the_pods_that_use_it() {
    let row = "{replicas: 2, gang: [], claims: {own: [{t: gpus, per: true}]}}";
    let observed = snapshot(row);
    let claims = plan_of_claims(&observed);
    let result = claims.steps().enumerate().map(|(at, step)| {
        let result = if at == 0 { Err(ApiError::new(422, "Invalid", "no")) } else { Ok(()) };
        StepResult::new("s", "create", step.target().clone(), result)
    });
    let mut executed = observed.clone();
    executed.claims.record_created(&ExecutionResult { steps: result.collect() });
    let pods = crate::clique::plan::pods(&executed);
    assert_eq!(pods.indexed_creates().map(|(index, _)| index).collect::<Vec<_>>(), [1]);
    check(
        "{replicas: 2, gang: [], claims: {own: [{t: gpus, per: true}], rejected: [0-gpus], existing: [{name: 1-gpus}]}}",
        &expect![[r"
            pods: create Pod ~-vk7tm
            requeue: after 8s
        "]],
    );
}

#[test]
fn a_created_claim_with_a_pending_watch_event_is_used_and_not_created_again() {
    check(
        &format!("{{replicas: 1, gang: [], claims: {{own: [{{t: shared}}], pending: [{NAME}-all-shared]}}}}"),
        &expect![[r"
            pods: create Pod ~-ml5tj
        "]],
    );
}

#[test]
fn a_claim_that_is_deleted_while_its_pods_live_is_created_again() {
    check(
        "{replicas: 1, gang: [a], pods: [{i: 0, name: a, bound: true}], claims: {own: [{t: shared}, {t: gpus, per: true}], existing: [{name: 0-gpus}]}}",
        &expect![[r"
            resource-claims: create ResourceClaim ~-all-shared
        "]],
    );
}

#[test]
fn a_clique_without_pods_creates_no_claims() {
    check(
        "{replicas: 0, gang: [], claims: {own: [{t: shared}, {t: gpus, per: true}]}}",
        &expect![[r"
        nothing to do
    "]],
    );
}

#[test]
fn no_claim_is_created_in_a_terminating_namespace() {
    check(
        "{replicas: 1, gang: [], namespaceTerminating: true, claims: {own: [{t: shared}]}}",
        &expect![[r"
        wait: NamespaceTerminating nothing is created, because the namespace is terminating
    "]],
    );
}

#[test]
fn a_clique_with_more_pods_and_claims_than_a_set_may_have_objects_plans_nothing() {
    let own = |claims: usize| (0..claims).map(|at| format!("{{t: t-{at}, per: true}}")).collect::<Vec<_>>().join(", ");
    let row = |replicas: usize, claims: usize| {
        format!("{{replicas: {replicas}, gang: [], claims: {{own: [{}]}}}}", own(claims))
    };
    let observed = snapshot(&row(7000, 300));
    assert_eq!(observed.claims.needed(&observed).count(), 0);
    check(
        &row(7000, 300),
        &expect![[r"
            wait: TooManyObjects Grove creates and deletes no pods while spec.replicas is 7000: the PodClique would have 2107000 pods and ResourceClaims, and may have at most 100000; lower spec.replicas
        "]],
    );
    let largest = snapshot(&row(1000, 99));
    assert_eq!(largest.claims.needed(&largest).count(), 99_000);
    assert_eq!(plan_of_claims(&largest).steps().count(), 4096);
    let larger = snapshot(&row(1001, 99));
    assert_eq!(larger.claims.needed(&larger).count(), 0);
}

#[test]
fn a_terminating_clique_that_is_too_large_deletes_its_claims() {
    let row =
        "{replicas: 100000, terminating: true, claims: {own: [{t: gpus, per: true}], existing: [{name: 0-gpus}]}}";
    assert_eq!(plan_of_claims(&snapshot(row)).steps().count(), 1);
}

#[test]
fn a_clique_without_a_valid_label_and_a_too_large_clique_change_no_claims() {
    for row in [
        "{labels: {grove.io/podgang: ''}, claims: {own: [{t: shared}]}}",
        "{replicas: 2147483647, claims: {own: [{t: shared}, {t: gpus, per: true}]}}",
    ] {
        assert!(plan_of_claims(&snapshot(row)).is_empty(), "{row}");
    }
}
