//! What a service counts, as a monitoring system would read it.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::plane::Plane;

/// Samples by name and labels, as `/metrics` spells them.
pub type Samples = BTreeMap<String, f64>;

/// The samples of a service on the plane.
///
/// # Panics
/// When the service does not answer.
pub async fn of(plane: &Plane, service: &str) -> Samples {
    let mut stream =
        TcpStream::connect(("127.0.0.1", plane.port(&format!("{service}-metrics")))).await.expect("it listens");
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer in UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let samples = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect()
}

/// What grew between two looks, by how much.
pub fn growth(before: &Samples, after: &Samples) -> Samples {
    let grown = after.iter().map(|(name, now)| (name.clone(), now - before.get(name).copied().unwrap_or_default()));
    grown.filter(|(_, by)| *by > 0.0).collect()
}
