//! Reconciles with caches that are older than the API server.

use grove_controller::events::EventBroadcaster;
use grove_runtime::caches::{Index, InformerOptions};
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use kube::Resource;

use super::super::informers::{BY_UID, CLIQUES_BY_DOMAIN, StateCaches};
use super::super::objects::by_domain;
use super::*;

fn cache<K: Resource<DynamicType = ()> + DeserializeOwned>(index: Index<K>, objects: &[Value]) -> Cache<K> {
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(index));
    writer.replace(objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect());
    cache
}

/// The requests of a reconcile of the domain with these cached cliques and pods. The API server lists these pods, and this domain.
async fn requests(
    domain: SyncedDomain,
    (cliques, cached_pods): (&[Value], &[Value]),
    (pods, listed_domain): (Vec<Value>, Value),
) -> RequestLog {
    let (client, log) = mock_api_server::client(move |request: &RecordedRequest| {
        let list =
            |items: &[Value]| MockResponse::ok(json!({ "metadata": { "resourceVersion": "9" }, "items": items }));
        match (request.method.as_str(), request.path.rsplit('/').next()) {
            ("GET", Some("pods")) => list(&pods),
            ("GET", Some("computedomains")) => list(std::slice::from_ref(&listed_domain)),
            _ => MockResponse::ok(request.body.clone()),
        }
    });
    let metadata = |name: &str| json!({ "metadata": { "namespace": "grove-system", "name": name, "labels": { "resource.nvidia.com/computeDomain": "u" } } });
    let caches = StateCaches {
        domains: cache(BY_UID, &[json!(domain)]),
        cliques: cache(CLIQUES_BY_DOMAIN, cliques),
        pods: cache(by_domain(), cached_pods),
        daemon_sets: cache(by_domain(), &[metadata("computedomain-daemon-u")]),
        claim_templates: cache(by_domain(), &[]),
        nodes: cache(by_domain(), &[]),
    };
    let executor = Executor::new(client.clone(), EventBroadcaster::discarding(), Metrics::new().unwrap());
    let ctx = StateSyncContext { caches, executor, client, settings: settings(false) };
    reconcile(Arc::new(domain), Arc::new(ctx)).await.unwrap();
    log
}

fn writes_of(log: &RequestLog, plural: &str) -> usize {
    log.count(|request| request.method != "GET" && request.path.contains(plural))
}

/// The cache lacks the second pod.
#[tokio::test]
async fn a_live_list_of_the_pods_decides_which_entries_are_removed() {
    let pods = [pod(0, "f.7", true), pod(1, "f.7", true)];
    for strategy in [Strategy::RmwClique, Strategy::SsaClique, Strategy::ControllerClique] {
        for (live, writes) in [(&pods[..], 0), (&pods[..1], 1)] {
            let caches = (&[clique("f.7", &[0, 1])][..], &pods[..1]);
            let log = requests(domain(strategy), caches, (live.to_vec(), json!({}))).await;
            assert_eq!(writes_of(&log, "computedomaincliques"), writes, "{strategy:?}: {:?}", log.methods_and_names());
        }
    }
}

/// Nothing is read if the caches explain each entry.
#[tokio::test]
async fn a_settled_domain_causes_no_list_of_pods() {
    let pods = [pod(0, "f.7", true), pod(1, "f.7", true)];
    for (_, strategy) in Strategy::ALL {
        let log = requests(domain(strategy), (&[clique("f.7", &[0, 1])], &pods), (vec![], json!({}))).await;
        assert_eq!(log.count(|request| request.path.ends_with("/pods")), 0, "{strategy:?}");
    }
}

/// Before `status.status` changes, the managed fields show whether another manager writes it.
#[tokio::test]
async fn another_manager_is_found_before_the_status_changes() {
    let pods = [pod(0, "f.7", true), pod(1, "f.7", false)];
    let mut ready = domain(Strategy::ControllerClique);
    ready.status =
        serde_json::from_value(json!({ "status": "Ready", "cliques": [{ "id": "f.7", "status": "Ready" }] })).unwrap();
    for (manager, writes) in [("mnnvl-controller", 1), ("compute-domain-controller", 0)] {
        let fields = json!([{ "manager": manager, "subresource": "status", "operation": "Update",
            "fieldsV1": { "f:status": { "f:status": {} } } }]);
        let listed = json!({ "metadata": { "name": "llm-0", "namespace": "team", "managedFields": fields } });
        let caches = (&[clique("f.7", &[0, 1])][..], &pods[..]);
        let log = requests(ready.clone(), caches, (vec![], listed)).await;
        assert_eq!(writes_of(&log, "computedomains"), writes, "{manager}: {:?}", log.methods_and_names());
    }
}
