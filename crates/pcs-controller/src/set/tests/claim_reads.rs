//! The live reads of the templates of a set.

use std::sync::Arc;

use grove_api_types::resource_sharing::MAX_REFERENCES;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::plan::Waiting;
use grove_test_support::mock_api_server::{MockResponse, RecordedRequest};
use serde_json::json;

use super::claims::SHARING;
use super::{new, plan};
use crate::informers::PcsCaches;
use crate::informers::tests::manager_responding;
use crate::set::Context;
use crate::set::observed::Observed;
use crate::tests::yaml;
use grove_controller::reconciler::reconcile;

/// A set with claims of these external templates.
fn set_with_templates(names: &[&str]) -> PodCliqueSet {
    let mut set: PodCliqueSet = yaml(SHARING);
    let shares: Vec<_> = names.iter().map(|name| json!({ "name": name, "scope": "AllReplicas" })).collect();
    set.spec.template.resource_sharing = serde_json::from_value(json!(shares)).unwrap();
    set
}

/// The single requests of one reconcile while these templates exist, and whether it succeeded. A GET of a template gets an error with `code`.
async fn reconciled(set: &PodCliqueSet, templates: &[&str], code: u16) -> (Vec<RecordedRequest>, bool) {
    let namespace = set.metadata.namespace.as_deref();
    let template = |name: &&str| {
        let metadata = json!({ "name": name, "namespace": namespace, "uid": name, "resourceVersion": "1" });
        ("resourceclaimtemplates", json!({ "metadata": metadata, "spec": {} }))
    };
    let set_object = ("podcliquesets", serde_json::to_value(set).unwrap());
    let objects = templates.iter().map(template).chain([set_object]).collect::<Vec<_>>();
    let (manager, log) = manager_responding(objects, move |request| {
        request.path.contains("/resourceclaimtemplates/").then(|| MockResponse::error(code, "SomeReason"))
    });
    let caches = PcsCaches::start(&manager).expect("the caches");
    let ctx = Context::new(&manager, caches.clone());
    assert!(manager.wait_for_cache_sync().await);
    let before = log.requests().len();
    let result = reconcile(Arc::new(set.clone()), Arc::clone(&ctx)).await;
    (log.requests().split_off(before), result.is_ok())
}

fn with_method<'r>(requests: &'r [RecordedRequest], method: &str) -> Vec<&'r str> {
    let of_method = requests.iter().filter(|request| request.method == method && !request.is_watch());
    of_method.filter_map(|request| request.path.rsplit('/').next()).filter(|resource| *resource != "events").collect()
}

#[tokio::test]
async fn a_template_that_cannot_be_read_delays_only_its_claims_and_the_reconcile_is_retried() {
    for (code, reads) in [(403, vec!["first", "second"]), (500, vec!["first", "second"]), (503, vec!["first"])] {
        let (requests, succeeded) =
            reconciled(&set_with_templates(&["first", "second"]), &["first", "second"], code).await;
        assert!(!succeeded, "{code}");
        assert_eq!(with_method(&requests, "GET"), reads, "after an outage no further template is read");
        let created = with_method(&requests, "POST");
        assert!(created.contains(&"podgangs") && created.contains(&"podcliquescalinggroups"), "{created:?}");
        assert!(!created.contains(&"resourceclaims"), "{created:?}");
    }
}

#[tokio::test]
async fn a_template_that_the_cache_lacks_is_not_read() {
    let (requests, succeeded) = reconciled(&set_with_templates(&["first", "second"]), &["second"], 403).await;
    assert!(!succeeded);
    assert_eq!(with_method(&requests, "GET"), ["second"]);
}

#[tokio::test]
async fn one_reconcile_reads_a_limited_number_of_templates() {
    let names: Vec<String> = (0..=MAX_REFERENCES).map(|at| format!("t-{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (requests, _) = reconciled(&set_with_templates(&names), &names, 403).await;
    assert_eq!(with_method(&requests, "GET").len(), MAX_REFERENCES);
}

#[tokio::test]
async fn a_terminating_set_reads_no_template() {
    let mut set = set_with_templates(&["first"]);
    set.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    set.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned()]);
    let (requests, _) = reconciled(&set, &["first"], 503).await;
    assert_eq!(with_method(&requests, "GET"), Vec::<&str>::new());
}

#[test]
fn a_set_above_the_object_limit_reads_no_template() {
    let mut observed = Observed { set: set_with_templates(&["first"]), ..new(SHARING) };
    assert_eq!(observed.templates_to_read().len(), 1);
    observed.set.spec.replicas = 100_000;
    assert!(observed.exceeded_limit().is_some());
    assert!(observed.templates_to_read().is_empty());
}

#[test]
fn while_templates_cannot_be_read_only_the_claims_that_need_one_wait() {
    let mut observed = new(SHARING);
    observed.claims.unavailable_templates = Some(Waiting::new("ResourceClaimsForbidden", "apply the rules"));
    assert!(observed.templates_to_read().is_empty());
    let plan = plan(&observed);
    let claims: Vec<_> = plan.steps().filter(|step| step.target().resource.kind == "ResourceClaim").collect();
    assert_eq!(
        claims.iter().map(|step| step.target().name.as_str()).collect::<Vec<_>>(),
        ["llm-0-inner", "llm-1-inner"]
    );
    let waiting: Vec<_> = plan.waiting.iter().map(ToString::to_string).collect();
    assert_eq!(waiting, ["ResourceClaimsForbidden apply the rules"]);
}
