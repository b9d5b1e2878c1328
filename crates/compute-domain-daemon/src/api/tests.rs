//! The requests in HTTP, and what the state machine learns from the responses.

use expect_test::{Expect, expect};
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
use serde_json::{Value, json};

use super::*;

fn request(verb: Verb, target: Target) -> Request {
    let (namespace, name) = ("ns".to_owned(), "name".to_owned());
    Request { verb, target, namespace, name, body: json!({ "metadata": { "name": "name" } }) }
}

async fn send(
    request: Request,
    script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> (Answer, DaemonMetrics, Vec<RecordedRequest>) {
    let (client, log) = mock_api_server::client(script);
    let metrics = DaemonMetrics::new().unwrap();
    let answer = Api::new(client, metrics.clone()).send(request).await;
    (answer, metrics, log.requests())
}

#[tokio::test]
async fn each_verb_is_one_http_request() {
    let apply = Verb::Apply { field_manager: "cd-daemon-a".to_owned(), force: true };
    let mut lines = Vec::new();
    for (verb, target) in [
        (Verb::Get, Target::Clique),
        (Verb::Create, Target::Clique),
        (Verb::Replace, Target::Clique),
        (Verb::Replace, Target::DomainStatus),
        (apply.clone(), Target::Clique),
        (apply, Target::DomainStatus),
        (Verb::MergePatch, Target::Pod),
    ] {
        let object = json!({ "metadata": { "name": "name", "uid": "u" }, "daemons": [], "status": {} });
        let (answer, _, requests) = send(request(verb, target), move |_| MockResponse::ok(object.clone())).await;
        let [RecordedRequest { method, path, query, body }] = &requests[..] else { panic!("{requests:?}") };
        lines.push(format!("{method} {path}?{query} {body}\n"));
        let has_object = matches!(answer.response, Response::Success(Some(_)));
        assert_eq!(has_object, target != Target::Pod, "{:?}", answer.response);
    }
    expect![[r#"
        GET /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomaincliques/name? null
        POST /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomaincliques? {"metadata":{"name":"name"}}
        PUT /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomaincliques/name? {"metadata":{"name":"name"}}
        PUT /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomains/name/status? {"metadata":{"name":"name"}}
        PATCH /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomaincliques/name?&force=true&fieldManager=cd-daemon-a {"metadata":{"name":"name"}}
        PATCH /apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomains/name/status?&force=true&fieldManager=cd-daemon-a {"metadata":{"name":"name"}}
        PATCH /api/v1/namespaces/ns/pods/name? {"metadata":{"name":"name"}}
    "#]]
    .assert_eq(&lines.concat());
}

#[tokio::test]
async fn an_error_is_counted_by_its_code_and_has_its_delay() {
    let overloaded = json!({ "kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests",
        "message": "later", "details": { "retryAfterSeconds": 30 } });
    let rows: [(MockResponse, Expect); 6] = [
        (MockResponse::error(404, "NotFound"), expect!["404: NotFound, None"]),
        (MockResponse::error(409, "Conflict"), expect!["409: Conflict, None"]),
        (MockResponse::error(401, "Unauthorized"), expect!["401: Failure, None"]),
        (MockResponse::Json(429, overloaded), expect!["429: Failure, Some(30s)"]),
        // The API server does not serve the kind. The object may exist.
        (MockResponse::Text(404, "404 page not found"), expect!["404: Failure, None"]),
        (MockResponse::ConnectionReset, expect!["0: Failure, None"]),
    ];
    for (response, expected) in rows {
        let response = once(response);
        let (answer, metrics, _) = send(request(Verb::Replace, Target::Clique), move |_| response()).await;
        let codes = ["404", "409", "401", "429", "0"].into_iter();
        let code: String = codes.filter(|code| metrics.requests("update", "ComputeDomainClique", code) == 1).collect();
        expected.assert_eq(&format!("{code}: {:?}, {:?}", answer.response, answer.retry_after));
    }
}

/// Returns the response once.
fn once(response: MockResponse) -> impl Fn() -> MockResponse + Send + Sync {
    let response = std::sync::Mutex::new(Some(response));
    move || response.lock().unwrap().take().unwrap()
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_a_failure() {
    let odd: Value = json!({ "metadata": { "name": "name" }, "daemons": "none" });
    let (answer, ..) = send(request(Verb::Get, Target::Clique), move |_| MockResponse::ok(odd.clone())).await;
    assert_eq!(answer.response, Response::Failure);
}
