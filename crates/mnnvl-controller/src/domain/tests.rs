//! When a domain is deleted and its finalizer removed: a table of needs and uses.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::finalizers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;

use super::observed::{DomainNeed, Observed, Release, Replica, SetReference};
use super::plan;

mod lists;
mod owners;
mod triggers;

fn replica() -> Replica {
    Replica { set: "llm".to_owned(), index: Some(0) }
}

fn unknown() -> DomainNeed {
    let metadata = ObjectMeta { name: Some("llm".to_owned()), ..ObjectMeta::default() };
    DomainNeed::Unknown(replica(), Box::new(SetReference { metadata }))
}

fn observed(need: DomainNeed, is_terminating: bool, is_used: bool, is_confirmed: bool) -> Observed {
    let mut domain = ComputeDomain::default();
    domain.metadata.name = Some("llm-0".to_owned());
    domain.metadata.uid = Some("u".to_owned());
    domain.metadata.resource_version = Some("7".to_owned());
    domain.metadata.finalizers = Some(vec!["driver".to_owned(), finalizers::COMPUTE_DOMAIN.to_owned()]);
    domain.metadata.deletion_timestamp = is_terminating.then_some(Time(Timestamp::UNIX_EPOCH));
    Observed { domain, need, is_used, is_confirmed }
}

#[test]
fn a_domain_is_released_only_if_no_set_and_no_pod_needs_it() {
    let needed: fn() -> DomainNeed = || DomainNeed::Needed(replica());
    let not_needed: fn() -> DomainNeed = || DomainNeed::NotNeeded(replica());
    for (need, is_terminating, released) in [
        (needed, false, Release::No),
        (needed, true, Release::Finalizer),
        (not_needed, false, Release::Deletion),
        (not_needed, true, Release::Finalizer),
        (unknown, false, Release::Deletion),
        (unknown, true, Release::Finalizer),
        (|| DomainNeed::Foreign, false, Release::Finalizer),
        (|| DomainNeed::Foreign, true, Release::Finalizer),
    ] {
        for (is_used, is_confirmed) in [(false, true), (false, false), (true, true), (true, false)] {
            let observed = observed(need(), is_terminating, is_used, is_confirmed);
            let expected = if !is_used && is_confirmed { released } else { Release::No };
            assert_eq!(observed.release(), expected, "{observed:?}");
        }
    }
}

#[test]
fn a_deletion_has_the_observed_version_and_only_the_finalizer_of_grove_is_removed() {
    let plan_of = |need, is_terminating| plan::plan(&observed(need, is_terminating, false, true)).to_string();
    expect_test::expect![[r"
        unused: delete ComputeDomain llm-0 at version 7
    "]]
    .assert_eq(&plan_of(DomainNeed::NotNeeded(replica()), false));
    expect_test::expect![[r#"
        finalizers: patch ComputeDomain llm-0 [{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/finalizers/1","value":"grove.io/computedomain-finalizer"},{"op":"remove","path":"/metadata/finalizers/1"}]
    "#]]
    .assert_eq(&plan_of(DomainNeed::Needed(replica()), true));
    let mut without = observed(DomainNeed::NotNeeded(replica()), false, false, true);
    without.domain.metadata.finalizers = Some(vec!["driver".to_owned()]);
    assert!(plan::plan(&without).is_empty(), "a domain without the finalizer may be one of a user");
}
