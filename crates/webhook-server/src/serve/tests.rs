//! Connections, and the shutdown of a server under load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use axum::routing::get;
use futures::future::join_all;
use grove_runtime::clock::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection::HANDSHAKE_TIMEOUT;
use super::*;
use crate::certs::ServingCert;
use crate::certs::ca::{issue_ca, issue_serving_cert};

const HOST: &str = "webhook-server";
/// Longer than a busy machine delays the clients of this test.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(1);

fn pool(max_connections: usize) -> LruPool {
    connection_pool(max_connections, IntGauge::new("connections", "connections").unwrap())
}

/// A TLS acceptor, and a connector that supports these versions of TLS.
fn acceptor_and_connector(versions: &[&'static SupportedProtocolVersion]) -> (TlsAcceptor, TlsConnector) {
    let (now, hour) = (Clock::system().now(), Duration::from_hours(1));
    let ca = issue_ca(now, hour).unwrap();
    let issued = issue_serving_cert((&ca.certificate, &ca.key), &[HOST.to_owned()], now, hour).unwrap();
    let serving_cert = ServingCert::default();
    serving_cert.swap(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (tls(Arc::new(serving_cert)).unwrap(), TlsConnector::from(Arc::new(client)))
}

/// A server in its own thread. The thread can be blocked, like a process that gets no CPU.
struct Server {
    address: SocketAddr,
    connector: TlsConnector,
    shutdown: CancellationToken,
    /// Whether the readiness probe succeeds, so that clients connect.
    is_ready: Arc<AtomicBool>,
    /// Returns whether all connections ended in time.
    thread: std::thread::JoinHandle<bool>,
}

impl Server {
    /// A server that gets no CPU for `blocked` after the start of the shutdown.
    fn start(blocked: Duration) -> Self {
        Self::with(ALL_VERSIONS, MAX_CONNECTIONS, blocked)
    }

    fn with(versions: &[&'static SupportedProtocolVersion], max_connections: usize, blocked: Duration) -> Self {
        let (acceptor, connector) = acceptor_and_connector(versions);
        let (shutdown, is_ready) = (CancellationToken::new(), Arc::new(AtomicBool::new(true)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (server_shutdown, ready) = (shutdown.clone(), Arc::clone(&is_ready));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let routes = Router::new().route("/", get(|| async { "done" }));
                let listener = TcpListener::from_std(listener).unwrap();
                let block = async {
                    server_shutdown.cancelled().await;
                    std::thread::sleep(blocked);
                    ready.store(false, Ordering::SeqCst);
                };
                tokio::join!(
                    serve(listener, acceptor, routes, pool(max_connections), (&server_shutdown, SHUTDOWN_DELAY)),
                    block
                )
                .0
            })
        });
        Self { address, connector, shutdown, is_ready, thread }
    }

    /// Sends requests over one HTTP/1.1 connection, and reconnects while the server is ready. Returns the number of
    /// responses.
    async fn send_load(&self) -> std::io::Result<usize> {
        let (mut reusable, mut responses) = (None, 0);
        while reusable.is_some() || self.is_ready.load(Ordering::SeqCst) {
            let mut connection = match reusable.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let is_last = send(&mut connection).await?;
            reusable = (!is_last).then_some(connection);
            responses += 1;
            if responses == 10 {
                self.shutdown.cancel();
            }
        }
        Ok(responses)
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.connector.connect(ServerName::try_from(HOST).unwrap(), stream).await
    }
}

/// Sends one request. Returns whether the response is the last one of its connection.
async fn send(connection: &mut TlsStream<TcpStream>) -> std::io::Result<bool> {
    write_request(connection).await?;
    read_response(connection).await
}

async fn write_request(connection: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
    connection.write_all(b"GET / HTTP/1.1\r\nhost: webhook-server\r\n\r\n").await?;
    connection.flush().await
}

/// Returns whether the response is the last one of its connection.
async fn read_response(connection: &mut TlsStream<TcpStream>) -> std::io::Result<bool> {
    let mut response = Vec::new();
    while !response.ends_with(b"done") {
        if connection.read_buf(&mut response).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&response).contains("connection: close"))
}

#[tokio::test]
async fn a_shutdown_loses_no_request_even_after_time_without_cpu() {
    for blocked in [Duration::ZERO, 3 * SHUTDOWN_DELAY] {
        let server = Server::start(blocked);
        let responses = join_all((0..8).map(|_| server.send_load())).await;
        assert!(responses.iter().all(|count| matches!(count, Ok(1..))), "blocked {blocked:?}: {responses:?}");
        assert!(server.thread.join().unwrap());
    }
}

