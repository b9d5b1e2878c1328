//! A proxy between a service and the API server. It forwards every byte, including the service's own token, and asks an
//! [`Interceptor`] about each write: the interceptor can kill the service before or after the write.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink, split};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long the proxy still reads responses after the client closed its side of the connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The proxy forwards a delayed write after this many writes of the restarted process, at the latest after [`MAX_DELAY`].
const SUCCESSOR_WRITES: u64 = 64;
/// See [`SUCCESSOR_WRITES`].
const MAX_DELAY: Duration = Duration::from_secs(5);

/// What happens to a write and to the service that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFate {
    /// The proxy forwards the write.
    Forward,
    /// The proxy forwards the write and kills the service before the response arrives.
    ForwardThenKill,
    /// The proxy kills the service and forwards the write after the restarted service has written.
    KillThenForward,
}

/// Decides about the writes of a service.
pub struct Interceptor {
    /// The argument is the method and the path of the write.
    pub decide: Box<dyn Fn(&str) -> WriteFate + Send + Sync>,
    /// Kills the service.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// The begin of the path of requests, and its replacement.
type Rewrite = (&'static str, &'static str);

/// A running proxy. It stops when it is dropped.
pub struct Proxy {
    port: u16,
    rewrite: Arc<Mutex<Option<Rewrite>>>,
    connection_state: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// Starts the proxy of one service. `server` is the port of the API server, `ca` the file with its CA certificate.
    ///
    /// # Panics
    /// If no port is free, or the certificate cannot be read.
    pub async fn start(server: u16, ca: &Path, interceptor: Interceptor) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let forwarder = Forwarder {
            server,
            connector: connector(ca),
            interceptor: Arc::new(interceptor),
            progress: watch::Sender::default(),
            rewrite: Arc::default(),
        };
        let rewrite = Arc::clone(&forwarder.rewrite);
        let (connection_state, disconnected) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (forwarder, mut disconnected) = (forwarder.clone(), disconnected.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        _ = disconnected.wait_for(|disconnected| *disconnected) => {}
                        // The client of the service reports a broken connection itself.
                        _ = forwarder.forward_connection(client) => {}
                    }
                });
            }
        });
        Self { port, rewrite, connection_state, accepting }
    }

    /// The URL for the kubeconfig of the service.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Closes all connections, and closes each new one until [`Proxy::reconnect`].
    pub fn disconnect(&self) {
        self.connection_state.send_replace(true);
    }

    /// Replaces the begin of the path of each request by one of the same length, for example by an API version that is not served.
    pub fn set_unserved(&self, served: &'static str, unserved: &'static str) {
        *self.rewrite.lock() = Some((served, unserved));
    }

    /// Forwards each request with its own path.
    pub fn serve_all(&self) {
        *self.rewrite.lock() = None;
    }

    /// Accepts connections again.
    pub fn reconnect(&self) {
        self.connection_state.send_replace(false);
    }
}

fn connector(ca: &Path) -> TlsConnector {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).expect("the CA file") {
        roots.add(certificate.expect("a certificate")).expect("a CA");
    }
    TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// Forwards the connections of one proxy.
#[derive(Clone)]
struct Forwarder {
    server: u16,
    connector: TlsConnector,
    interceptor: Arc<Interceptor>,
    progress: watch::Sender<Progress>,
    rewrite: Arc<Mutex<Option<Rewrite>>>,
}

/// Counts since the start of the proxy. Each kill starts a new process of the service.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Kills so far.
    kills: u64,
    /// Forwarded writes since the last kill, on connections opened since then.
    forwarded: u64,
}

impl Forwarder {
    async fn forward_connection(&self, client: TcpStream) -> io::Result<()> {
        let upstream = TcpStream::connect(("127.0.0.1", self.server)).await?;
        upstream.set_nodelay(true)?;
        client.set_nodelay(true)?;
        let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let (mut responses, mut requests) = split(self.connector.connect(name, upstream).await?);
        let (from_client, to_client) = client.into_split();
        let mut responding = pin!(copy_responses(&mut responses, to_client));
        tokio::select! {
            ended = &mut responding => ended,
            ended = self.forward_requests(from_client, &mut requests) => {
                // The client closed its side: wait for outstanding responses, then close the connection.
                let _ = timeout(RESPONSE_TIMEOUT, responding).await;
                ended
            }
        }
    }

    /// Forwards requests one by one until the client closes the connection.
    async fn forward_requests(
        &self,
        mut client: OwnedReadHalf,
        server: &mut (impl AsyncWriteExt + Unpin),
    ) -> io::Result<()> {
        let process = self.progress.borrow().kills;
        let mut received = Vec::new();
        while let Some(mut request) = next_request(&mut client, &mut received).await? {
            if let Some(rewrite) = *self.rewrite.lock() {
                replace_path(&mut request.bytes, rewrite);
            }
            let fate = if is_write(&request.first_line) {
                (self.interceptor.decide)(&request.first_line)
            } else {
                WriteFate::Forward
            };
            if fate == WriteFate::KillThenForward {
                self.kill();
                self.wait_for_successor_writes().await;
            }
            server.write_all(&request.bytes).await?;
            server.flush().await?;
            if fate == WriteFate::ForwardThenKill {
                self.kill();
            }
            let counts = is_write(&request.first_line);
            self.progress.send_if_modified(|now| {
                now.forwarded += u64::from(counts && now.kills == process);
                counts
            });
        }
        Ok(())
    }

