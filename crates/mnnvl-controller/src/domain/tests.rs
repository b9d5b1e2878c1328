//! When the finalizer of a domain is removed: a table of owners and uses.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use super::observed::{Confirmation, ConfirmationResult, Observed, Owner, Replica, SetReference};
use super::plan;

mod lists;
mod owners;
mod triggers;

fn active() -> Owner {
    Owner::Active(Replica { set: "llm".to_owned(), index: Some(0), base_gang: None })
}

fn not_cached() -> Owner {
    let metadata = ObjectMeta { name: Some("llm".to_owned()), ..ObjectMeta::default() };
    Owner::NotCached(Box::new(SetReference { metadata }))
}

fn observed(owner: Owner, is_terminating: bool, is_used: bool, confirmed: ConfirmationResult) -> Observed {
    let mut domain = ComputeDomain::default();
    domain.metadata.name = Some("llm-0".to_owned());
    domain.metadata.uid = Some("u".to_owned());
    domain.metadata.finalizers = Some(vec!["driver".to_owned(), finalizers::COMPUTE_DOMAIN.to_owned()]);
    domain.metadata.deletion_timestamp = is_terminating.then_some(Time(Timestamp::UNIX_EPOCH));
    Observed { domain, owner, is_used, confirmed }
}

fn removes(observed: &Observed) -> bool {
    !plan::plan(observed).is_empty()
}

#[test]
fn a_finalizer_is_removed_only_if_no_pod_needs_the_domain() {
    for (owner, is_terminating, is_used, asks, is_removed) in [
        // A domain that its set needs.
        (active as fn() -> Owner, false, true, false, false),
        (active, false, false, false, false),
        (active, true, true, false, false),
        (active, true, false, true, true),
        // A set that does not exist. The answer of the API server decides.
        (not_cached, false, false, true, true),
        (not_cached, true, false, true, true),
        // The deletion of the set, and a domain without a set, need no answer.
        (|| Owner::Terminating, false, false, false, true),
        (|| Owner::Terminating, true, true, false, true),
        (|| Owner::None, false, false, false, true),
        (|| Owner::None, true, false, false, true),
    ] {
        let case = format!("{:?} terminating: {is_terminating} used: {is_used}", owner());
        let confirmed = observed(owner(), is_terminating, is_used, ConfirmationResult::Yes);
        assert_eq!(confirmed.confirmation().is_some(), asks, "{case}");
        assert_eq!(removes(&confirmed), is_removed, "{case}");
        let unconfirmed = observed(owner(), is_terminating, is_used, ConfirmationResult::No);
        assert_eq!(removes(&unconfirmed), is_removed && !asks, "{case}, unconfirmed");
    }
}

#[test]
fn the_confirmation_names_the_set_or_the_replica() {
    let Some(Confirmation::SetDeleted(set)) =
        observed(not_cached(), true, false, ConfirmationResult::No).confirmation()
    else {
        panic!("the set is confirmed")
    };
    assert_eq!(set.metadata.name.as_deref(), Some("llm"));
    let confirmation = observed(active(), true, false, ConfirmationResult::No).confirmation();
    let Some(Confirmation::ReplicaUnused(replica)) = confirmation else { panic!("the replica is confirmed") };
    assert_eq!(replica.index, Some(0));
}

#[test]
fn a_domain_of_expected_cliques_is_read_again_later() {
    let plan = plan::plan(&observed(active(), true, false, ConfirmationResult::CliquesExpected)).to_string();
    expect_test::expect![[r"
        requeue: after 10s
    "]]
    .assert_eq(&plan);
}

#[test]
fn only_the_finalizer_of_grove_is_removed() {
    let patch = plan::plan(&observed(Owner::None, true, false, ConfirmationResult::No)).to_string();
    expect_test::expect![[r#"
        finalizers: patch ComputeDomain llm-0 [{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/finalizers/1","value":"grove.io/computedomain-finalizer"},{"op":"remove","path":"/metadata/finalizers/1"}]
    "#]].assert_eq(&patch);
    let mut without = observed(active(), true, false, ConfirmationResult::Yes);
    without.domain.metadata.finalizers = Some(vec!["driver".to_owned()]);
    assert!(without.confirmation().is_none() && !removes(&without));
}
