//! The HTTP endpoints for operators: `/healthz`, `/readyz` and `/metrics`.

use std::net::SocketAddr;

use axum::{Router, extract::State, http::StatusCode, routing::get};
use prometheus::{Encoder, Registry, TextEncoder};

use crate::{listen, ready::Readiness};

/// Serves the probes on one address and the metrics on another until the process ends.
pub async fn serve(
    probe_address: SocketAddr,
    metrics_address: SocketAddr,
    readiness: Readiness,
    metrics: Registry,
) -> anyhow::Result<()> {
    spawn(probe_address, "probes", probe_routes(readiness)).await?;
    spawn(metrics_address, "metrics", metrics_routes(metrics)).await
}

async fn spawn(address: SocketAddr, endpoints: &'static str, routes: Router) -> anyhow::Result<()> {
    let listener = listen::bind(address, endpoints).await?;
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!("could not serve {endpoints}: {error}");
        }
    });
    Ok(())
}

fn probe_routes(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(readyz)).with_state(readiness)
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let pending = readiness.pending();
    if pending.is_empty() {
        return (StatusCode::OK, "ok\n".into());
    }
    let lines = pending.into_iter().map(|(component, reason)| match reason {
        Some(reason) => format!("waiting for {component}: {reason}\n"),
        None => format!("waiting for {component}\n"),
    });
    (StatusCode::SERVICE_UNAVAILABLE, lines.collect())
}

fn metrics_routes(metrics: Registry) -> Router {
    Router::new().route("/metrics", get(respond)).with_state(metrics)
}

async fn respond(State(metrics): State<Registry>) -> (StatusCode, String) {
    match render(&metrics) {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// The metrics as text.
pub fn render(metrics: &Registry) -> Result<String, prometheus::Error> {
    let mut text = vec![];
    TextEncoder::new().encode(&metrics.gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use prometheus::IntCounter;
    use tower::ServiceExt;

    use super::*;

    async fn fetch(routes: Router, path: &str) -> (u16, String) {
        let response = routes.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_service_is_healthy_before_it_is_ready() {
        let readiness = Readiness::new();
        let pods = readiness.register("pods");
        let routes = probe_routes(readiness);
        assert_eq!(fetch(routes.clone(), "/healthz").await, (200, "ok\n".into()));
        assert_eq!(fetch(routes.clone(), "/readyz").await, (503, "waiting for pods\n".into()));
        pods.set_ready();
        assert_eq!(fetch(routes, "/readyz").await, (200, "ok\n".into()));
    }

    #[tokio::test]
    async fn metrics_are_served_as_text() {
        let metrics = Registry::new();
        let lists = IntCounter::new("lists_total", "Lists.").unwrap();
        metrics.register(Box::new(lists.clone())).unwrap();
        lists.inc();
        let (status, text) = fetch(metrics_routes(metrics), "/metrics").await;
        assert_eq!(status, 200);
        assert!(text.contains("\nlists_total 1\n"), "{text}");
    }
}
