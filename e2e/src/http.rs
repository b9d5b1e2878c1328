//! Plain requests to what listens on this machine: probes, metrics, etcd.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status and the body of the answer.
///
/// # Errors
/// When nobody listens, or what comes is no answer.
pub async fn ask(port: u16, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    // An answer to 1.0 comes in one piece and ends with the connection.
    let request =
        format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("an answer without a head"))?;
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| io::Error::other("an answer without a status"))?, body.to_owned()))
}
