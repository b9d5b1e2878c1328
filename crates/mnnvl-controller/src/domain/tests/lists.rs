//! The lists of cliques and pods. They begin after the first list of domains, so a domain may be reconciled before them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::finalizers;
use grove_controller::manager::Manager;
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use serde_json::{Value, json};

use crate::domain::DomainContext;
use crate::domain::run;
use crate::informers::MnnvlCaches;

fn list(items: &[&Value]) -> MockResponse {
    MockResponse::ok(json!({ "metadata": { "resourceVersion": "9" }, "items": items }))
}

/// An API server with a set that needs no domain any more, and its domain. The kind of the domain is served after the first request.
/// The first live read of the kind `plural` returns an object that uses the domain. The object ends before the first list of the
/// informer. The other informers of cliques and pods fail.
fn manager(plural: &'static str) -> (Manager, RequestLog) {
    let (is_served, was_read) = (AtomicBool::new(false), AtomicBool::new(false));
    let meta = json!({ "name": "llm", "namespace": "prod", "uid": "u-set" });
    let set = json!({ "metadata": meta, "spec": { "replicas": 0, "template": { "cliques": [] } } });
    let owner = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "llm", "uid": "u-set",
        "controller": true });
    let labels = json!({ "app.kubernetes.io/part-of": "llm", "grove.io/podcliqueset-replica-index": "0" });
    let claims = json!([{ "name": "mnnvl-claim", "resourceClaimTemplateName": "llm-0" }]);
    let user = json!({ "metadata": { "name": "a", "namespace": "prod", "labels": labels, "ownerReferences": [owner] },
        "spec": { "resourceClaims": claims } });
    let mut domain = json!({ "spec": { "numNodes": 0, "channel": { "resourceClaimTemplate": { "name": "llm-0" } } } });
    domain["metadata"] = json!({ "name": "llm-0", "namespace": "prod", "uid": "u", "resourceVersion": "7",
        "labels": labels, "ownerReferences": [owner], "finalizers": [finalizers::COMPUTE_DOMAIN] });
    let (client, log) = mock_api_server::client(move |request: &RecordedRequest| {
        let (kind, is_live_read) = (request.path.rsplit('/').next(), request.query.contains("labelSelector"));
        match kind.unwrap_or_default() {
            _ if request.is_watch() => MockResponse::Watch { events: vec![], stays_open: true },
            _ if ["DELETE", "PATCH"].contains(&request.method.as_str()) => MockResponse::ok(domain.clone()),
            "computedomains" if !is_served.swap(true, Ordering::SeqCst) => MockResponse::error(404, "NotFound"),
            "computedomains" => list(&[&domain]),
            "podcliquesets" => list(&[&set]),
            kind if kind == plural && is_live_read && !was_read.swap(true, Ordering::SeqCst) => list(&[&user]),
            kind if kind == plural && was_read.load(Ordering::SeqCst) => list(&[]),
            "podcliques" | "pods" if !is_live_read => MockResponse::error(500, "InternalError"),
            _ => list(&[]),
        }
    });
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).expect("a runtime");
    (Manager::new(&runtime).expect("a manager"), log)
}

#[tokio::test(start_paused = true)]
async fn a_list_releases_a_domain_that_is_no_longer_used() {
    for plural in ["pods", "podcliques"] {
        let (manager, log) = manager(plural);
        let ctx = DomainContext::new(&manager, MnnvlCaches::start(&manager));
        let is_deleted = async {
            tokio::time::sleep(Duration::from_mins(10)).await;
            log.count(|request| request.method == "DELETE" && request.path.ends_with("/llm-0")) > 0
        };
        tokio::select! {
            () = run(&manager, ctx) => panic!("the controller ended"),
            is_deleted = is_deleted => assert!(is_deleted, "{plural}: {:?}", log.methods_and_names()),
        }
    }
}
