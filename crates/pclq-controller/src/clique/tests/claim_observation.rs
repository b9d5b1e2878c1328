//! The snapshot of claims: the annotation, the claims of set and scaling group, and the live reads of templates.

use std::sync::Arc;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::resource_claim::ResourceClaim;
use grove_api_types::resource_sharing::MAX_REFERENCES;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::manager::Manager;
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::snapshot;
use crate::claims::{ReferenceState, in_annotation, reference_state};
use crate::clique::Context;
use crate::informers;
use crate::startup::InitContainer;
use grove_controller::reconciler::reconcile;

/// The objects of a mock API server.
#[derive(Default)]
struct MockObjects {
    /// Each with the response to its GET.
    templates: Vec<(Value, MockTemplate)>,
    /// Whether lists of templates are forbidden.
    are_templates_forbidden: bool,
    claims: Vec<Value>,
}

/// An API server with this clique and these objects. It accepts all writes.
fn manager(clique: &PodClique, objects: MockObjects) -> (Manager, RequestLog) {
    let MockObjects { templates, are_templates_forbidden, claims } = objects;
    let clique = serde_json::to_value(clique).unwrap();
    let (client, log) = mock_api_server::client(move |request: &RecordedRequest| {
        if request.is_watch() {
            return MockResponse::Watch { events: vec![], stays_open: true };
        }
        if request.method != "GET" {
            let mut body = request.body.clone();
            body["metadata"]["uid"] = json!("uid-new");
            return MockResponse::ok(body);
        }
        if let Some((_, name)) = request.path.split_once("/resourceclaimtemplates/") {
            let found = templates.iter().find(|(metadata, _)| metadata["name"] == name);
            return match found.map(|(_, template)| template) {
                Some(MockTemplate::With(spec)) => {
                    MockResponse::ok(json!({ "metadata": { "managedFields": "any" }, "spec": spec }))
                }
                Some(MockTemplate::Error(code)) => MockResponse::error(*code, "SomeReason"),
                None => MockResponse::error(404, "NotFound"),
            };
        }
        if request.path.ends_with("/resourceclaimtemplates") && are_templates_forbidden {
            return MockResponse::error(403, "Forbidden");
        }
        let items = match request.path.rsplit('/').next() {
            Some("podcliques") => json!([clique]),
            Some("resourceclaims") => json!(claims),
            Some("resourceclaimtemplates") => {
                templates.iter().map(|(metadata, _)| json!({ "metadata": metadata })).collect::<Vec<_>>().into()
            }
            _ => json!([]),
        };
        MockResponse::ok(json!({ "metadata": { "resourceVersion": "9" }, "items": items }))
    });
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
    (Manager::new(&runtime).unwrap(), log)
}

enum MockTemplate {
    With(Value),
    Error(u16),
}

fn template(name: &str, template: MockTemplate) -> (Value, MockTemplate) {
    (json!({ "name": name, "namespace": "prod", "uid": "u" }), template)
}

fn clique(claims: &Value) -> PodClique {
    let mut clique = snapshot("{replicas: 2}").state.clique;
    clique.annotations_mut().insert("grove.io/resource-claims".to_owned(), claims.to_string());
    clique
}

fn own(template: &str) -> Value {
    json!({ "template": template, "scope": "PerReplica", "field": "f" })
}

/// The single requests of one reconcile, and whether it succeeded.
async fn reconciled(clique: &PodClique, templates: Vec<(Value, MockTemplate)>) -> (Vec<RecordedRequest>, bool) {
    reconciled_with(clique, MockObjects { templates, ..MockObjects::default() }).await
}

async fn reconciled_with(clique: &PodClique, objects: MockObjects) -> (Vec<RecordedRequest>, bool) {
    let (manager, log) = manager(clique, objects);
    let ctx = Context::new(&manager, informers::start(&manager, InitContainer::default()));
    assert!(manager.wait_for_cache_sync().await);
    let before = log.requests().len();
    let result = reconcile(Arc::new(clique.clone()), Arc::clone(&ctx)).await;
    let mut requests = log.requests().split_off(before);
    requests.retain(|request| !request.is_watch() && !request.path.contains("/events"));
    (requests, result.is_ok())
}

fn lines(requests: &[RecordedRequest]) -> Vec<String> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    requests.iter().map(|request| format!("{} {}", request.method, last(&request.path))).collect()
}

