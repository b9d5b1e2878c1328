//! Watches what the API server stores of a domain: its status, and the objects of its cliques.

use super::daemon::TimedReport;
use super::formation::Report;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, ComputeDomainState};
use grove_dev_harness::live_objects::changes;
use kube::{Client, ResourceExt};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

/// A running observer. It stops when the value is dropped.
pub(super) struct Observer {
    _task: JoinSet<()>,
}

impl Observer {
    /// Reports each version of the domain and of its cliques.
    pub(super) fn start(
        client: &Client,
        domain: &ComputeDomain,
        strategy: Strategy,
        reports: UnboundedSender<TimedReport>,
    ) -> Self {
        let of_domain = of_domain(client, domain, strategy);
        let of_cliques = of_cliques(client, domain);
        let mut versions = Box::pin(stream::select(of_domain, of_cliques));
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(report) = versions.next().await {
                if reports.send((Instant::now(), report)).is_err() {
                    return;
                }
            }
        });
        Self { _task: task }
    }
}

fn of_domain(client: &Client, domain: &ComputeDomain, strategy: Strategy) -> BoxStream<'static, Report> {
    let (name, namespace) = (domain.name_any(), domain.namespace().unwrap_or_default());
    let domains = changes::<ComputeDomainState>(client, &namespace).flat_map(stream::iter);
    let of_domain = domains.filter(move |change| std::future::ready(change.name == name));
    let reports = of_domain.flat_map(move |change| {
        let status = change.object.map(|domain| domain.status).unwrap_or_default();
        let entries = Report::Entries(status.nodes.into_iter().map(Entry::from).collect());
        let is_ready = Report::Domain { is_ready: status.status == Some(Readiness::Ready) };
        stream::iter((!strategy.has_cliques()).then_some(entries).into_iter().chain([is_ready]))
    });
    reports.boxed()
}

fn of_cliques(client: &Client, domain: &ComputeDomain) -> BoxStream<'static, Report> {
    let prefix = format!("{}.", domain.uid().unwrap_or_default());
    let cliques = changes::<ComputeDomainClique>(client, SYSTEM_NAMESPACE).flat_map(stream::iter);
    let reports = cliques.filter_map(move |change| {
        let clique = change.name.strip_prefix(&prefix).map(str::to_owned);
        let entries = change.object.map(|object| object.daemons).unwrap_or_default();
        std::future::ready(clique.map(|clique| Report::CliqueEntries { clique, entries }))
    });
    reports.boxed()
}
