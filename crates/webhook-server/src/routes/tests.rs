//! What is sent, and what comes back.

use axum::body::{Bytes, to_bytes};
use futures::StreamExt;
use grove_api_types::configuration::OperatorConfiguration;
use grove_runtime::metrics::Metrics;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::answer::tests::cluster;

mod fuzzed;

struct Server {
    routes: Router,
    metrics: Metrics,
}

fn server() -> Server {
    serving(cluster(OperatorConfiguration::default(), &[]))
}

fn serving(cluster: Cluster) -> Server {
    let metrics = Metrics::new().unwrap();
    let counters = Counters::new(metrics.registry()).unwrap();
    let desk = Desk::new(cluster, counters);
    Server { routes: routes(&desk), metrics }
}

impl Server {
    async fn send(&self, question: Question, content_type: &str, body: Body) -> (u16, Bytes) {
        let request = HttpRequest::post(question.path()).header(header::CONTENT_TYPE, content_type);
        let response = self.routes.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        (status, to_bytes(response.into_body(), usize::MAX).await.unwrap())
    }

    async fn refused(&self, content_type: &str, body: impl Into<Body>) -> (u16, String) {
        let (status, body) = self.send(Question::ValidateSet, content_type, body.into()).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn counts(&self, line: &str) -> bool {
        self.metrics.render().unwrap().contains(line)
    }
}

fn review(object: &Value) -> String {
    let request = json!({ "uid": "7", "operation": "CREATE", "object": object });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string()
}

const JSON: &str = "application/json";

#[tokio::test]
async fn a_question_is_answered_under_its_uid() {
    let server = server();
    let topology = json!({ "metadata": { "name": "t" }, "spec": { "levels": [
        { "domain": "rack", "key": "r", "newer": true }, { "domain": "zone", "key": "z" },
    ] } });
    let (status, body) =
        server.send(Question::DefaultTopology, "application/json; charset=utf-8", review(&topology).into()).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &answer["response"]["uid"], &answer["response"]["allowed"]), (200, &json!("7"), &json!(true)));
    assert_eq!(answer["response"]["patchType"], json!("JSONPatch"));
    assert!(server.counts(r#"reviews_total{outcome="changed",webhook="default-clustertopology"} 1"#));
}

#[tokio::test]
async fn whatever_else_is_sent_is_answered_too() {
    let server = server();
    assert_eq!(server.refused("text/plain", "{}").await.0, 415);
    assert_eq!(server.refused(JSON, "{").await.0, 400);
    assert!(server.refused(JSON, "[1]").await.1.starts_with("the body is no AdmissionReview"));
    let nested = [vec![b'['; 1 << 19], vec![b']'; 1 << 19]].concat();
    assert_eq!(server.refused(JSON, nested).await.0, 400);
    assert_eq!(
        server.refused(JSON, vec![b' '; LARGEST + 1]).await,
        (413, "a review may have 8388608 bytes".to_owned())
    );
    let chunks = futures::stream::iter(0..9).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
    assert_eq!(server.refused(JSON, Body::from_stream(chunks)).await.0, 413);
    assert_eq!(
        server.refused(JSON, r#"{"":0},"#.repeat(1 << 20)).await,
        (413, "the review consists of too many small parts".to_owned())
    );
    assert!(server.counts(r#"reviews_total{outcome="too-large",webhook="validate-podcliqueset"} 3"#));
    assert!(server.counts(r#"reviews_total{outcome="malformed",webhook="validate-podcliqueset"} 4"#));
    assert!(server.counts("reviews_in_flight 0") && server.counts("review_bytes_in_flight 0"));
}

fn never() -> Body {
    Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>())
}

#[tokio::test(start_paused = true)]
async fn what_is_large_and_never_comes_takes_no_more_than_its_room() {
    let server = server();
    let large = vec![b' '; 100_000];
    let (first, second, third, small) = tokio::join!(
        server.refused(JSON, never()),
        server.refused(JSON, never()),
        server.refused(JSON, large),
        async {
            let (status, _) = server.send(Question::DefaultSet, JSON, review(&json!({})).into()).await;
            assert!(server.counts("review_bytes_in_flight 16777216"), "two may come, each of any size");
            status
        }
    );
    let full = "there was no room for the review within 5s, as others are large; try again".to_owned();
    assert_eq!((first.0, second.0, third, small), (408, 408, (503, full), 200));
    assert!(server.counts(r#"reviews_total{outcome="busy",webhook="validate-podcliqueset"} 1"#));
    assert!(server.counts("review_bytes_in_flight 0"));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_finish_sending_is_answered_in_time() {
    let server = server();
    let (status, text) = server.refused(JSON, never()).await;
    assert_eq!((status, text.as_str()), (408, "the review did not arrive within 10s"));
}

#[tokio::test]
async fn refusals_are_counted_by_rule() {
    let server = server();
    let cliques = json!([{ "name": "Front", "spec": { "podSpec": { "containers": [] } } }]);
    let set = json!({ "metadata": { "name": "a.b" }, "spec": { "template": { "cliques": cliques } } });
    let (status, body) = server.send(Question::ValidateSet, JSON, review(&set).into()).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(false)), "{answer}");
    assert!(server.counts(r#"refusals_total{rule="set-name"} 1"#) && server.counts(r#"rule="clique-name"} 1"#));
}

#[tokio::test]
async fn a_panic_ends_one_request() {
    let server = server();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let broken = futures::stream::once(async { panic!("what reads it goes wrong") });
    let broken = broken.map(Ok::<Vec<u8>, std::io::Error>);
    let (panicked, next) =
        tokio::join!(server.refused(JSON, Body::from_stream(broken)), server.refused(JSON, review(&json!({}))));
    std::panic::set_hook(hook);
    assert_eq!(panicked, (500, "the review panicked; the log of the webhook server says where".to_owned()));
    assert_eq!(next.0, 200, "who asks at the same time is answered");
    assert!(server.counts(r#"reviews_total{outcome="panicked",webhook="validate-podcliqueset"} 1"#));
    assert!(server.counts("reviews_in_flight 0") && server.counts("review_bytes_in_flight 0"));
}