/// The drain ends when a request has arrived and is not read yet, which happens to a process that gets little CPU.
#[tokio::test]
async fn a_request_that_arrives_at_the_end_of_the_drain_gets_a_response() {
    let (acceptor, connector) = acceptor_and_connector(ALL_VERSIONS);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (connected, is_connected) = tokio::sync::oneshot::channel();
    let ((start, is_started), (written, is_written)) = (mpsc::channel::<()>(), mpsc::channel());
    let client = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let stream = TcpStream::connect(address).await?;
            let mut connection = connector.connect(ServerName::try_from(HOST).unwrap(), stream).await?;
            assert!(!send(&mut connection).await?);
            connected.send(()).unwrap();
            is_started.recv().unwrap();
            write_request(&mut connection).await?;
            written.send(()).unwrap();
            read_response(&mut connection).await
        })
    });
    let (stream, _) = listener.accept().await.unwrap();
    let (activity, drained) = (ConnectionActivity::default(), CancellationToken::new());
    let routes = Router::new().route("/", get(|| async { "done" }));
    let drain = async {
        is_connected.await.unwrap();
        let mut timer = std::pin::pin!(sleep(Duration::from_millis(1)));
        assert!(futures::poll!(timer.as_mut()).is_pending());
        start.send(()).unwrap();
        // The thread is blocked until the request is written and the timer is due. Then both events arrive together.
        is_written.recv().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        timer.await;
        drained.cancel();
    };
    let connection = Connection::new(pool(1).insert());
    tokio::join!(drain, serve_connection(stream, &acceptor, routes, connection, (&activity, &drained)));
    client.join().unwrap().unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_delay_the_shutdown() {
    let server = Server::start(Duration::ZERO);
    let mut idle = server.connect().await.unwrap();
    assert!(!send(&mut idle).await.unwrap(), "there may be further requests");
    let unused = server.connect().await.unwrap();
    server.shutdown.cancel();
    assert!(server.thread.join().unwrap());
    assert!(send(&mut idle).await.is_err());
    drop(unused);
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_supported() {
    for version in [&TLS12, &TLS13] {
        let server = Server::with(&[version], MAX_CONNECTIONS, Duration::ZERO);
        let mut connection = server.connect().await.unwrap();
        assert!(!send(&mut connection).await.unwrap());
        assert_eq!(connection.get_ref().1.protocol_version(), Some(version.version));
        server.shutdown.cancel();
        drop(connection);
        assert!(server.thread.join().unwrap());
    }
}

/// Returns once the server has closed the connection.
async fn wait_until_closed(connection: &mut TlsStream<TcpStream>) {
    let received = connection.read(&mut [0]).await;
    assert!(!matches!(received, Ok(1..)), "no response is pending: {received:?}");
}

#[tokio::test]
async fn a_connection_above_the_limit_closes_the_one_that_is_idle_for_the_longest_time() {
    let server = Server::with(ALL_VERSIONS, 3, Duration::ZERO);
    let (mut first, mut second) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let mut unused = server.connect().await.unwrap();
    for connection in [&mut second, &mut first] {
        assert!(!send(connection).await.unwrap());
    }
    let mut fourth = server.connect().await.unwrap();
    wait_until_closed(&mut unused).await;
    let mut fifth = server.connect().await.unwrap();
    wait_until_closed(&mut second).await;
    for connection in [&mut first, &mut fourth, &mut fifth] {
        assert!(!send(connection).await.unwrap());
    }
    server.shutdown.cancel();
    drop((first, fourth, fifth));
    assert!(server.thread.join().unwrap());
}

#[tokio::test]
async fn silent_connections_do_not_exclude_a_client() {
    let server = Server::with(ALL_VERSIONS, 2, Duration::ZERO);
    let (mut silent, start) = (Vec::new(), Instant::now());
    for _ in 0..10 {
        // One without and one with a TLS handshake.
        silent.push((TcpStream::connect(server.address).await.unwrap(), server.connect().await.unwrap()));
        let mut client = server.connect().await.unwrap();
        assert!(!send(&mut client).await.unwrap());
        // After this time, the server closes a connection without a handshake. A client does not wait for that.
        assert!(start.elapsed() < HANDSHAKE_TIMEOUT, "{:?}", start.elapsed());
    }
    server.shutdown.cancel();
    assert!(server.thread.join().unwrap(), "silent connections do not delay the shutdown");
}