#[tokio::test]
async fn a_template_is_read_once_for_all_claims_that_are_created_from_it() {
    let spec = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "devices": { "fieldOfTheFuture": [1] } } });
    let clique = clique(&json!({ "claims": [own("gpus")] }));
    let (requests, succeeded) = reconciled(&clique, vec![template("gpus", MockTemplate::With(spec))]).await;
    assert!(succeeded);
    let expected = ["GET gpus", "POST resourceclaims", "POST resourceclaims", "POST pods", "POST pods"];
    assert_eq!(lines(&requests), expected);
    assert_eq!(requests[0].path, "/apis/resource.k8s.io/v1/namespaces/prod/resourceclaimtemplates/gpus");
    assert_eq!(requests[1].body["spec"], json!({ "devices": { "fieldOfTheFuture": [1] } }));
    assert_eq!(requests[1].body["metadata"]["labels"]["a"], "b");
}

#[tokio::test]
async fn a_missing_template_costs_no_request_and_no_pod_is_created() {
    for name in ["gpus", "../pods", ""] {
        let (requests, succeeded) = reconciled(&clique(&json!({ "claims": [own(name)] })), vec![]).await;
        assert!(succeeded);
        assert_eq!(lines(&requests), ["PATCH status"], "{name}");
        let text = requests[0].body.to_string();
        assert!(text.contains("ResourceClaimTemplateNotFound") && text.contains("in namespace prod"), "{text}");
    }
}

#[tokio::test]
async fn a_template_that_cannot_be_read_delays_its_claims_and_the_reconcile_is_retried() {
    let clique = clique(&json!({ "claims": [own("gpus")] }));
    for code in [403, 503] {
        let (requests, succeeded) = reconciled(&clique, vec![template("gpus", MockTemplate::Error(code))]).await;
        assert!(!succeeded);
        assert_eq!(lines(&requests), ["GET gpus", "PATCH status"]);
        assert!(requests[1].body.to_string().contains("could not be read"), "{}", requests[1].body);
    }
}

#[tokio::test]
async fn one_reconcile_reads_a_limited_number_of_templates() {
    let names: Vec<String> = (0..=MAX_REFERENCES).map(|at| format!("t-{at}")).collect();
    let clique = clique(&json!({ "claims": names.iter().map(|name| own(name)).collect::<Vec<_>>() }));
    let templates = names.iter().map(|name| template(name, MockTemplate::Error(403))).collect();
    let (requests, _) = reconciled(&clique, templates).await;
    assert_eq!(lines(&requests).iter().filter(|line| line.starts_with("GET")).count(), MAX_REFERENCES);
}

#[tokio::test]
async fn further_templates_are_read_unless_the_api_server_would_not_return_them_either() {
    let clique = clique(&json!({ "claims": [own("first"), own("second")] }));
    let spec = json!({ "spec": { "devices": {} } });
    for (code, expected) in [
        (403, vec!["GET first", "GET second", "POST resourceclaims", "POST resourceclaims"]),
        (500, vec!["GET first", "GET second", "POST resourceclaims", "POST resourceclaims"]),
        (503, vec!["GET first", "PATCH status"]),
    ] {
        let second = template("second", MockTemplate::With(spec.clone()));
        let templates = vec![template("first", MockTemplate::Error(code)), second];
        let (requests, succeeded) = reconciled(&clique, templates).await;
        assert!(!succeeded);
        assert_eq!(lines(&requests), expected, "{code}");
    }
}

#[tokio::test]
async fn without_permission_for_templates_none_is_reported_as_missing() {
    let templates = vec![template("gpus", MockTemplate::Error(403))];
    let clique = clique(&json!({ "claims": [own("gpus")] }));
    let objects = MockObjects { templates, are_templates_forbidden: true, ..MockObjects::default() };
    let (requests, succeeded) = reconciled_with(&clique, objects).await;
    assert!(succeeded);
    assert_eq!(lines(&requests), ["PATCH status"]);
    let text = requests[0].body.to_string();
    assert!(text.contains("ResourceClaimsForbidden") && !text.contains("ResourceClaimTemplateNotFound"), "{text}");
    assert!(text.contains("pclq-controller must not read ResourceClaimTemplates; apply its rules"), "{text}");
}

#[tokio::test]
async fn an_internal_template_is_not_read() {
    let claim = json!({ "template": "inline", "scope": "AllReplicas", "templateSpec": { "spec": { "devices": {} } } });
    let (requests, succeeded) = reconciled(&clique(&json!({ "claims": [claim] })), vec![]).await;
    assert!(succeeded);
    assert_eq!(lines(&requests), ["POST resourceclaims", "POST pods", "POST pods"]);
    assert_eq!(requests[0].body["metadata"]["name"], "llm-0-decode-all-inline");
}

