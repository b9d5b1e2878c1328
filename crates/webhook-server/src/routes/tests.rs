//! HTTP requests and responses.

use axum::body::{Bytes, to_bytes};
use futures::StreamExt;
use futures::future::join_all;
use grove_api_types::configuration::OperatorConfiguration;
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
use http_body_util::Limited;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;
use crate::admit::tests::cluster;
use crate::memory_budget::MAX_BODIES;

mod fuzzed;
mod references;
mod templates;

struct Server {
    routes: Router,
    metrics: Metrics,
}

fn server() -> Server {
    server_with(cluster(OperatorConfiguration::default(), &[]))
}

fn server_with(cluster: ClusterFacts) -> Server {
    let metrics = Metrics::new().unwrap();
    let state = WebhookState::new(cluster, reviewing_client(), WebhookMetrics::new(metrics.registry()).unwrap());
    Server { routes: routes(&state), metrics }
}

/// An API server on which users may get all templates of the namespace `shared`, and no others.
fn reviewing_client() -> Client {
    let (client, _) = mock_api_server::client(|request: &RecordedRequest| {
        let mut review = request.body.clone();
        let allowed = review["spec"]["resourceAttributes"]["namespace"] == "shared";
        review["status"] = json!({ "allowed": allowed });
        MockResponse::ok(review)
    });
    client
}

impl Server {
    async fn send(&self, webhook: Webhook, content_type: &str, body: Body) -> (u16, Bytes) {
        let request = Request::post(webhook.path()).header(header::CONTENT_TYPE, content_type);
        let response = self.routes.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        (status, to_bytes(response.into_body(), usize::MAX).await.unwrap())
    }

