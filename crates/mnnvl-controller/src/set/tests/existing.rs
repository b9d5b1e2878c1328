//! Domains that exist: restored, deleted, or different from what the set needs.

use super::*;

/// A set with automatic domains, all of which exist.
fn existing(replicas: i32) -> Observed {
    executed(new(AUTO, replicas))
}

/// The plan has no write, and waits for nothing.
#[track_caller]
fn check_complete(observed: &Observed) {
    assert_eq!(plan_of(observed).to_string(), "nothing to do\n");
}

#[test]
fn a_domain_in_its_desired_state_causes_no_write_and_the_parts_of_the_driver_stay() {
    let mut observed = existing(1);
    check_complete(&observed);
    change(&mut observed, "llm-0", |domain| {
        domain.metadata.labels.get_or_insert_default().insert("resource.nvidia.com/x".to_owned(), "y".to_owned());
        domain.metadata.finalizers.get_or_insert_default().insert(0, "resource.nvidia.com/computeDomain".to_owned());
        domain.metadata.annotations = Some(grove_api_types::labels::of([("a", "b")]));
    });
    check_complete(&observed);
}

#[test]
fn edited_labels_owners_and_finalizers_are_restored() {
    let mut observed = existing(4);
    change(&mut observed, "llm-0", |domain| {
        let labels = domain.metadata.labels.get_or_insert_default();
        labels.insert("grove.io/podcliqueset-replica-index".to_owned(), "7".to_owned());
        labels.remove("app.kubernetes.io/part-of");
    });
    change(&mut observed, "llm-1", |domain| domain.metadata.finalizers = Some(vec!["other".to_owned()]));
    change(&mut observed, "llm-2", |domain| {
        domain.metadata.owner_references.get_or_insert_default()[0].block_owner_deletion = None;
    });
    change(&mut observed, "llm-3", |domain| domain.metadata.owner_references.get_or_insert_default().truncate(1));
    check(
        &observed,
        &expect![[r#"
            compute-domains: patch ComputeDomain llm-0 {"metadata":{"labels":{"app.kubernetes.io/part-of":"llm","grove.io/podcliqueset-replica-index":"0"},"resourceVersion":"7"}}
            compute-domains: patch ComputeDomain llm-1 {"metadata":{"finalizers":["other","grove.io/computedomain-finalizer"],"resourceVersion":"7"}}
            compute-domains: patch ComputeDomain llm-2 {"metadata":{"ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":false,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"},{"apiVersion":"v1","kind":"Namespace","name":"prod","uid":"u-namespace"}],"resourceVersion":"7"}}
            compute-domains: patch ComputeDomain llm-3 {"metadata":{"ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":false,"controller":true,"kind":"PodCliqueSet","name":"llm","uid":"u-set"},{"apiVersion":"v1","kind":"Namespace","name":"prod","uid":"u-namespace"}],"resourceVersion":"7"}}
        "#]],
    );
}

#[test]
fn a_domain_that_lost_the_reference_to_its_set_gets_it_back() {
    let mut observed = existing(1);
    change(&mut observed, "llm-0", |domain| domain.metadata.owner_references = None);
    let plan = plan_of(&observed);
    expect![[r#"
        compute-domains: adopt ComputeDomain llm-0
    "#]]
    .assert_eq(&plan.to_string());
    let Some(Step::Adopt(adopt)) = plan.steps().next() else { panic!("an adoption") };
    assert_eq!((adopt.owner.name.as_str(), adopt.owner.uid.as_deref()), ("llm", Some("u-set")));
}

#[test]
fn a_scale_out_creates_the_missing_domains() {
    let mut observed = existing(1);
    observed.set.spec.replicas = 3;
    check(
        &observed,
        &expect![[r#"
        compute-domains: create ComputeDomain llm-1
        compute-domains: create ComputeDomain llm-2
    "#]],
    );
}

#[test]
fn a_scale_in_deletes_no_domain_before_its_last_pod() {
    let mut observed = existing(3);
    observed.set.spec.replicas = 1;
    check_complete(&observed);
}

#[test]
fn a_terminating_domain_is_reported_and_not_created_again_before_its_deletion() {
    let mut observed = existing(2);
    change(&mut observed, "llm-1", |domain| domain.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
    check_complete(&observed);
    check_condition(
        &observed,
        &expect![[r#"
            ComputeDomainsCreated=False ComputeDomainTerminating: 2 of 2 ComputeDomains exist; these domains are being deleted, and NVIDIA's driver serves no pods with them; the next ones are created when no pod has a claim of these; delete the pods of their replicas to replace them: llm-1
        "#]],
    );
}

#[test]
fn a_wrong_spec_is_reported_because_it_is_immutable() {
    let mut observed = existing(2);
    change(&mut observed, "llm-0", |domain| domain.spec.num_nodes = 2);
    change(&mut observed, "llm-1", |domain| {
        domain.spec.channel.resource_claim_template.name = "other".to_owned();
    });
    check_complete(&observed);
    check_condition(
        &observed,
        &expect![[r#"
        ComputeDomainsCreated=False ComputeDomainSpecDiffers: 2 of 2 ComputeDomains exist; the specs of these domains are not those of Grove, and are immutable; delete the set and create it again: llm-0, llm-1
    "#]],
    );
}
