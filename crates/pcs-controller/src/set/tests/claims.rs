//! The claims of a set: creates, templates, conflicts, rejections, scale-in and restored metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::conditions::{RESOURCE_CLAIMS_CREATED, resource_claims_created};
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::conditions::find_status_condition;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::{Plan, Step, Target, Waiting};
use grove_runtime::api_error::ApiError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{change, child, executed, new, plan, status_of};
use crate::claims::{ClaimInputs, ReadTemplate, TemplateKey, referenced_claims};
use crate::set::observed::Observed;

/// A set with a claim of an internal template per replica, and with one of an external template for all replicas.
pub(super) const SHARING: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm, namespace: prod, uid: u-set, generation: 3}
spec:
  replicas: 2
  template:
    resourceClaimTemplates: [{name: inner, templateSpec: {spec: {devices: {requests: [{name: gpu}]}}}}]
    resourceSharing: [{name: inner, scope: PerReplica}, {name: outer, namespace: shared, scope: AllReplicas}]
    cliques:
    - {name: a, spec: {roleName: r, replicas: 1, podSpec: {containers: [{name: c}]}}}
    - {name: member, spec: {roleName: r, replicas: 1, podSpec: {containers: [{name: c}]}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [member]}
";

fn key() -> TemplateKey {
    TemplateKey { namespace: "shared".to_owned(), name: "outer".to_owned() }
}

fn found() -> ReadTemplate {
    let spec = json!({ "devices": { "requests": [{ "name": "outer" }] } }).as_object().cloned().unwrap_or_default();
    ReadTemplate::Found(Arc::new(ClaimTemplate { spec, ..ClaimTemplate::default() }))
}

/// The set without children after this read of the external template.
fn with_template(read: ReadTemplate) -> Observed {
    let claims = ClaimInputs { templates: BTreeMap::from([(key(), read)]), ..ClaimInputs::default() };
    Observed { claims, ..new(SHARING) }
}

/// The set with all children.
pub(super) fn complete() -> Observed {
    let mut observed = executed(with_template(found()));
    // Reads show templates of missing claims only.
    observed.claims.templates.clear();
    observed
}

/// The lines of the plan about claims.
fn of_claims(plan: &Plan) -> String {
    let text = plan.to_string();
    let is_about = |line: &&str| line.contains("Claim") || line.contains("claim");
    text.split_inclusive('\n').filter(is_about).collect()
}

fn condition_after(observed: &Observed, result: &ExecutionResult) -> String {
    let status = status_of(observed, result, Timestamp::UNIX_EPOCH);
    let condition = find_status_condition(&status.conditions, RESOURCE_CLAIMS_CREATED);
    condition.map_or("none".to_owned(), |it| format!("{} {}: {}", it.status, it.reason, it.message))
}

#[track_caller]
fn check_condition(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&condition_after(observed, &ExecutionResult::default()));
}

fn creates_cliques(observed: &Observed) -> bool {
    let is_clique = |step: &Step| matches!(step, Step::Create(create) if create.target.resource.kind == "PodClique");
    plan(observed).steps().filter(|step| is_clique(step)).count() == 2
}