    async fn rejected(&self, content_type: &str, body: impl Into<Body>) -> (u16, String) {
        let (status, body) = self.send(Webhook::ValidateSet, content_type, body.into()).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn has_metric(&self, line: &str) -> bool {
        self.metrics.render().unwrap().contains(line)
    }

    /// Whether no request is in flight, and no byte of a body is in memory.
    fn is_idle(&self) -> bool {
        let metrics = self.metrics.render().unwrap();
        let is_gauge = |line: &&str| line.starts_with("controller_runtime_webhook_requests_in_flight{");
        let gauges: Vec<_> = metrics.lines().filter(is_gauge).collect();
        let has_no_request = !gauges.is_empty() && gauges.iter().all(|line| line.ends_with("} 0"));
        has_no_request && metrics.contains("grove_webhook_request_bytes_in_flight 0")
    }
}

fn review(object: &Value) -> String {
    let request = json!({ "uid": "7", "operation": "CREATE", "object": object });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string()
}

const JSON: &str = "application/json";

#[tokio::test]
async fn a_response_has_the_uid_of_its_request() {
    let server = server();
    let topology = json!({ "metadata": { "name": "t" }, "spec": { "levels": [
        { "domain": "rack", "key": "r", "newer": true }, { "domain": "zone", "key": "z" },
    ] } });
    let (status, body) =
        server.send(Webhook::DefaultTopology, "application/json; charset=utf-8", review(&topology).into()).await;
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &review["response"]["uid"], &review["response"]["allowed"]), (200, &json!("7"), &json!(true)));
    assert_eq!(review["response"]["patchType"], json!("JSONPatch"));
    assert!(server.has_metric(r#"decisions_total{decision="patched",webhook="/webhooks/default-clustertopology"} 1"#));
    assert!(server.has_metric(r#"requests_total{code="200",webhook="/webhooks/default-clustertopology"} 1"#));
}

#[tokio::test]
async fn an_invalid_request_gets_a_4xx_response() {
    let server = server();
    assert_eq!(server.rejected("text/plain", "{}").await.0, 415);
    assert_eq!(server.rejected(JSON, "{").await.0, 400);
    assert!(server.rejected(JSON, "[1]").await.1.starts_with("the body is not an AdmissionReview"));
    let nested = [vec![b'['; 1 << 19], vec![b']'; 1 << 19]].concat();
    assert_eq!(server.rejected(JSON, nested).await.0, 400);
    assert_eq!(
        server.rejected(JSON, vec![b' '; MAX_REVIEW_BYTES + 1]).await,
        (413, "a review may have 8388608 bytes".to_owned())
    );
    let chunks = futures::stream::iter(0..9).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
    assert_eq!(server.rejected(JSON, Body::from_stream(chunks)).await.0, 413);
    assert_eq!(
        server.rejected(JSON, r#"{"":0},"#.repeat(1 << 20)).await,
        (413, "the review consists of too many small parts".to_owned())
    );
    for (code, times) in [(400, 3), (413, 3), (415, 1)] {
        let line = format!(r#"requests_total{{code="{code}",webhook="/webhooks/validate-podcliqueset"}} {times}"#);
        assert!(server.has_metric(&line), "{line}");
    }
    assert!(server.is_idle());
}

fn endless_body() -> Body {
    Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>())
}

/// A body with this `Content-Length`, of which no byte arrives.
fn unfinished_body(bytes: usize) -> Body {
    Body::new(Limited::new(endless_body(), bytes))
}

#[tokio::test(start_paused = true)]
async fn unfinished_large_bodies_use_at_most_their_part_of_the_memory_budget_for_a_second() {
    let server = server();
    let start = Instant::now();
    let (first, second, third, small) = tokio::join!(
        server.rejected(JSON, endless_body()),
        server.rejected(JSON, endless_body()),
        async {
            let (status, _) = server.rejected(JSON, vec![b' '; 100_000]).await;
            (status, start.elapsed().as_secs())
        },
        async {
            let (status, _) = server.send(Webhook::DefaultSet, JSON, review(&json!({})).into()).await;
            assert!(server.has_metric("request_bytes_in_flight 16777216"), "the budget is two bodies of any size");
            (status, start.elapsed().as_secs())
        }
    );
    assert_eq!((first.0, second.0, third, small), (408, 408, (400, 1), (200, 0)));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_large_body_waits_five_seconds_for_the_memory_budget() {
    let server = server();
    // Each of them arrives slowly, but without a long pause.
    let slow = || {
        let parts = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        Body::from_stream(parts)
    };
    let (first, second, third) = tokio::join!(
        server.rejected(JSON, slow()),
        server.rejected(JSON, slow()),
        server.rejected(JSON, vec![b' '; 100_000]),
    );
    let full = "other large reviews used the memory budget for 5s; try again".to_owned();
    assert_eq!((first.0, second.0, third), (408, 408, (503, full)));
    assert!(server.has_metric(r#"requests_total{code="503",webhook="/webhooks/validate-podcliqueset"} 1"#));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_of_any_number_do_not_block_a_review() {
    let server = server();
    let unfinished = join_all((0..2 * MAX_BODIES).map(|_| server.rejected(JSON, unfinished_body(100))));
    let (responses, ()) = tokio::join!(unfinished, async {
        for webhook in Webhook::ALL {
            let start = Instant::now();
            assert_eq!(server.send(webhook, JSON, review(&json!({})).into()).await.0, 200, "{webhook:?}");
            assert!(start.elapsed() < Duration::from_secs(3), "{webhook:?} waits for other requests");
        }
    });
    assert!(responses.iter().all(|(code, _)| [408, 503].contains(code)));
    assert!(server.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_gets_a_timeout_response() {
    let server = server();
    let (status, text) = server.rejected(JSON, unfinished_body(100)).await;
    assert_eq!((status, text.as_str()), (408, "the review did not arrive within 10s"));
}

#[tokio::test]
async fn rule_violations_are_counted_by_rule() {
    let server = server();
    let cliques = json!([{ "name": "Front", "spec": { "podSpec": { "containers": [] } } }]);
    let set = json!({ "metadata": { "name": "a.b" }, "spec": { "template": { "cliques": cliques } } });
    let (status, body) = server.send(Webhook::ValidateSet, JSON, review(&set).into()).await;
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &review["response"]["allowed"]), (200, &json!(false)), "{review}");
    assert!(
        server.has_metric(r#"rule_violations_total{rule="set-name"} 1"#)
            && server.has_metric(r#"rule="clique-name"} 1"#)
    );
}

#[tokio::test]
async fn a_panic_ends_one_request() {
    let server = server();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let broken = futures::stream::once(async { panic!("the body panics") });
    let broken = broken.map(Ok::<Vec<u8>, std::io::Error>);
    let (panicked, next) =
        tokio::join!(server.rejected(JSON, Body::from_stream(broken)), server.rejected(JSON, review(&json!({}))));
    std::panic::set_hook(hook);
    assert_eq!(panicked, (500, "the review panicked; the log of the webhook server contains the reason".to_owned()));
    assert_eq!(next.0, 200, "the concurrent request succeeds");
    assert!(server.has_metric(r#"requests_total{code="500",webhook="/webhooks/validate-podcliqueset"} 1"#));
    assert!(server.is_idle());
}
