//! The metrics of a service, scraped as a monitoring system does.

use std::collections::BTreeMap;

use crate::test_cluster::TestCluster;
use grove_dev_harness::http;

/// Values by name and labels, as `/metrics` prints them.
pub type Samples = BTreeMap<String, f64>;

/// The metrics of a service of the cluster.
///
/// # Panics
/// If the service does not respond.
pub async fn scrape(cluster: &TestCluster, service: &str) -> Samples {
    scrape_port(cluster.port(&format!("{service}-metrics"))).await.expect("a response")
}

/// The metrics on a local port; `None` if no process listens there.
///
/// # Panics
/// If the response is not 200.
pub async fn scrape_port(port: u16) -> Option<Samples> {
    let (status, body) = http::send(port, "GET", "/metrics", "").await.ok()?;
    assert_eq!(status, 200, "{body}");
    let samples = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Some(samples.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect())
}

/// The metrics that increased between two scrapes, and by how much.
pub fn increases(before: &Samples, after: &Samples) -> Samples {
    let increased = after.iter().map(|(name, now)| (name.clone(), now - before.get(name).copied().unwrap_or_default()));
    increased.filter(|(_, by)| *by > 0.0).collect()
}
