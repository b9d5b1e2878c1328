//! A wiretap between a service and the API server: it passes every byte on under the service's own token, and asks about
//! each write whether it is to be the last that the service sends.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

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

/// The server still gets to answer what was sent by a process that is no more.
const LAST_ANSWER: Duration = Duration::from_secs(2);

/// A late write arrives after so many of the process that came next, or when this time is over.
const LATE_BY: u64 = 64;
const LATEST: Duration = Duration::from_secs(5);

/// What becomes of a write, and of the service that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, and the service lives on.
    Arrives,
    /// It arrives, and the service is killed before it hears so.
    IsTheLast,
    /// The service is killed, and what it sent arrives when it is already at work again.
    ArrivesLate,
}

/// What the owner of a proxy decides.
pub struct Tap {
    /// Is asked with the method and the path of each write.
    pub fate: Box<dyn Fn(&str) -> Fate + Send + Sync>,
    /// Kills the service.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Ends with its owner.
pub struct Proxy {
    port: u16,
    is_cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// Listens for one service. `authority` is the certificate by which the API server on `server` is known.
    ///
    /// # Panics
    /// When there is no port, or no certificate.
    pub async fn start(server: u16, authority: &Path, tap: Tap) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let line =
            Line { server, connector: connector(authority), tap: Arc::new(tap), progress: watch::Sender::default() };
        let (is_cut, cut) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (line, mut cut) = (line.clone(), cut.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        _ = cut.wait_for(|cut| *cut) => {}
                        // How a connection ends is the service's affair.
                        _ = line.carry(client) => {}
                    }
                });
            }
        });
        Self { port, is_cut, accepting }
    }

    /// Where the service finds it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Breaks all connections, and lets none come about until it is mended.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets connections come about again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

fn connector(authority: &Path) -> TlsConnector {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("the authority's file") {
        roots.add(certificate.expect("a certificate")).expect("an authority");
    }
    TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// What each connection is carried by.
#[derive(Clone)]
struct Line {
    server: u16,
    connector: TlsConnector,
    tap: Arc<Tap>,
    progress: watch::Sender<Progress>,
}

/// How far the service is, which is another process after each kill.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Kills so far.
    kills: u64,
    /// Writes since, of connections that came about since.
    passed: u64,
}

impl Line {
    async fn carry(&self, client: TcpStream) -> io::Result<()> {
        let upstream = TcpStream::connect(("127.0.0.1", self.server)).await?;
        upstream.set_nodelay(true)?;
        client.set_nodelay(true)?;
        let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let (mut answers, mut requests) = split(self.connector.connect(name, upstream).await?);
        let (from_client, to_client) = client.into_split();
        let mut answering = pin!(answer(&mut answers, to_client));
        tokio::select! {
            ended = &mut answering => ended,
            ended = self.pass_on(from_client, &mut requests) => {
                // Answers to what was sent are waited for, then the connection is closed whatever still comes.
                let _ = timeout(LAST_ANSWER, answering).await;
                ended
            }
        }
    }

    /// Passes requests on, one by one, until the client has no more of them.
    async fn pass_on(&self, mut client: OwnedReadHalf, server: &mut (impl AsyncWriteExt + Unpin)) -> io::Result<()> {
        let process = self.progress.borrow().kills;
        let mut received = Vec::new();
        while let Some(request) = next_request(&mut client, &mut received).await? {
            let fate = if is_write(&request.first_line) { (self.tap.fate)(&request.first_line) } else { Fate::Arrives };
            if fate == Fate::ArrivesLate {
                self.kill();
                self.others_are_at_work().await;
            }
            server.write_all(&request.bytes).await?;
            server.flush().await?;
            if fate == Fate::IsTheLast {
                self.kill();
            }
            let counts = is_write(&request.first_line);
            self.progress.send_if_modified(|now| {
                now.passed += u64::from(counts && now.kills == process);
                counts
            });
        }
        Ok(())
    }

    fn kill(&self) {
        (self.tap.kill)();
        self.progress.send_modify(|now| *now = Progress { kills: now.kills + 1, passed: 0 });
    }

    /// Waits until the process that comes next has made some writes. One that has none to make is not waited for.
    async fn others_are_at_work(&self) {
        let mut progress = self.progress.subscribe();
        let kills = progress.borrow().kills;
        let at_work = |now: &Progress| now.kills > kills || now.passed >= LATE_BY;
        let _ = timeout(LATEST, progress.wait_for(at_work)).await;
    }
}

/// Copies what the server says; when nobody listens any more, to nobody.
async fn answer(answers: &mut (impl AsyncReadExt + Unpin), mut to_client: OwnedWriteHalf) -> io::Result<()> {
    if copy(answers, &mut to_client).await.is_err() {
        copy(answers, &mut sink()).await?;
    }
    Ok(())
}

/// One request, with the method and the path in its first line.
struct Request {
    first_line: String,
    bytes: Vec<u8>,
}

/// The next request; nothing when the client has gone, be it in the middle of one, of which the server hears nothing.
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
        return Err(io::Error::other("a request without a length is not understood here"));
    }
    let length = field("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    Ok((first_line, length))
}

/// Leases are renewed by the clock and reviews change nothing: neither counts.
fn is_write(first_line: &str) -> bool {
    let (method, path) = first_line.split_once(' ').unwrap_or_default();
    method != "GET" && !path.contains("/leases") && !path.contains("accessreviews")
}

#[cfg(test)]
mod tests {
    use super::{head_end, is_write, read_head};

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
    fn reads_and_leases_are_not_counted_as_writes() {
        assert!(is_write("PATCH /api/v1/namespaces/n/pods/p"));
        assert!(!is_write("GET /api/v1/pods?watch=1"));
        assert!(!is_write("PUT /apis/coordination.k8s.io/v1/namespaces/grove-system/leases/pcs-controller"));
    }
}