#[test]
fn a_clique_that_had_claims_needs_its_annotation() {
    let claims = json!({ "references": ["llm-all-x"] });
    let names = |clique: &PodClique, has_claims: bool| {
        let claims = in_annotation(clique, has_claims).map_err(drop)?;
        Ok::<_, ()>(claims.references.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(names(&clique(&claims), true), Ok(vec!["llm-all-x".to_owned()]));
    let without = snapshot("").state.clique;
    assert_eq!(names(&without, false), Ok(vec![]));
    assert!(in_annotation(&without, true).unwrap_err().contains("grove.io/resource-claims is missing"));
    let condition = "{type: ResourceClaimsCreated, status: 'True', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}";
    let had = snapshot(&format!("{{status: {{conditions: [{condition}]}}}}")).state.clique;
    assert!(in_annotation(&had, false).is_err());
    let broken = in_annotation(&clique(&json!("text")), false).unwrap_err();
    assert!(broken.contains("annotation grove.io/resource-claims cannot be decoded"), "{broken}");
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true }])
}

/// An older pcs-controller writes no UID of the set.
#[tokio::test]
async fn a_clique_of_a_group_waits_while_the_claim_of_an_earlier_set_exists() {
    for (uid, creates) in [(json!("s"), false), (json!("earlier"), true), (Value::Null, true)] {
        let mut clique = clique(&json!({ "setUid": uid, "references": ["llm-all-x"] }));
        clique.metadata.owner_references =
            serde_json::from_value(owner("PodCliqueScalingGroup", "llm-0-g", "g")).unwrap();
        let owners = owner("PodCliqueSet", "llm", "earlier");
        let claim =
            json!({ "metadata": { "name": "llm-all-x", "namespace": "prod", "uid": "c", "ownerReferences": owners } });
        let objects = MockObjects { claims: vec![claim], ..MockObjects::default() };
        let (requests, _) = reconciled_with(&clique, objects).await;
        assert_eq!(lines(&requests).contains(&"POST pods".to_owned()), creates, "{uid}: {:?}", lines(&requests));
    }
}

#[tokio::test]
async fn a_clique_that_creates_no_claims_reads_no_template() {
    let spec = json!({ "spec": { "devices": {} } });
    let claims = json!({ "claims": [own("gpus")] });
    let mut terminating = clique(&claims);
    terminating.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    terminating.metadata.finalizers = Some(vec!["other".to_owned()]);
    let mut too_large = clique(&claims);
    too_large.spec.replicas = i32::MAX;
    for clique in [terminating, too_large] {
        let templates = vec![template("gpus", MockTemplate::With(spec.clone()))];
        let (requests, succeeded) = reconciled(&clique, templates).await;
        assert!(succeeded && !lines(&requests).contains(&"GET gpus".to_owned()), "{:?}", lines(&requests));
    }
}

#[test]
fn pods_use_only_claims_of_their_own_set_and_scaling_group() {
    let state = |clique_owner: &Value, claim_owner: &Value, is_terminating: bool| {
        let mut clique = snapshot("{labels: {grove.io/podcliquescalinggroup: llm-0-g}}").state.clique;
        clique.metadata.owner_references = serde_json::from_value(clique_owner.clone()).unwrap();
        let mut claim = ResourceClaim::default();
        claim.metadata.owner_references = serde_json::from_value(claim_owner.clone()).unwrap();
        claim.metadata.deletion_timestamp =
            is_terminating.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        reference_state(&clique, Some("s"), &claim)
    };
    let (set, group) = (owner("PodCliqueSet", "llm", "s"), owner("PodCliqueScalingGroup", "llm-0-g", "g"));
    for clique_owner in [&set, &group] {
        assert_eq!(state(clique_owner, &set, false), ReferenceState::Usable);
        assert_eq!(state(clique_owner, &group, false), ReferenceState::Usable);
        assert_eq!(state(clique_owner, &set, true), ReferenceState::Terminating);
    }
    let earlier_set = owner("PodCliqueSet", "llm", "earlier");
    assert_eq!(state(&set, &earlier_set, false), ReferenceState::NotControlled);
    assert_eq!(state(&group, &earlier_set, false), ReferenceState::NotControlled, "by the annotation");
    for other in [
        owner("PodCliqueSet", "other", "s"),
        owner("PodCliqueScalingGroup", "llm-0-h", "g"),
        owner("PodCliqueScalingGroup", "llm-0-g", "earlier"),
        owner("Pod", "llm", "s"),
        json!([]),
    ] {
        assert_eq!(state(&group, &other, false), ReferenceState::NotControlled, "{other}");
    }
}
