//! Traces of a reconcile: one span for the reconcile with the object's key, and below it one span for each write.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use futures::{StreamExt, stream};
use grove_api_types::configuration::OperatorConfiguration;
use grove_controller::{
    controller::ControllerBuilder,
    manager::Manager,
    plan::{Plan, Stage, Step},
    requeue::Requeue,
};
use grove_runtime::{
    caches::{Cache, Delta},
    client::{self, Clients},
    runtime::Runtime,
    telemetry::{ServiceIdentity, settings::TraceSettings, traces::Traces},
};
use grove_test_support::mock_api_server::{self, MockResponse, config_map};
use k8s_openapi::api::core::v1::ConfigMap;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue as Attribute, any_value},
    trace::v1::Span,
};
use prost::Message;
use tokio::{net::TcpListener, task::spawn_blocking};
use tracing_subscriber::{prelude::*, registry};

const IDENTITY: ServiceIdentity<'_> =
    ServiceIdentity { service: "test-controller", version: "1.2.3", instance: "test-0" };
const FAILED: i32 = 2;

fn settings(endpoint: &str) -> TraceSettings {
    client::install_crypto_provider();
    TraceSettings { endpoint: endpoint.to_owned(), timeout: Duration::from_secs(30), warning: None }
}

/// A listener on a free port, and the endpoint that leads to it.
async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// The endpoint of a collector, and the bodies of the requests that it receives.
async fn collector() -> (String, mpsc::Receiver<Bytes>) {
    let (listener, endpoint) = listener().await;
    let (sender, received) = mpsc::channel();
    let take = |State(sender): State<mpsc::Sender<Bytes>>, body: Bytes| async move { sender.send(body).unwrap() };
    let routes = Router::new().route("/v1/traces", post(take)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (endpoint, received)
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, 1, "owner")).unwrap()
}

/// Reconciles one object by two writes, of which the server rejects one.
async fn reconcile_once() {
    let (client, _) = mock_api_server::client(|request| match request.method.as_str() {
        "POST" => MockResponse::ok(config_map("child", 1, "owner")),
        _ => MockResponse::error(403, "Forbidden"),
    });
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
    let manager = Manager::new(&runtime).unwrap();
    let created = Delta { old: None, new: Some(Arc::new(map("subject"))) };
    let cache = Cache::from_objects([map("subject")]);
    let (executor, shutdown) = (manager.executor().clone(), runtime.shutdown().clone());
    let builder = ControllerBuilder::new("maps", cache, stream::iter([created]).chain(stream::pending()));
    let reconcile = move |object: Arc<ConfigMap>, _: Arc<()>| {
        let (executor, shutdown) = (executor.clone(), shutdown.clone());
        async move {
            let steps = [Step::create(&map("child")), Step::delete(&map("old"))];
            let done = executor.execute(&*object, &Plan::new().stage(Stage::new("s", steps))).await;
            shutdown.cancel();
            done.into_result().map(|()| Requeue::AwaitChange)
        }
    };
    builder.run(&manager, Arc::new(()), reconcile).await;
}

fn text(attributes: &[Attribute], key: &str) -> Option<String> {
    let value = &attributes.iter().find(|attribute| attribute.key == key)?.value;
    let Some(any_value::Value::StringValue(text)) = value.as_ref()?.value.as_ref() else { return None };
    Some(text.clone())
}

/// A line for each span: its parent, its name, its attributes, and whether it failed.
fn lines(spans: &[Span]) -> Vec<String> {
    let names: BTreeMap<&[u8], &str> = spans.iter().map(|span| (&*span.span_id, &*span.name)).collect();
    let line = |span: &Span| {
        let below = names.get(&*span.parent_span_id).map_or(String::new(), |parent| format!("{parent} > "));
        let keys = ["controller", "verb", "kind", "namespace", "name", "result"];
        let attributes = keys.iter().filter_map(|key| Some(format!(" {key}={}", text(&span.attributes, key)?)));
        let attributes: String = attributes.collect();
        let has_failed = span.status.as_ref().is_some_and(|status| status.code == FAILED);
        format!("{below}{}{attributes}{}", span.name, if has_failed { " failed" } else { "" })
    };
    let mut lines: Vec<String> = spans.iter().map(line).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_reconcile_is_a_trace_with_the_key_of_the_object_and_one_span_per_write() {
    let (endpoint, received) = collector().await;
    let traces = Traces::start(&settings(&endpoint), &IDENTITY).unwrap();
    let subscribed = tracing::subscriber::set_default(registry().with(traces.layer()));
    reconcile_once().await;
    drop(subscribed);
    assert!(spawn_blocking(move || traces.shutdown(Duration::from_secs(30))).await.unwrap());

    let requests = received.try_iter().map(|body| ExportTraceServiceRequest::decode(body).unwrap());
    let sent: Vec<_> = requests.flat_map(|request| request.resource_spans).collect();
    let service = &sent[0].resource.as_ref().unwrap().attributes;
    assert_eq!(text(service, "service.name").unwrap(), IDENTITY.service);
    assert_eq!(text(service, "service.instance.id").unwrap(), IDENTITY.instance);
    let scopes = sent.into_iter().flat_map(|resource| resource.scope_spans);
    let spans: Vec<Span> = scopes.flat_map(|scope| scope.spans).collect();
    assert_eq!(
        lines(&spans),
        [
            "reconcile > write verb=create kind=ConfigMap namespace=ns name=child result=success",
            "reconcile > write verb=delete kind=ConfigMap namespace=ns name=old result=403 failed",
            "reconcile controller=maps namespace=ns name=subject failed",
        ]
    );
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id), "one reconciliation, one trace");
}

#[tokio::test]
async fn shutdown_waits_a_bounded_time_for_a_collector_that_does_not_respond() {
    let (_silent, endpoint) = listener().await;
    let traces = Traces::start(&settings(&endpoint), &IDENTITY).unwrap();
    let subscribed = tracing::subscriber::set_default(registry().with(traces.layer()));
    reconcile_once().await;
    drop(subscribed);
    assert!(
        !spawn_blocking(move || traces.shutdown(Duration::from_millis(50))).await.unwrap(),
        "the shutdown reports that spans were lost"
    );
}
