//! The figures of the API server: its own metrics, its CPU time and its memory, and the size of the objects.

use super::super::usage;
use crate::control_plane::API_SERVER;
use crate::dev_cluster::DevCluster;
use crate::domain_simulation::daemon::Program;
use anyhow::{Context, Result};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::{ComputeDomain, GROUP};
use grove_dev_harness::process_memory;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use std::collections::BTreeMap;

/// The API server of the dev cluster.
pub(super) struct ApiServer {
    client: Client,
    pid: i32,
}

/// What the API server has counted since it started, by the names below, and its memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures(pub(super) BTreeMap<&'static str, f64>);

/// The size of the largest object that contains entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectSize {
    pub(super) bytes: usize,
    pub(super) managed_fields: usize,
}

/// The writes of domains and cliques that succeeded.
pub(super) const WRITES: &str = "object writes";
/// The writes that the API server rejected with 409.
pub(super) const CONFLICTS: &str = "409";
/// The requests that it rejected with 429.
pub(super) const THROTTLED: &str = "429";
/// The watch events of domains and cliques.
pub(super) const EVENTS: &str = "watch events";
/// Their size.
pub(super) const BYTES: &str = "watch bytes";
/// The size of the watch events of pods.
pub(super) const POD_BYTES: &str = "pod watch bytes";
/// The watches that the API server has closed, because the client was too slow.
pub(super) const CLOSED: &str = "closed watches";
/// The CPU time of the process.
pub(super) const CPU: &str = "API server CPU s";
/// The growth of its resident memory, in MB.
pub(super) const MEMORY: &str = "API server MB more";

impl ApiServer {
    pub(super) fn of(cluster: &DevCluster, client: Client) -> Result<Self> {
        let running = cluster.processes.running();
        let (_, pid) =
            running.into_iter().find(|(name, _)| name == API_SERVER).context("the API server does not run")?;
        Ok(Self { client, pid })
    }

    /// Reads all figures.
    pub(super) async fn read(&self) -> Result<Figures> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let mut figures = from_metrics(&self.client.request_text(request).await?);
        figures.insert(CPU, usage::of(self.pid)?.cpu_seconds);
        figures.insert(MEMORY, process_memory::of(self.pid)?.resident);
        Ok(Figures(figures))
    }

    /// The size of the largest object of the domain with entries, as JSON.
    pub(super) async fn largest_object(&self, program: Program, domain: &ComputeDomain) -> Result<ObjectSize> {
        let objects = if program.strategy().has_cliques() {
            let resource = ApiResource::erase::<ComputeDomainClique>(&());
            let cliques = Api::<DynamicObject>::namespaced_with(self.client.clone(), SYSTEM_NAMESPACE, &resource);
            cliques.list(&ListParams::default()).await?.items
        } else {
            let namespace = domain.namespace().unwrap_or_default();
            let resource = ApiResource::erase::<ComputeDomain>(&());
            let domains = Api::<DynamicObject>::namespaced_with(self.client.clone(), &namespace, &resource);
            vec![domains.get(&domain.name_any()).await?]
        };
        let sizes = objects.iter().map(ObjectSize::of).collect::<Result<Vec<_>>>()?;
        Ok(sizes.into_iter().max_by_key(|size| size.bytes).unwrap_or_default())
    }
}

impl ObjectSize {
    fn of(object: &DynamicObject) -> Result<Self> {
        let managed_fields = serde_json::to_vec(&object.meta().managed_fields)?.len();
        Ok(Self { bytes: serde_json::to_vec(object)?.len(), managed_fields })
    }
}

impl Figures {
    /// The changes since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let earlier = |name| before.0.get(name).copied().unwrap_or_default();
        Self(self.0.iter().map(|(name, now)| (*name, now - earlier(name))).collect())
    }
}

/// The figures in the metrics of the API server.
fn from_metrics(text: &str) -> BTreeMap<&'static str, f64> {
    let mut figures: BTreeMap<_, _> =
        [WRITES, CONFLICTS, THROTTLED, EVENTS, BYTES, POD_BYTES, CLOSED].map(|name| (name, 0.0)).into();
    for (series, value) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
        let (Some(figure), Ok(value)) = (figure_of(series), value.parse::<f64>()) else { continue };
        *figures.entry(figure).or_default() += value;
    }
    figures
}

/// The figure to which a time series belongs.
fn figure_of(series: &str) -> Option<&'static str> {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let has = |label: &str, value: &str| labels.contains(&format!("{label}=\"{value}\""));
    let is_write = ["POST", "PUT", "PATCH", "APPLY"].iter().any(|verb| has("verb", verb));
    let is_domain = has("group", GROUP);
    let is_success = has("code", "200") || has("code", "201");
    match name {
        "apiserver_request_total" if has("code", "429") => Some(THROTTLED),
        "apiserver_request_total" if is_write && has("code", "409") => Some(CONFLICTS),
        "apiserver_request_total" if is_write && is_domain && is_success => Some(WRITES),
        "apiserver_watch_events_total" if is_domain => Some(EVENTS),
        "apiserver_watch_events_sizes_sum" if is_domain => Some(BYTES),
        "apiserver_watch_events_sizes_sum" if has("resource", "pods") => Some(POD_BYTES),
        "apiserver_terminated_watchers_total" => Some(CLOSED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# HELP apiserver_request_total Counter
apiserver_request_total{code="200",group="resource.nvidia.com",resource="computedomains",verb="PUT"} 3
apiserver_request_total{code="201",group="resource.nvidia.com",resource="computedomaincliques",verb="POST"} 1
apiserver_request_total{code="200",group="resource.nvidia.com",resource="computedomains",verb="GET"} 50
apiserver_request_total{code="409",group="resource.nvidia.com",resource="computedomains",verb="PUT"} 7
apiserver_request_total{code="429",group="",resource="pods",verb="LIST"} 2
apiserver_terminated_watchers_total{group="",resource="pods"} 4
apiserver_watch_events_total{group="resource.nvidia.com",resource="computedomains",version="v1beta1"} 8
apiserver_watch_events_sizes_sum{group="resource.nvidia.com",resource="computedomains",version="v1beta1"} 900
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 50
apiserver_watch_events_sizes_sum{group="",resource="nodes",version="v1"} 70
"#;

    #[test]
    fn the_metrics_of_the_api_server_become_figures() {
        let figures = Figures(from_metrics(METRICS));
        let before = Figures(BTreeMap::from([(CONFLICTS, 2.0)]));
        let values = figures.since(&before).0;
        let expected = [(WRITES, 4.0), (CONFLICTS, 5.0), (THROTTLED, 2.0), (CLOSED, 4.0), (EVENTS, 8.0)];
        let expected = expected.into_iter().chain([(BYTES, 900.0), (POD_BYTES, 50.0)]).collect::<Vec<_>>();
        assert!(expected.iter().all(|(name, value)| (values[name] - value).abs() < f64::EPSILON), "{values:?}");
    }
}
