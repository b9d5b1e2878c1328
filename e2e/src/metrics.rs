//! What a service counts, as a monitoring system would read it.

use std::collections::BTreeMap;

use crate::plane::Plane;
use grove_dev_harness::http;

/// Samples by name and labels, as `/metrics` spells them.
pub type Samples = BTreeMap<String, f64>;

/// The samples of a service on the plane.
///
/// # Panics
/// When the service does not answer.
pub async fn of(plane: &Plane, service: &str) -> Samples {
    at(plane.port(&format!("{service}-metrics"))).await.expect("it listens")
}

/// The samples of a service at this port of the machine; none while it does not listen.
///
/// # Panics
/// When it answers otherwise than monitoring systems expect.
pub async fn at(port: u16) -> Option<Samples> {
    let (status, body) = http::send(port, "GET", "/metrics", "").await.ok()?;
    assert_eq!(status, 200, "{body}");
    let samples = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Some(samples.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect())
}

/// What grew between two looks, by how much.
pub fn growth(before: &Samples, after: &Samples) -> Samples {
    let grown = after.iter().map(|(name, now)| (name.clone(), now - before.get(name).copied().unwrap_or_default()));
    grown.filter(|(_, by)| *by > 0.0).collect()
}
