//! Serves the endpoints over TLS, with HTTP/2 and HTTP/1.1. A shutdown loses no request.
//!
//! The drain is hand-written. hyper-util's `GracefulShutdown` polls its signal before the connection: it closes an
//! HTTP/1.1 connection with a request that has arrived and is not read yet. The test
//! `a_request_that_arrives_at_the_end_of_the_drain_gets_a_response` fails with it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::{self, Next};
use futures::FutureExt;
use prometheus::IntGauge;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

mod activity;
mod connection;

use self::activity::ConnectionActivity;
use self::connection::{Connection, serve_connection};
use crate::lru_pool::{LruPool, PoolLimits};

/// Longest value of `--shutdown-delay-duration`.
pub(crate) const MAX_SHUTDOWN_DELAY: Duration = Duration::from_secs(6);
/// How long new connections are accepted after SIGTERM, at most.
const MAX_DRAIN: Duration = Duration::from_secs(12);
/// How long open requests may take after the last connection is accepted.
const GRACEFUL_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(12);
/// Number of concurrent connections, half of a usual limit of open files. A further one is accepted at once, and the one
/// that is idle for the longest time is closed.
pub(crate) const MAX_CONNECTIONS: usize = 500;
/// Pause after an error of `accept`. Some errors last, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Accepts TLS 1.2 and 1.3. `cert` provides the certificate of each handshake.
pub(crate) fn tls(cert: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12])?;
    let mut config = config.with_no_client_auth().with_cert_resolver(cert);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The pool of at most `max` connections. The gauge shows their number.
pub(crate) fn connection_pool(max: usize, connections: IntGauge) -> LruPool {
    LruPool::new(PoolLimits { entries: max, bytes: usize::MAX }, connections)
}

/// Serves the connections of `pool` until the shutdown, and then drains.
///
/// The drain accepts connections until none arrives for `shutdown_delay`, because load balancers notice late that this
/// process is not ready. Then it finishes the open requests. Returns whether all connections ended in time.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    routes: Router,
    pool: LruPool,
    (shutdown, shutdown_delay): (&CancellationToken, Duration),
) -> bool {
    let (activity, drained) = (ConnectionActivity::default(), CancellationToken::new());
    let routes = observe_requests(routes, shutdown.clone(), activity.clone());
    let serve_accepted = |stream: TcpStream| {
        activity.record();
        let connection = Connection::new(pool.insert());
        let (tls, routes, activity, drained) = (tls.clone(), routes.clone(), activity.clone(), drained.clone());
        async move { serve_connection(stream, &tls, routes, connection, (&activity, &drained)).await }
    };
    let mut connections = JoinSet::new();
    let mut idle = std::pin::pin!(async {
        shutdown.cancelled().await;
        activity.wait_idle(shutdown_delay, MAX_DRAIN).await
    });
    let is_idle = loop {
        tokio::select! {
            stream = accept(&listener) => {
                if let Some(stream) = stream {
                    connections.spawn(serve_accepted(stream));
                }
            }
            // Frees the memory of the task.
            Some(_) = connections.join_next() => {}
            is_idle = &mut idle => break is_idle,
        }
    };
    warn_unless_idle(is_idle);
    // Connections in the backlog are accepted.
    while let Some(Some(stream)) = accept(&listener).now_or_never() {
        connections.spawn(serve_accepted(stream));
    }
    drop(listener);
    drained.cancel();
    let all_ended = async { while connections.join_next().await.is_some() {} };
    timeout(GRACEFUL_SHUTDOWN_TIMEOUT, all_ended).await.is_ok()
}

fn warn_unless_idle(is_idle: bool) {
    if !is_idle {
        tracing::warn!("new connections still arrive {MAX_DRAIN:?} after the start of the shutdown and are rejected");
    }
}

/// Records the requests of each connection. From the shutdown on, adds `Connection: close` to each HTTP/1.1 response.
/// HTTP/2 closes connections without losing requests.
fn observe_requests(routes: Router, shutdown: CancellationToken, activity: ConnectionActivity) -> Router {
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let (is_http1, shutdown) = (request.version() <= Version::HTTP_11, shutdown.clone());
        if is_http1 {
            activity.record();
        }
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let record = move || connection.iter().for_each(|connection| connection.record_request());
        record();
        async move {
            let mut response = next.run(request).await;
            record();
            if is_http1 && shutdown.is_cancelled() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }))
}

/// The next connection; `None` after an error.
async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!("cannot accept a connection: {error}");
            sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

#[cfg(test)]
mod tests;
