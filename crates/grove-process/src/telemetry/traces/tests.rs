//! The transport of traces to a collector that accepts them, or that is unreachable.

use std::{fmt, sync::Arc};

use axum::{Router, body::Bytes, routing::post};
use opentelemetry_http::{HttpClient, Request};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tracing::{Event, field::Field};
use tracing_subscriber::{layer, prelude::*, registry};

use super::*;
use crate::client;

const IDENTITY: ServiceIdentity<'_> =
    ServiceIdentity { service: "test-controller", version: "1.2.3", instance: "test-0" };

fn settings(endpoint: &str) -> TraceSettings {
    client::install_crypto_provider();
    TraceSettings { endpoint: endpoint.to_owned(), timeout: Duration::from_secs(30), warning: None }
}

/// The address of a collector that accepts everything.
async fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/traces", post(|| async {}));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    endpoint
}

/// The log lines of the transport.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for LogLines {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let (level, lines) = (*event.metadata().level(), Arc::clone(&self.0));
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            if field.name() == "message" && event.metadata().target().ends_with("transport") {
                lines.lock().push(format!("{level} {value:?}"));
            }
        });
    }
}

#[tokio::test]
async fn an_outage_of_the_collector_is_logged_once_and_so_is_its_recovery() {
    // The test binds the address, so that no other process listens there.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let unreachable = format!("http://{}/v1/traces", closed.local_addr().unwrap());
    let reachable = collector().await;
    let TraceSettings { endpoint, timeout, warning: _ } = settings(&unreachable);
    let transport = Transport::new(&endpoint, timeout).unwrap();
    let lines = LogLines::default();
    let subscribed = tracing::subscriber::set_default(registry().with(lines.clone()));
    for (endpoint, succeeds) in [(&unreachable, false), (&unreachable, false), (&reachable, true), (&reachable, true)] {
        let request = Request::post(endpoint.as_str()).body(Bytes::new()).unwrap();
        assert_eq!(transport.send_bytes(request).await.is_ok(), succeeds);
    }
    drop(subscribed);
    let lines = lines.0.lock();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let outage = "WARN traces are lost because the collector does not accept them: ";
    assert!(lines[0].starts_with(outage), "{}", lines[0]);
    assert!(lines[0].contains("onnection refused"), "{}", lines[0]);
    assert_eq!(lines[1], "INFO the collector accepts traces again");
}

#[tokio::test]
async fn an_invalid_endpoint_is_an_error() {
    let error = Traces::start(&settings("not an address"), &IDENTITY).err().unwrap();
    assert_eq!(error.to_string(), "the endpoint \"not an address\" is invalid");
}
