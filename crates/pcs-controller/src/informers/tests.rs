//! A manager with a mock API server, for tests that read the caches of this service.

use grove_api_types::configuration::OperatorConfiguration;
use grove_controller::manager::Manager;
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use serde_json::{Value, json};

/// A manager. The API server has only these objects, each with the plural name of its kind, and they never change.
pub(crate) fn manager_with<const N: usize>(objects: [(&'static str, Value); N]) -> Manager {
    manager_responding(objects, |_| None).0
}

/// As [`manager_with`]. The API server has another response to some requests, and it stores each created object.
pub(crate) fn manager_responding(
    objects: impl IntoIterator<Item = (&'static str, Value)>,
    response: impl Fn(&RecordedRequest) -> Option<MockResponse> + Send + Sync + 'static,
) -> (Manager, RequestLog) {
    let objects: Vec<_> = objects.into_iter().collect();
    let (client, log) = mock_api_server::client(move |request: &RecordedRequest| {
        if request.is_watch() {
            return MockResponse::Watch { events: vec![], stays_open: true };
        }
        if let Some(response) = response(request) {
            return response;
        }
        if request.method != "GET" {
            let mut body = request.body.clone();
            body["metadata"]["uid"] = json!("uid-new");
            return MockResponse::ok(body);
        }
        let of_kind = objects.iter().filter(|(plural, _)| request.path.rsplit('/').next() == Some(*plural));
        let items: Vec<_> = of_kind.map(|(_, object)| object).collect();
        MockResponse::ok(json!({ "metadata": { "resourceVersion": "9" }, "items": items }))
    });
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).expect("a runtime");
    (Manager::new(&runtime).expect("a manager"), log)
}

/// A clique that this object controls.
pub(crate) fn clique_of(kind: &str, owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    let reference = json!({ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": metadata["name"],
        "uid": metadata["uid"], "controller": true });
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
        "metadata": { "name": "a", "namespace": metadata["namespace"], "uid": "u-a", "ownerReferences": [reference] },
        "spec": { "roleName": "r", "replicas": 1, "podSpec": { "containers": [] } },
    })
}