#[test]
fn claims_are_created_before_cliques_from_internal_and_external_templates() {
    let observed = with_template(found());
    expect![[r"
        revisions: create ControllerRevision llm-11cf32013f862e07b
        services: create Service llm-0
        services: create Service llm-1
        resource-claims: create ResourceClaim llm-0-inner
        resource-claims: create ResourceClaim llm-1-inner
        resource-claims: create ResourceClaim llm-all-outer
        gangs: create PodGang llm-0
        gangs: create PodGang llm-1
        groups: create PodCliqueScalingGroup llm-0-g
        groups: create PodCliqueScalingGroup llm-1-g
        cliques: create PodClique llm-0-a
        cliques: create PodClique llm-1-a
    "]]
    .assert_eq(&plan(&observed).to_string());
    let manifests: Vec<String> = plan(&observed)
        .steps()
        .filter_map(|step| match step {
            Step::Create(create) if create.target.resource.kind == "ResourceClaim" => {
                Some(create.object.text().to_string())
            }
            Step::Create(_) | Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
        })
        .collect();
    expect![[r#"
        {"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"labels":{"app.kubernetes.io/component":"resource-claim","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/part-of":"llm","grove.io/podcliqueset-replica-index":"0"},"name":"llm-0-inner","namespace":"prod","ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"}]},"spec":{"devices":{"requests":[{"name":"gpu"}]}}}
        {"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"labels":{"app.kubernetes.io/component":"resource-claim","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/part-of":"llm","grove.io/podcliqueset-replica-index":"1"},"name":"llm-1-inner","namespace":"prod","ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"}]},"spec":{"devices":{"requests":[{"name":"gpu"}]}}}
        {"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"labels":{"app.kubernetes.io/component":"resource-claim","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/part-of":"llm"},"name":"llm-all-outer","namespace":"prod","ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"}]},"spec":{"devices":{"requests":[{"name":"outer"}]}}}"#]].assert_eq(&manifests.join("\n"));
    let complete = complete();
    assert_eq!(plan(&complete).to_string(), "nothing to do\n");
    check_condition(&complete, &expect!["True AllResourceClaimsExist: all 3 ResourceClaims of this level exist"]);
}

#[test]
fn without_its_template_a_claim_waits_and_nothing_else_does() {
    let mut missing = with_template(ReadTemplate::NotFound);
    expect![[r"
        resource-claims: create ResourceClaim llm-0-inner
        resource-claims: create ResourceClaim llm-1-inner
        wait: ResourceClaimTemplateNotFound ResourceClaimTemplate shared/outer of spec.template.resourceSharing[1].name does not exist; create it
        warn: ResourceClaimTemplateNotFound ResourceClaimTemplate shared/outer of spec.template.resourceSharing[1].name does not exist; create it
    "]].assert_eq(&of_claims(&plan(&missing)));
    assert!(creates_cliques(&missing));
    check_condition(
        &missing,
        &expect![
            "False ResourceClaimTemplateNotFound: 0 of 3 ResourceClaims exist; ResourceClaimTemplate shared/outer of spec.template.resourceSharing[1].name does not exist; create it"
        ],
    );
    let status = status_of(&missing, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    let errors: Vec<_> =
        status.last_errors.iter().map(|error| format!("{}: {}", error.code, error.description)).collect();
    expect!["ERR_SYNC_PCS_RESOURCE_CLAIM: ResourceClaimTemplate shared/outer of spec.template.resourceSharing[1].name does not exist; create it"].assert_eq(&errors.join("\n"));
    missing.set.status = Some(status);
    assert!(plan(&missing).warnings.is_empty(), "the condition reports it");
    let unreadable = with_template(ReadTemplate::Unreadable("forbidden".to_owned()));
    assert!(plan(&unreadable).warnings.is_empty() && creates_cliques(&unreadable));
    check_condition(
        &unreadable,
        &expect![
            "False ResourceClaimsPending: 0 of 3 ResourceClaims exist; ResourceClaimTemplate shared/outer of spec.template.resourceSharing[1].name cannot be read: forbidden"
        ],
    );
}

#[test]
fn a_claim_is_not_created_before_its_template_was_read() {
    let creates = |observed: &Observed| of_claims(&plan(observed)).matches("create").count();
    assert_eq!((creates(&new(SHARING)), creates(&with_template(found()))), (2, 3));
}

#[test]
fn templates_are_read_only_for_missing_claims_and_valid_names() {
    let to_read = |observed: &Observed| observed.owned_claims().templates_to_read(&observed.children);
    assert_eq!(to_read(&new(SHARING)), BTreeMap::from([(key(), true)]));
    assert_eq!(to_read(&complete()), BTreeMap::new());
    let invalid = new(&SHARING.replace("namespace: shared", "namespace: a/b"));
    assert_eq!(to_read(&invalid).into_values().collect::<Vec<_>>(), [false]);
    let conflicting = ClaimInputs { conflicting: ["llm-all-outer".to_owned()].into(), ..ClaimInputs::default() };
    assert!(to_read(&Observed { claims: conflicting, ..new(SHARING) }).is_empty());
}

#[test]
fn a_claim_stays_after_the_deletion_of_its_template() {
    let mut observed = complete();
    observed.claims.templates.insert(key(), ReadTemplate::NotFound);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
}

#[test]
fn while_the_api_is_not_served_only_claims_wait() {
    let unavailable = Waiting::new(resource_claims_created::RESOURCE_CLAIMS_NOT_SERVED, "not served; upgrade");
    let claims = ClaimInputs { unavailable: Some(unavailable), ..ClaimInputs::default() };
    let observed = Observed { claims, ..new(SHARING) };
    assert!(creates_cliques(&observed) && observed.owned_claims().templates_to_read(&observed.children).is_empty());
    expect![[r"
        wait: ResourceClaimsNotServed not served; upgrade
    "]]
    .assert_eq(&of_claims(&plan(&observed)));
    check_condition(
        &observed,
        &expect!["False ResourceClaimsNotServed: 0 of 3 ResourceClaims exist; not served; upgrade"],
    );
}

#[test]
fn an_object_of_another_owner_blocks_only_its_claim() {
    let mut observed = with_template(found());
    let mut foreign = ResourceClaim::default();
    (foreign.metadata.name, foreign.metadata.namespace) = (Some("llm-0-inner".to_owned()), Some("prod".to_owned()));
    observed.name_conflicts = vec![NameConflict::with(&foreign)];
    observed.claims.conflicting = ClaimInputs::conflicting(&observed.name_conflicts);
    expect![[r"
        resource-claims: create ResourceClaim llm-1-inner
        resource-claims: create ResourceClaim llm-all-outer
        wait: NameConflict ResourceClaim llm-0-inner exists and PodCliqueSet llm does not control it; rename or delete it to free the name
    "]].assert_eq(&of_claims(&plan(&observed)));
    assert!(creates_cliques(&observed));
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimNameConflict: 0 of 3 ResourceClaims exist; ResourceClaim llm-0-inner exists and PodCliqueSet llm does not control it; rename or delete it to free the name"
        ],
    );
    foreign.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    observed.name_conflicts = vec![NameConflict::with(&foreign)];
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimTerminating: 0 of 3 ResourceClaims exist; ResourceClaim llm-0-inner is being deleted; its successor is created then"
        ],
    );
}

#[test]
fn a_claim_that_lost_its_owner_is_adopted_although_its_template_is_deleted() {
    let mut observed = complete();
    let mut lost = ResourceClaim::clone(&child(&observed, "llm-all-outer"));
    lost.metadata.owner_references = None;
    observed.children.by_name_mut::<ResourceClaim>().remove("llm-all-outer");
    observed.name_conflicts = vec![NameConflict::with(&lost)];
    observed.claims.conflicting = ClaimInputs::conflicting(&observed.name_conflicts);
    observed.claims.templates.insert(key(), ReadTemplate::NotFound);
    expect![[r"
        resource-claims: adopt ResourceClaim llm-all-outer
    "]]
    .assert_eq(&plan(&observed).to_string());
}

#[test]
fn a_rejected_claim_is_quoted_and_blocks_nothing_else() {
    let mut observed = with_template(found());
    let mut claim = ResourceClaim::default();
    (claim.metadata.name, claim.metadata.namespace) = (Some("llm-0-inner".to_owned()), Some("prod".to_owned()));
    let quota = "resourceclaims.resource.k8s.io \"llm-0-inner\" is forbidden: exceeded quota: small, requested: 1";
    observed.backed_off.children = vec![(Target::of(&claim), ApiError::new(403, "Forbidden", quota))];
    expect![[r"
        resource-claims: create ResourceClaim llm-1-inner
        resource-claims: create ResourceClaim llm-all-outer
    "]]
    .assert_eq(&of_claims(&plan(&observed)));
    assert!(creates_cliques(&observed));
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimRejected: 0 of 3 ResourceClaims exist; the API server rejected the create of ResourceClaim llm-0-inner: exceeded quota: small, requested: 1; raise the quota or release some of it; Grove then creates the missing objects"
        ],
    );
}

#[test]
fn lost_labels_are_restored_and_other_metadata_stays() {
    let mut observed = complete();
    change::<ResourceClaim>(&mut observed, "llm-1-inner", |claim| {
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.remove("app.kubernetes.io/component");
        labels.insert("team".to_owned(), "x".to_owned());
    });
    expect![[r#"
        resource-claims: patch ResourceClaim llm-1-inner {"metadata":{"labels":{"app.kubernetes.io/component":"resource-claim"},"resourceVersion":"7"}}
    "#]].assert_eq(&plan(&observed).to_string());
}

fn allocate(observed: &mut Observed, name: &str) {
    change::<ResourceClaim>(observed, name, |claim| {
        claim.metadata.finalizers = Some(vec!["resource.kubernetes.io/delete-protection".to_owned()]);
    });
}

#[test]
fn the_claim_of_a_removed_replica_is_deleted_and_the_shared_one_stays() {
    let mut observed = complete();
    for name in ["llm-0-inner", "llm-1-inner", "llm-all-outer"] {
        allocate(&mut observed, name);
    }
    observed.set.spec.replicas = 1;
    observed.claims.referenced.insert("llm-1-inner".to_owned());
    expect![[r"
        scale-in: delete PodClique llm-1-a
        scale-in: delete PodCliqueScalingGroup llm-1-g
        scale-in: delete PodGang llm-1
        scale-in: delete ResourceClaim llm-1-inner
        scale-in: delete Service llm-1
    "]]
    .assert_eq(&plan(&observed).to_string());
    observed.set.spec.replicas = 0;
    assert_eq!(of_claims(&plan(&observed)).matches("delete").count(), 2);
}

#[test]
fn a_claim_that_is_not_allocated_is_deleted_after_the_cliques_that_refer_to_it() {
    let mut observed = complete();
    observed.set.spec.replicas = 1;
    observed.claims.referenced.insert("llm-1-inner".to_owned());
    assert_eq!(of_claims(&plan(&observed)), "");
    observed.claims.referenced.clear();
    assert_eq!(of_claims(&plan(&observed)), "scale-in: delete ResourceClaim llm-1-inner\n");
}

#[test]
fn references_of_cliques_matter_only_for_claims_of_removed_replicas_that_are_not_allocated() {
    let mut observed = complete();
    let mut cliques: Vec<Arc<PodClique>> = observed.children.of_kind::<PodClique>().cloned().collect();
    let referenced = |observed: &Observed, cliques: &[Arc<PodClique>]| {
        let cliques = || cliques.to_vec();
        referenced_claims(&observed.owned_claims(), &observed.children, cliques).into_iter().collect::<Vec<_>>()
    };
    assert!(referenced(&observed, &cliques).is_empty(), "all claims are required");
    observed.set.spec.replicas = 1;
    assert_eq!(referenced(&observed, &cliques), ["llm-0-inner", "llm-1-inner", "llm-all-outer"]);
    let unreadable = r#"{"v":2}"#;
    for clique in &mut cliques {
        Arc::make_mut(clique).annotations_mut().insert(RESOURCE_CLAIMS.to_owned(), unreadable.to_owned());
    }
    assert_eq!(referenced(&observed, &cliques), ["llm-0-inner", "llm-1-inner", "llm-all-outer"], "any of them");
    allocate(&mut observed, "llm-1-inner");
    assert!(referenced(&observed, &cliques).is_empty(), "Kubernetes protects the claim");
}

#[test]
fn a_terminating_claim_is_created_again_after_its_deletion() {
    let mut observed = complete();
    change::<ResourceClaim>(&mut observed, "llm-1-inner", |claim| {
        claim.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimTerminating: 2 of 3 ResourceClaims exist; these claims are being deleted, and are created again after the pods that use them have ended: llm-1-inner"
        ],
    );
    observed.children.by_name_mut::<ResourceClaim>().remove("llm-1-inner");
    assert_eq!(plan(&observed).to_string(), "resource-claims: create ResourceClaim llm-1-inner\n");
}

#[test]
fn the_set_reports_what_only_a_user_can_correct_at_the_levels_below() {
    let condition = |status: &str, reason: &str, message: &str| {
        json!([{ "type": "ResourceClaimsCreated", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z" }])
    };
    let mut observed = complete();
    change::<PodClique>(&mut observed, "llm-0-a", |clique| {
        let waits = condition("False", "ResourceClaimsPending", "waits");
        clique.status = serde_json::from_value(json!({ "conditions": waits })).ok();
    });
    assert!(condition_after(&observed, &ExecutionResult::default()).starts_with("True "));
    change::<PodClique>(&mut observed, "llm-1-a", |clique| {
        let not_found = condition("False", "ResourceClaimTemplateNotFound", "prod/t does not exist");
        clique.status = serde_json::from_value(json!({ "conditions": not_found })).ok();
    });
    for group in ["llm-0-g", "llm-1-g"] {
        change::<PodCliqueScalingGroup>(&mut observed, group, |group| {
            let rejected = condition("False", "ResourceClaimRejected", "no quota");
            group.status = serde_json::from_value(json!({ "conditions": rejected })).ok();
        });
    }
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimRejected: 3 of 3 ResourceClaims exist; PodCliqueScalingGroup llm-0-g: no quota (and 1 more); PodClique llm-1-a: prod/t does not exist"
        ],
    );
}

#[test]
fn a_set_that_shares_no_claims_has_no_condition() {
    assert_eq!(condition_after(&new(super::SET), &ExecutionResult::default()), "none");
}

#[test]
fn a_deleted_set_deletes_its_claims_unless_its_deletion_orphans_them() {
    let mut observed = complete();
    observed.set.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(of_claims(&plan(&observed)).matches("delete ResourceClaim").count(), 3);
    observed.orphans_children = true;
    assert_eq!(of_claims(&plan(&observed)), "");
}
