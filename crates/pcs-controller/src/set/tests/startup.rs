//! The identity of the waiting pods of a set: the objects, their repair, and their removal.

use expect_test::{Expect, expect};
use grove_api_types::configuration::StartupToken;
use grove_api_types::v1alpha1::CliqueStartupType;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Step;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{SET, change, executed, new, plan, status_of};
use crate::set::observed::Observed;
use crate::startup::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};

/// The set with one replica, whose clique `decode` starts after `prefill`.
fn in_order() -> Observed {
    let mut observed = new(&SET.replace(
        "replicas: 2\n  template:",
        "replicas: 1\n  template:\n    cliqueStartupType: CliqueStartupTypeInOrder",
    ));
    // The account exists.
    observed.identity.account_uid = Some("u-llm".to_owned());
    observed
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan(observed).to_string());
}

/// The created objects of the identity as JSON, without what all children have.
fn identity(observed: &Observed) -> String {
    let plan = plan(observed);
    let creates = plan.steps().filter_map(|step| match step {
        Step::Create(create) => Some(create),
        Step::Patch(_) | Step::Adopt(_) | Step::Delete(_) => None,
    });
    let of_identity = ["ServiceAccount", "Role", "RoleBinding", "Secret"];
    let objects = creates.filter(|create| of_identity.contains(&create.target.resource.kind.as_str())).map(|create| {
        let mut object = create.object.value().clone();
        let owner = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("ownerReferences"));
        assert_eq!(owner.expect("owners")[0]["uid"], "u-set");
        object.to_string()
    });
    objects.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_set_with_dependencies_has_the_identity_of_the_go_operator() {
    expect![[r#"
        {"apiVersion":"v1","automountServiceAccountToken":true,"kind":"ServiceAccount","metadata":{"labels":{"app.kubernetes.io/component":"pod-service-account","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"llm","app.kubernetes.io/part-of":"llm"},"name":"llm","namespace":"prod"}}
        {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"labels":{"app.kubernetes.io/component":"pod-role","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"grove.io-pcs-llm","app.kubernetes.io/part-of":"llm"},"name":"grove.io:pcs:llm","namespace":"prod"},"rules":[{"apiGroups":[""],"resources":["pods","pods/status"],"verbs":["get","list","watch"]}]}
        {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"labels":{"app.kubernetes.io/component":"pod-role-binding","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"grove.io-pcs-llm","app.kubernetes.io/part-of":"llm"},"name":"grove.io:pcs:llm","namespace":"prod"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"grove.io:pcs:llm"},"subjects":[{"kind":"ServiceAccount","name":"llm","namespace":"prod"}]}
        {"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"llm","kubernetes.io/service-account.uid":"u-llm"},"labels":{"app.kubernetes.io/component":"pod-sa-token-secret","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"llm-ic-sat","app.kubernetes.io/part-of":"llm"},"name":"llm-ic-sat","namespace":"prod"},"type":"kubernetes.io/service-account-token"}"#]].assert_eq(&identity(&in_order()));
}

#[test]
fn a_projected_token_needs_only_a_role_for_the_accounts_of_the_pods() {
    let mut observed = in_order();
    observed.identity.token = StartupToken::Projected;
    expect![[r#"
        {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"labels":{"app.kubernetes.io/component":"pod-role","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"grove.io-pcs-llm","app.kubernetes.io/part-of":"llm"},"name":"grove.io:pcs:llm","namespace":"prod"},"rules":[{"apiGroups":[""],"resources":["pods","pods/status"],"verbs":["get","list","watch"]}]}
        {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"labels":{"app.kubernetes.io/component":"pod-role-binding","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"grove.io-pcs-llm","app.kubernetes.io/part-of":"llm"},"name":"grove.io:pcs:llm","namespace":"prod"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"grove.io:pcs:llm"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"prod"}]}"#]].assert_eq(&identity(&observed));
}

#[test]
fn the_token_waits_for_the_account_and_blocks_nothing() {
    let mut observed = in_order();
    observed.identity.account_uid = None;
    check(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            service-accounts: create ServiceAccount llm
            roles: create Role grove.io:pcs:llm
            role-bindings: create RoleBinding grove.io:pcs:llm
            gangs: create PodGang llm-0
            cliques: create PodClique llm-0-prefill
            cliques: create PodClique llm-0-decode
            wait: StartupTokenPending the token of waiting pods is created after their ServiceAccount
        "]],
    );
}

#[test]
fn a_set_without_dependencies_has_no_identity() {
    assert_eq!(identity(&new(SET)), "");
    let mut observed = in_order();
    observed.set.spec.template.cliques.pop();
    assert_eq!(identity(&observed), "");
}

#[test]
fn a_set_with_its_identity_causes_no_write() {
    let mut observed = executed(in_order());
    change(&mut observed, "llm-ic-sat", |secret: &mut SlimTokenSecret| {
        secret.labels_mut().insert("kubernetes.io/legacy-token-last-used".to_owned(), "2026-01-01".to_owned());
    });
    check(&observed, &expect![["nothing to do\n"]]);
    observed.identity.account_uid = Some("u-new".to_owned());
    check(
        &observed,
        &expect![[r"
        secrets: delete Secret llm-ic-sat
    "]],
    );
}

#[test]
fn an_edited_identity_is_restored() {
    let mut observed = executed(in_order());
    change(&mut observed, "llm", |account: &mut SlimServiceAccount| {
        account.fields = serde_json::from_value(json!({})).expect("fields");
    });
    change(&mut observed, "grove.io:pcs:llm", |role: &mut SlimRole| {
        let all = json!({ "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] });
        role.fields = serde_json::from_value(all).expect("fields");
    });
    change(&mut observed, "grove.io:pcs:llm", |binding: &mut SlimRoleBinding| binding.fields.subjects = None);
    change(&mut observed, "llm-ic-sat", |secret: &mut SlimTokenSecret| secret.labels_mut().clear());
    check(
        &observed,
        &expect![[r#"
        service-accounts: patch ServiceAccount llm {"automountServiceAccountToken":true}
        roles: patch Role grove.io:pcs:llm {"rules":[{"apiGroups":[""],"resources":["pods","pods/status"],"verbs":["get","list","watch"]}]}
        role-bindings: patch RoleBinding grove.io:pcs:llm {"subjects":[{"kind":"ServiceAccount","name":"llm","namespace":"prod"}]}
        secrets: patch Secret llm-ic-sat {"metadata":{"labels":{"app.kubernetes.io/component":"pod-sa-token-secret","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"llm-ic-sat","app.kubernetes.io/part-of":"llm"}}}
    "#]],
    );
}

#[test]
fn an_identity_with_another_immutable_field_is_created_again() {
    let mut observed = executed(in_order());
    change(&mut observed, "grove.io:pcs:llm", |binding: &mut SlimRoleBinding| {
        binding.fields.role_ref.name = "admin".to_owned();
    });
    change(&mut observed, "llm-ic-sat", |secret: &mut SlimTokenSecret| {
        secret.annotations_mut().insert("kubernetes.io/service-account.name".to_owned(), "admin".to_owned());
    });
    check(
        &observed,
        &expect![[r"
        role-bindings: delete RoleBinding grove.io:pcs:llm
        secrets: delete Secret llm-ic-sat
    "]],
    );
}

/// An object of the kind and name that the set does not control.
fn foreign<K: Resource<DynamicType = ()> + Default>(name: &str) -> NameConflict {
    let mut object = K::default();
    object.meta_mut().name = Some(name.to_owned());
    object.meta_mut().uid = Some("foreign".to_owned());
    NameConflict::with(&object)
}

#[test]
fn a_foreign_account_gets_neither_a_role_nor_a_token_and_blocks_only_cliques_that_wait() {
    let mut observed = in_order();
    observed.name_conflicts = vec![foreign::<SlimServiceAccount>("llm")];
    check(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            gangs: create PodGang llm-0
            cliques: create PodClique llm-0-prefill
            wait: NameConflict PodCliques that start after others are not created: ServiceAccount llm exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            wait: NameConflict ServiceAccount llm exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
    let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
    expect!["0 of 1 replicas are available; ServiceAccount llm exists and PodCliqueSet llm does not control it; rename or delete it to free the name"].assert_eq(&status.conditions[0].message);
}

#[test]
fn a_foreign_secret_blocks_only_cliques_that_wait() {
    let mut observed = in_order();
    observed.name_conflicts = vec![foreign::<SlimTokenSecret>("llm-ic-sat")];
    check(
        &observed,
        &expect![[r"
            revisions: create ControllerRevision llm-190a37f093cc17502
            services: create Service llm-0
            service-accounts: create ServiceAccount llm
            roles: create Role grove.io:pcs:llm
            role-bindings: create RoleBinding grove.io:pcs:llm
            gangs: create PodGang llm-0
            cliques: create PodClique llm-0-prefill
            wait: NameConflict PodCliques that start after others are not created: Secret llm-ic-sat exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            wait: NameConflict Secret llm-ic-sat exists and PodCliqueSet llm does not control it; rename or delete it to free the name
            requeue: after 10s
        "]],
    );
}

#[test]
fn an_identity_is_removed_with_the_last_dependency_when_no_pod_uses_it() {
    let mut observed = executed(in_order());
    observed.set.spec.template.clique_startup_type = CliqueStartupType::AnyOrder;
    assert!(observed.identity.undesired(&observed.set, &observed.children).is_some());
    check(
        &observed,
        &expect![[r#"
        cliques: patch PodClique llm-0-decode {"spec":{"startsAfter":null}}
        scale-in: delete Secret llm-ic-sat
        scale-in: delete RoleBinding grove.io:pcs:llm
        scale-in: delete Role grove.io:pcs:llm
        scale-in: delete ServiceAccount llm
    "#]],
    );
    observed.identity.is_in_use = true;
    check(
        &observed,
        &expect![[r#"
            cliques: patch PodClique llm-0-decode {"spec":{"startsAfter":null}}
            requeue: after 600s
        "#]],
    );
}

#[test]
fn a_change_to_projected_tokens_removes_the_account_and_the_secret() {
    let mut observed = executed(in_order());
    assert_eq!(observed.identity.undesired(&observed.set, &observed.children), None);
    observed.identity.token = StartupToken::Projected;
    assert!(observed.identity.undesired(&observed.set, &observed.children).is_some());
    check(
        &observed,
        &expect![[r#"
        role-bindings: patch RoleBinding grove.io:pcs:llm {"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"prod"}]}
        scale-in: delete Secret llm-ic-sat
        scale-in: delete ServiceAccount llm
    "#]],
    );
}
