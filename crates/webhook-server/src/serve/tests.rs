//! Ends of a server that is asked all the time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::routing::get;
use futures::future::join_all;
use grove_runtime::clock::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::certs::Identity;
use crate::certs::authority::{authority, certificate};

const HOST: &str = "webhook-server";
/// Longer than those who were sent here may be held up themselves on a busy machine.
const LINGER: Duration = Duration::from_secs(1);

/// Both ends of TLS, the other one of which speaks these versions of it.
fn ends(versions: &[&'static SupportedProtocolVersion]) -> (TlsAcceptor, TlsConnector) {
    let (now, hour) = (Clock::system().now(), Duration::from_hours(1));
    let ca = authority(now, hour).unwrap();
    let own = certificate((&ca.certificate, &ca.key), &[HOST.to_owned()], now, hour).unwrap();
    let identity = Identity::default();
    identity.assume(own.certificate.as_bytes(), own.key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.certificate.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (tls(Arc::new(identity)).unwrap(), TlsConnector::from(Arc::new(client)))
}

/// A server in a thread of its own, which can be held up as a process is that gets no CPU.
struct Server {
    address: SocketAddr,
    connector: TlsConnector,
    stop: Shutdown,
    /// Whether new connections are sent here.
    is_ready: Arc<AtomicBool>,
    /// Says whether every connection ended in time.
    thread: std::thread::JoinHandle<bool>,
}

impl Server {
    /// One that gets no CPU for so long from the request to stop on.
    fn start(held_up: Duration) -> Self {
        Self::with(ALL_VERSIONS, CONNECTIONS, held_up)
    }

    fn with(versions: &[&'static SupportedProtocolVersion], connections: u32, held_up: Duration) -> Self {
        let (acceptor, connector) = ends(versions);
        let (stop, is_ready) = (Shutdown::new(), Arc::new(AtomicBool::new(true)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, ready) = (stop.clone(), Arc::clone(&is_ready));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let routes = Router::new().route("/", get(|| async { "answered" }));
                let listener = TcpListener::from_std(listener).unwrap();
                let holding_up = async {
                    asked.asked().await;
                    std::thread::sleep(held_up);
                    ready.store(false, Ordering::SeqCst);
                };
                tokio::join!(serve(listener, acceptor, routes, connections, (&asked, LINGER)), holding_up).0
            })
        });
        Self { address, connector, stop, is_ready, thread }
    }

    /// Asks on a connection that is kept over HTTP/1.1, until no new one is to be made. How many were answered.
    async fn load(&self) -> std::io::Result<usize> {
        let (mut kept, mut answered) = (None, 0);
        while kept.is_some() || self.is_ready.load(Ordering::SeqCst) {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            let is_last = ask(&mut connection).await?;
            kept = (!is_last).then_some(connection);
            answered += 1;
            if answered == 10 {
                self.stop.ask();
            }
        }
        Ok(answered)
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        self.connector.connect(ServerName::try_from(HOST).unwrap(), stream).await
    }
}

/// One request. Says whether the answer is the last of its connection.
async fn ask(connection: &mut TlsStream<TcpStream>) -> std::io::Result<bool> {
    connection.write_all(b"GET / HTTP/1.1\r\nhost: webhook-server\r\n\r\n").await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"answered") {
        if connection.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(String::from_utf8_lossy(&answer).contains("connection: close"))
}

#[tokio::test]
async fn who_was_sent_here_is_answered_even_by_a_process_that_was_held_up() {
    for held_up in [Duration::ZERO, 3 * LINGER] {
        let server = Server::start(held_up);
        let answered = join_all((0..8).map(|_| server.load())).await;
        assert!(answered.iter().all(|answered| matches!(answered, Ok(1..))), "held up {held_up:?}: {answered:?}");
        assert!(server.thread.join().unwrap());
    }
}

#[tokio::test]
async fn who_keeps_a_connection_without_asking_does_not_hold_up_the_end() {
    let server = Server::start(Duration::ZERO);
    let mut kept = server.connect().await.unwrap();
    assert!(!ask(&mut kept).await.unwrap(), "there may be further requests");
    let unused = server.connect().await.unwrap();
    server.stop.ask();
    assert!(server.thread.join().unwrap());
    assert!(ask(&mut kept).await.is_err());
    drop(unused);
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    for version in [&TLS12, &TLS13] {
        let server = Server::with(&[version], CONNECTIONS, Duration::ZERO);
        let mut connection = server.connect().await.unwrap();
        assert!(!ask(&mut connection).await.unwrap());
        assert_eq!(connection.get_ref().1.protocol_version(), Some(version.version));
        server.stop.ask();
        drop(connection);
        assert!(server.thread.join().unwrap());
    }
}

#[tokio::test]
async fn one_connection_too_many_waits_until_another_ends() {
    let server = Server::with(ALL_VERSIONS, 2, Duration::ZERO);
    let (mut first, second) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    let (address, connector) = (server.address, server.connector.clone());
    let third = tokio::spawn(async move {
        let stream = TcpStream::connect(address).await?;
        ask(&mut connector.connect(ServerName::try_from(HOST).unwrap(), stream).await?).await
    });
    for _ in 0..100 {
        assert!(!ask(&mut first).await.unwrap());
    }
    assert!(!third.is_finished(), "it was taken");
    drop(second);
    assert!(!third.await.unwrap().unwrap(), "it is answered like the others");
    server.stop.ask();
    drop(first);
    assert!(server.thread.join().unwrap());
}
