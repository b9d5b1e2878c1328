//! Serves the routes over TLS: HTTP/2 and HTTP/1.1, with an end that drops no request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::{self, Next};
use futures::FutureExt;
use grove_runtime::shutdown::Shutdown;
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

mod traffic;

use self::traffic::Traffic;

/// A handshake that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for the head of a request over HTTP/1.1. Longer than clients keep idle connections, so that none is closed
/// at the very moment at which it is used again.
const HEAD: Duration = Duration::from_mins(2);
/// The longest delay that can be asked for between the request to stop and the end.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(6);
/// Who still comes that long after the request to stop comes too late.
const LONGEST_LINGER: Duration = Duration::from_secs(12);
/// What was begun may take this long once no new connection is taken.
const LAST_ANSWERS: Duration = Duration::from_secs(12);
/// A peer that does not answer a ping for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);
/// So much may be sent on one request, and on all of a connection together, before anybody looks at it: small reviews come
/// whole, and large ones that wait for room do not stop them.
const WINDOWS: (u32, u32) = (64 << 10, 8 << 20);
/// Connections at a time; further ones wait.
pub(crate) const CONNECTIONS: u32 = 1000;
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

/// Takes connections, so many at a time, until it is asked to stop and nobody came for `linger` after that: who balances
/// load may not have noticed yet, and neither may this process have got the CPU to answer. Then finishes what was begun.
/// Says whether every connection had ended by then.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    routes: Router,
    connections: u32,
    (stop, linger): (&Shutdown, Duration),
) -> bool {
    let (traffic, over) = (Traffic::default(), Shutdown::new());
    let routes = with_last_answers(routes, stop.clone(), traffic.clone());
    let places = Arc::new(Semaphore::new(connections as usize));
    let take = |(stream, place): (TcpStream, OwnedSemaphorePermit)| {
        traffic.note();
        let (tls, routes, traffic, over) = (tls.clone(), routes.clone(), traffic.clone(), over.clone());
        tokio::spawn(async move {
            carry(stream, &tls, routes, (&traffic, &over)).await;
            drop(place);
        });
    };
    let mut ceased = std::pin::pin!(async {
        stop.asked().await;
        traffic.ceases(linger, LONGEST_LINGER).await
    });
    let has_ceased = loop {
        tokio::select! {
            taken = accept(&listener, &places) => taken.into_iter().for_each(&take),
            has_ceased = &mut ceased => break has_ceased,
        }
    };
    if !has_ceased {
        tracing::warn!("somebody still comes {LONGEST_LINGER:?} after the request to stop, and is sent away");
    }
    // Who stands in the queue already is taken.
    while let Some(Some(taken)) = accept(&listener, &places).now_or_never() {
        take(taken);
    }
    drop(listener);
    over.ask();
    timeout(LAST_ANSWERS, places.acquire_many(connections)).await.is_ok()
}

/// From the request to stop on, each answer over HTTP/1.1 is the last of its connection, and says so. HTTP/2 has a way to
/// part without that.
fn with_last_answers(routes: Router, stop: Shutdown, traffic: Traffic) -> Router {
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let (is_old, stop) = (request.version() <= Version::HTTP_11, stop.clone());
        if is_old {
            traffic.note();
        }
        async move {
            let mut response = next.run(request).await;
            if is_old && stop.is_asked() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }))
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

async fn carry(stream: TcpStream, tls: &TlsAcceptor, routes: Router, (traffic, over): (&Traffic, &Shutdown)) {
    let Some(stream) = greet(stream, tls).await else { return };
    // From here on there is time for a first request.
    traffic.note();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(SILENCE).keep_alive_timeout(PATIENCE);
    builder.http2().initial_stream_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1);
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)));
    let ended = tokio::select! {
        // What has arrived already is read first.
        biased;
        ended = connection.as_mut() => ended,
        () = over.asked() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
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

#[cfg(test)]
mod tests;
