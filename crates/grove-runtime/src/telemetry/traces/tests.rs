//! The transport of traces: a collector on this machine accepts them, or cannot be reached.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, routing::post};
use opentelemetry_http::{HttpClient, Request};
use tokio::net::{TcpListener, TcpSocket};
use tracing::{Event, field::Field};
use tracing_subscriber::{layer, prelude::*, registry};

use super::*;
use crate::client;

const WHO: Who<'_> = Who { service: "test-controller", version: "1.2.3", identity: "test-0" };

fn settings(endpoint: &str) -> Settings {
    client::install_crypto_provider();
    Settings { endpoint: endpoint.to_owned(), timeout: Duration::from_secs(30), warning: None }
}

/// The address of a collector that accepts everything.
async fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let routes = Router::new().route("/v1/traces", post(|| async {}));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    endpoint
}

/// What was logged about the collector.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Told {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let (level, told) = (*event.metadata().level(), Arc::clone(&self.0));
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            if field.name() == "message" && event.metadata().target().ends_with("transport") {
                told.lock().unwrap().push(format!("{level} {value:?}"));
            }
        });
    }
}

#[tokio::test]
async fn a_collector_that_is_away_is_warned_of_once_and_its_return_is_told() {
    // Bound, so that nobody else comes to listen there.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let away = format!("http://{}/v1/traces", closed.local_addr().unwrap());
    let here = collector().await;
    let Settings { endpoint, timeout, warning: _ } = settings(&away);
    let transport = Transport::new(&endpoint, timeout).unwrap();
    let told = Told::default();
    let subscribed = tracing::subscriber::set_default(registry().with(told.clone()));
    for (endpoint, answers) in [(&away, false), (&away, false), (&here, true), (&here, true)] {
        let request = Request::post(endpoint.as_str()).body(Bytes::new()).unwrap();
        assert_eq!(transport.send_bytes(request).await.is_ok(), answers);
    }
    drop(subscribed);
    let told = told.0.lock().unwrap();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].starts_with("WARN traces are lost, the collector cannot be used: "), "{}", told[0]);
    assert!(told[0].contains("onnection refused"), "{}", told[0]);
    assert_eq!(told[1], "INFO the collector takes traces again");
}

#[tokio::test]
async fn an_address_that_is_none_is_told_and_not_used() {
    let error = Traces::start(&settings("not an address"), &WHO).err().unwrap();
    assert_eq!(error.to_string(), "the collector's address \"not an address\" is not usable");
}