    fn kill(&self) {
        (self.interceptor.kill)();
        self.progress.send_modify(|now| *now = Progress { kills: now.kills + 1, forwarded: 0 });
    }

    /// Waits until the restarted process has sent [`SUCCESSOR_WRITES`] writes, at most [`MAX_DELAY`]: it may have nothing to
    /// write.
    async fn wait_for_successor_writes(&self) {
        let mut progress = self.progress.subscribe();
        let kills = progress.borrow().kills;
        let has_written = |now: &Progress| now.kills > kills || now.forwarded >= SUCCESSOR_WRITES;
        let _ = timeout(MAX_DELAY, progress.wait_for(has_written)).await;
    }
}

/// Copies the responses to the client, and discards them once the client is disconnected.
async fn copy_responses(responses: &mut (impl AsyncReadExt + Unpin), mut to_client: OwnedWriteHalf) -> io::Result<()> {
    if copy(responses, &mut to_client).await.is_err() {
        copy(responses, &mut sink()).await?;
    }
    Ok(())
}

/// One request. `first_line` holds the method and the path.
struct Request {
    first_line: String,
    bytes: Vec<u8>,
}

/// The next complete request. `None` if the client closed the connection, also in the middle of a request, which is then not
/// forwarded.
async fn next_request(client: &mut OwnedReadHalf, received: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some(end) = head_end(received) {
            let (first_line, body) = read_head(&received[..end])?;
            if received.len() >= end + body {
                return Ok(Some(Request { first_line, bytes: received.drain(..end + body).collect() }));
            }
        }
        if client.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

fn head_end(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// The method and the path of a request, and the length of its body.
fn read_head(head: &[u8]) -> io::Result<(String, usize)> {
    let head = std::str::from_utf8(head).map_err(io::Error::other)?;
    let first_line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    if field("transfer-encoding").is_some() {
        return Err(io::Error::other("the proxy does not support requests without a content length"));
    }
    let length = field("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    Ok((first_line, length))
}

/// Replaces the begin of the path in the first line.
fn replace_path(bytes: &mut [u8], (from, to): Rewrite) {
    let path = bytes.iter().position(|byte| *byte == b' ').map_or(0, |space| space + 1);
    if bytes[path..].starts_with(from.as_bytes()) && from.len() == to.len() {
        bytes[path..path + to.len()].copy_from_slice(to.as_bytes());
    }
}

/// Lease renewals depend on the clock and access reviews change nothing, so neither counts as a write.
fn is_write(first_line: &str) -> bool {
    let (method, path) = first_line.split_once(' ').unwrap_or_default();
    method != "GET" && !path.contains("/leases") && !path.contains("accessreviews")
}

#[cfg(test)]
mod tests {
    use super::{head_end, is_write, read_head, replace_path};

    #[test]
    fn a_request_is_parsed_from_the_stream() {
        let bytes = b"POST /api/v1/namespaces/n/pods?x HTTP/1.1\r\nhost: a\r\nContent-Length: 7\r\n\r\n{\"a\":1}GET /";
        let end = head_end(bytes).unwrap();
        let (first_line, body) = read_head(&bytes[..end]).unwrap();
        assert_eq!((first_line.as_str(), body), ("POST /api/v1/namespaces/n/pods?x", 7));
        assert_eq!(&bytes[end + body..], b"GET /");
        assert!(head_end(&bytes[..20]).is_none());
        assert!(read_head(b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn the_begin_of_a_path_is_replaced() {
        let rewrite = ("/apis/a/v1/", "/apis/a/v0/");
        for (request, replaced) in [
            ("GET /apis/a/v1/b?watch=1 HTTP/1.1", "GET /apis/a/v0/b?watch=1 HTTP/1.1"),
            ("GET /apis/a/v1beta1/b HTTP/1.1", "GET /apis/a/v1beta1/b HTTP/1.1"),
            ("GET /x?/apis/a/v1/ HTTP/1.1", "GET /x?/apis/a/v1/ HTTP/1.1"),
        ] {
            let mut bytes = request.as_bytes().to_vec();
            replace_path(&mut bytes, rewrite);
            assert_eq!(bytes, replaced.as_bytes());
        }
    }

    #[test]
    fn reads_and_leases_are_not_counted_as_writes() {
        assert!(is_write("PATCH /api/v1/namespaces/n/pods/p"));
        assert!(!is_write("GET /api/v1/pods?watch=1"));
        assert!(!is_write("PUT /apis/coordination.k8s.io/v1/namespaces/grove-system/leases/pcs-controller"));
    }
}
