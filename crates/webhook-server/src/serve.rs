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
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

mod activity;

use self::activity::ConnectionActivity;

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the head of an HTTP/1.1 request, and so of an idle HTTP/1.1 connection. It is longer than clients keep
/// idle connections, so that no connection closes at the moment of its reuse.
const HEADER_TIMEOUT: Duration = Duration::from_mins(2);
/// Longest value of `--shutdown-delay-duration`.
pub(crate) const MAX_SHUTDOWN_DELAY: Duration = Duration::from_secs(6);
/// How long new connections are accepted after SIGTERM, at most.
const MAX_DRAIN: Duration = Duration::from_secs(12);
/// How long open requests may take after the last connection is accepted.
const GRACEFUL_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(12);
/// Interval of HTTP/2 pings, and the time to respond. A client that does not respond is disconnected.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 flow control: how many bytes a client may send before the server reads them, per request and per connection.
/// Small reviews arrive completely, and large reviews that wait for the memory budget do not block them.
const HTTP2_WINDOWS: (u32, u32) = (64 << 10, 8 << 20);
/// Number of concurrent connections. Further ones wait in the backlog of the socket.
pub(crate) const MAX_CONNECTIONS: u32 = 1000;
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

/// Serves at most `max_connections` connections at a time until the shutdown, and then drains.
///
/// The drain accepts connections until none arrives for `shutdown_delay`, because load balancers notice late that this
/// process is not ready. Then it finishes the open requests. Returns whether all connections ended in time.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    routes: Router,
    max_connections: u32,
    (shutdown, shutdown_delay): (&CancellationToken, Duration),
) -> bool {
    let (activity, drained) = (ConnectionActivity::default(), CancellationToken::new());
    let routes = close_http1_on_shutdown(routes, shutdown.clone(), activity.clone());
    let permits = Arc::new(Semaphore::new(max_connections as usize));
    let spawn = |(stream, permit): (TcpStream, OwnedSemaphorePermit)| {
        activity.record();
        let (tls, routes, activity, drained) = (tls.clone(), routes.clone(), activity.clone(), drained.clone());
        tokio::spawn(async move {
            serve_connection(stream, &tls, routes, (&activity, &drained)).await;
            drop(permit);
        });
    };
    let mut idle = std::pin::pin!(async {
        shutdown.cancelled().await;
        activity.wait_idle(shutdown_delay, MAX_DRAIN).await
    });
    let is_idle = loop {
        tokio::select! {
            connection = accept(&listener, &permits) => connection.into_iter().for_each(&spawn),
            is_idle = &mut idle => break is_idle,
        }
    };
    if !is_idle {
        tracing::warn!("new connections still arrive {MAX_DRAIN:?} after the start of the shutdown and are rejected");
    }
    // Connections in the backlog are accepted.
    while let Some(Some(connection)) = accept(&listener, &permits).now_or_never() {
        spawn(connection);
    }
    drop(listener);
    drained.cancel();
    timeout(GRACEFUL_SHUTDOWN_TIMEOUT, permits.acquire_many(max_connections)).await.is_ok()
}

/// From the shutdown on, adds `Connection: close` to each HTTP/1.1 response. HTTP/2 closes connections without losing
/// requests.
fn close_http1_on_shutdown(routes: Router, shutdown: CancellationToken, activity: ConnectionActivity) -> Router {
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let (is_http1, shutdown) = (request.version() <= Version::HTTP_11, shutdown.clone());
        if is_http1 {
            activity.record();
        }
        async move {
            let mut response = next.run(request).await;
            if is_http1 && shutdown.is_cancelled() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }))
}

async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!("cannot accept a connection: {error}");
            sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    routes: Router,
    (activity, drained): (&ConnectionActivity, &CancellationToken),
) {
    let Some(stream) = accept_tls(stream, tls).await else { return };
    // The client gets time for its first request.
    activity.record();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let http2_timer = TokioTimer::new();
    builder.http2().timer(http2_timer).keep_alive_interval(KEEPALIVE_INTERVAL).keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let (stream_window, connection_window) = HTTP2_WINDOWS;
    builder.http2().initial_stream_window_size(stream_window).initial_connection_window_size(connection_window);
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)));
    let result = tokio::select! {
        // A request that has already arrived is read before the graceful shutdown starts.
        biased;
        result = connection.as_mut() => result,
        () = drained.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection failed: {error}");
    }
}

/// The TLS handshake. It fails for port probes and for clients that do not trust the certificate; the log helps with
/// the latter.
async fn accept_tls(stream: TcpStream, tls: &TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    // Responses are small and are sent without delay. The first read reports an error of the socket.
    let _ = stream.set_nodelay(true);
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await;
    handshake
        .map_err(|_| format!("no response within {HANDSHAKE_TIMEOUT:?}"))
        .and_then(|result| result.map_err(|error| error.to_string()))
        .inspect_err(|error| tracing::debug!("a TLS handshake failed: {error}"))
        .ok()
}

#[cfg(test)]
mod tests;
