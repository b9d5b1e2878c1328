//! Serves the routes over TLS: HTTP/2 and HTTP/1.1, with an end that drops no request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use grove_runtime::shutdown::Shutdown;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A handshake that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for the head of a request over HTTP/1.1. Longer than clients keep idle connections, so that none is closed
/// at the very moment at which it is used again.
const HEAD: Duration = Duration::from_mins(2);
/// What was begun may take this long once no new connection is taken.
const LAST_ANSWERS: Duration = Duration::from_secs(12);
/// A peer that does not answer a ping for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// So much may be sent on one request, and on all of a connection together, before anybody looks at it: small reviews come
/// whole, and large ones that wait for room do not stop them.
const WINDOWS: (u32, u32) = (64 << 10, 8 << 20);
/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 1000;
/// After an error that will last a moment, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// TLS 1.2 and 1.3 with whatever certificate `identity` has at the time of each handshake.
pub(crate) fn tls(identity: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12])?;
    let mut config = config.with_no_client_auth().with_cert_resolver(identity);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Takes connections until it is asked to stop and for `linger` after that: who balances load may not have noticed yet.
/// Then finishes what was begun.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    routes: Router,
    (stop, linger): (&Shutdown, Duration),
) {
    let (graceful, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let mut over = std::pin::pin!(async {
        stop.asked().await;
        sleep(linger).await;
    });
    loop {
        let taken = tokio::select! {
            taken = accept(&listener, &places) => taken,
            () = &mut over => break,
        };
        let Some((stream, place)) = taken else { continue };
        let (tls, routes, watcher) = (tls.clone(), routes.clone(), graceful.watcher());
        tokio::spawn(async move {
            carry(stream, &tls, routes, watcher).await;
            drop(place);
        });
    }
    drop(listener);
    if timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were not answered within {LAST_ANSWERS:?} and are dropped");
    }
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            tracing::warn!("cannot take a connection: {error}");
            sleep(PAUSE).await;
            None
        }
    }
}

async fn carry(stream: TcpStream, tls: &TlsAcceptor, routes: Router, watcher: Watcher) {
    let Some(stream) = greet(stream, tls).await else { return };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(SILENCE).keep_alive_timeout(PATIENCE);
    builder.http2().initial_stream_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!("a connection broke: {error}");
    }
}

/// The handshake. Those that fail are probes of ports, and clients that do not trust us; the second is what an operator
/// looks for.
async fn greet(stream: TcpStream, tls: &TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    // Without delay, as answers are small; an error would show at the first read, too.
    let _ = stream.set_nodelay(true);
    let greeted = timeout(PATIENCE, tls.accept(stream)).await;
    let greeted = greeted.map_err(|_| format!("no answer within {PATIENCE:?}"));
    greeted
        .and_then(|greeted| greeted.map_err(|error| error.to_string()))
        .inspect_err(|why| tracing::debug!("no TLS came about: {why}"))
        .ok()
}
