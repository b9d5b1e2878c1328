//! What operators ask a service over HTTP: `/healthz`, `/readyz`, `/metrics`.

use std::net::SocketAddr;

use anyhow::Context;
use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;

use crate::{metrics::Metrics, ready::Ready};

/// Answers the probes on one address and the metrics on the other, from now until the process ends.
pub async fn serve(probes: SocketAddr, metrics: SocketAddr, ready: Ready, counters: Metrics) -> anyhow::Result<()> {
    spawn(probes, "probes", probe_routes(ready)).await?;
    spawn(metrics, "metrics", metric_routes(counters)).await
}

async fn spawn(address: SocketAddr, what: &'static str, routes: Router) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("could not listen on {address} for {what}"))?;
    tracing::info!(%address, "serving {what}");
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!("serving {what} failed: {error}");
        }
    });
    Ok(())
}

fn probe_routes(ready: Ready) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(readyz)).with_state(ready)
}

async fn readyz(State(ready): State<Ready>) -> (StatusCode, String) {
    let missing = ready.missing();
    if missing.is_empty() {
        return (StatusCode::OK, "ok\n".into());
    }
    let lines = missing.into_iter().map(|(part, why)| match why {
        Some(why) => format!("waiting for {part}: {why}\n"),
        None => format!("waiting for {part}\n"),
    });
    (StatusCode::SERVICE_UNAVAILABLE, lines.collect())
}

fn metric_routes(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(render)).with_state(metrics)
}

async fn render(State(metrics): State<Metrics>) -> (StatusCode, String) {
    match metrics.render() {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    async fn ask(routes: Router, path: &str) -> (u16, String) {
        let answer = routes.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_service_is_alive_before_it_is_ready() {
        let ready = Ready::new();
        let pods = ready.register("pods");
        let routes = probe_routes(ready);
        assert_eq!(ask(routes.clone(), "/healthz").await, (200, "ok\n".into()));
        assert_eq!(ask(routes.clone(), "/readyz").await, (503, "waiting for pods\n".into()));
        pods.ready();
        assert_eq!(ask(routes, "/readyz").await, (200, "ok\n".into()));
    }

    #[tokio::test]
    async fn metrics_are_served_as_text() {
        let metrics = Metrics::new().unwrap();
        metrics.record_list("Pod");
        let (status, text) = ask(metric_routes(metrics), "/metrics").await;
        assert_eq!(status, 200);
        assert!(text.contains(r#"reflector_lists_total{kind="Pod"} 1"#), "{text}");
    }
}
