//! One connection: the TLS handshake, the requests, and the reasons to close it.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::activity::ConnectionActivity;
use crate::lru_pool::PoolEntry;

/// Timeout of a TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be without a request, and the timeout of the head of an HTTP/1.1 request. It is longer than the
/// API server holds idle connections, so that no connection closes when the API server sends a request. It is the same before
/// the first request: the API server opens more connections than it has requests, and uses some of them later.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// How long running requests may take after an idle or evicted connection starts to close. A review takes at most two
/// seconds after it has arrived.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of HTTP/2 pings, and the time to respond. A client that does not respond is disconnected.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 flow control: how many bytes a client may send before the server reads them, per request and per connection.
const HTTP2_WINDOWS: (u32, u32) = (64 << 10, 8 << 20);
/// Buffer of an HTTP/1.1 connection, and so the longest head of a request. The default is six times as much.
const HTTP1_BUFFER: usize = 64 << 10;

/// One of the connections of the server.
#[derive(Debug)]
pub(super) struct Connection {
    /// Its entry in the pool of all connections.
    entry: PoolEntry,
    /// When the connection was accepted, or when the last request started or ended.
    last_use: Mutex<Instant>,
}

impl Connection {
    pub(super) fn new(entry: PoolEntry) -> Self {
        Self { entry, last_use: Mutex::new(Instant::now()) }
    }

    /// Records the start or the end of a request.
    pub(super) fn record_request(&self) {
        self.entry.record_use(0);
        *self.last_use.lock() = Instant::now();
    }

    /// Returns once there was no request for too long.
    async fn idle(&self) {
        loop {
            let deadline = *self.last_use.lock() + IDLE_TIMEOUT;
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// Serves the requests of a connection until the client closes it, it is idle for too long, the pool of connections evicts
/// it, or `drained` is cancelled.
pub(super) async fn serve_connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    routes: Router,
    connection: Connection,
    (activity, drained): (&ConnectionActivity, &CancellationToken),
) {
    let connection = Arc::new(connection);
    let stream = tokio::select! {
        stream = accept_tls(stream, tls) => stream,
        () = connection.entry.evicted() => return,
    };
    let Some(stream) = stream else { return };
    // The client gets time for its first request.
    activity.record();
    let builder = http_builder();
    let service = TowerToHyperService::new(routes.layer(Extension(Arc::clone(&connection))));
    let mut http = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let is_drained = tokio::select! {
        // A request that has already arrived is read before the graceful shutdown starts.
        biased;
        result = http.as_mut() => return log_error(result.err()),
        () = drained.cancelled() => true,
        () = connection.entry.evicted() => false,
        () = connection.idle() => false,
    };
    http.as_mut().graceful_shutdown();
    if is_drained {
        log_error(http.await.err());
    } else {
        // A client that does not respond is disconnected.
        log_error(timeout(CLOSE_TIMEOUT, http).await.ok().and_then(Result::err));
    }
}

fn http_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(HTTP1_BUFFER);
    let http2_timer = TokioTimer::new();
    builder.http2().timer(http2_timer).keep_alive_interval(KEEPALIVE_INTERVAL).keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let (stream_window, connection_window) = HTTP2_WINDOWS;
    builder.http2().initial_stream_window_size(stream_window).initial_connection_window_size(connection_window);
    builder
}

fn log_error(error: Option<Box<dyn std::error::Error + Send + Sync>>) {
    if let Some(error) = error {
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
mod tests {
    use prometheus::IntGauge;
    use tokio::time::sleep;

    use super::*;
    use crate::lru_pool::{LruPool, PoolLimits};

    /// How long the API server holds an idle connection: `IdleConnTimeout` of Go's `http.DefaultTransport`.
    const API_SERVER_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

    fn connection() -> Connection {
        let size = IntGauge::new("connections", "connections").unwrap();
        Connection::new(LruPool::new(PoolLimits { entries: 1, bytes: 0 }, size).insert())
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_closes_an_unused_connection_first() {
        let (unused, start) = (connection(), Instant::now());
        unused.idle().await;
        assert!(start.elapsed() > API_SERVER_IDLE_TIMEOUT + HANDSHAKE_TIMEOUT, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_starts_the_idle_timeout_again() {
        let (connection, start) = (connection(), Instant::now());
        let requests = async {
            for _ in 0..3 {
                sleep(API_SERVER_IDLE_TIMEOUT).await;
                connection.record_request();
            }
        };
        tokio::join!(connection.idle(), requests);
        assert_eq!(start.elapsed(), 3 * API_SERVER_IDLE_TIMEOUT + IDLE_TIMEOUT);
    }
}
