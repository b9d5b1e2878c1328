//! What is there, counted from watches of our own: one count per kind, and when each of them changed.

use super::workload::NAMESPACE;
use anyhow::{Context, Result};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangPhase};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::slim::SlimPod;
use grove_runtime::caches::{self, Delta};
use grove_runtime::client::Clients;
use grove_runtime::metrics::Metrics;
use grove_runtime::ready::Ready;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// A phase that takes longer has gone wrong.
const WITHIN: Duration = Duration::from_mins(15);

/// How many objects there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sets: u32,
    /// Sets that say of their present generation that they are available.
    pub(super) sets_available: u32,
    pub(super) services: u32,
    pub(super) gangs: u32,
    /// Gangs that say that they run.
    pub(super) gangs_running: u32,
    pub(super) cliques: u32,
    /// Cliques that say that all their pods are ready.
    pub(super) cliques_ready: u32,
    pub(super) pods: u32,
    pub(super) pods_ready: u32,
}

impl Counts {
    pub(super) fn objects(&self) -> u32 {
        self.sets + self.services + self.gangs + self.cliques + self.pods
    }
}

/// The counts from the begin of a phase on, each with when it came to be.
pub(super) type Timeline = Vec<(Instant, Counts)>;

/// Watches the benchmark's namespace until it is dropped.
pub(super) struct Tally {
    counts: watch::Receiver<(Instant, Counts)>,
    timeline: Arc<Mutex<Timeline>>,
    counting: tokio::task::JoinHandle<()>,
    pods: caches::Cache<SlimPod>,
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.counting.abort();
    }
}

impl Tally {
    /// Returns once what is there already has been counted.
    pub(super) async fn begin(clients: &Clients) -> Result<Self> {
        let (ready, metrics) = (Ready::new(), Metrics::new()?);
        let watches = Watches { clients, ready: &ready, metrics: &metrics };
        let (pods, of_pods) = watches.kind::<SlimPod>();
        let mut changes = SelectAll::new();
        changes.push(bits(of_pods, |pod, counts| {
            counts.pods = 1;
            counts.pods_ready = u32::from(pod.is_ready() && !pod.is_terminating());
        }));
        changes.push(bits(watches.kind::<PodClique>().1, |clique, counts| {
            let ready = clique.status.as_ref().map(|status| status.ready_replicas);
            counts.cliques = 1;
            counts.cliques_ready = u32::from(ready == Some(clique.spec.replicas));
        }));
        changes.push(bits(watches.kind::<PodGang>().1, |gang, counts| {
            let phase = gang.status.as_ref().map(|status| status.phase);
            counts.gangs = 1;
            counts.gangs_running = u32::from(phase == Some(PodGangPhase::Running));
        }));
        changes.push(bits(watches.kind::<Service>().1, |_, counts| counts.services = 1));
        changes.push(bits(watches.kind::<PodCliqueSet>().1, |set, counts| {
            counts.sets = 1;
            counts.sets_available = u32::from(is_available(set));
        }));
        let (sender, counts) = watch::channel((Instant::now(), Counts::default()));
        let timeline = Arc::default();
        let counting = tokio::spawn(count(changes, sender, Arc::clone(&timeline)));
        ready.wait().await;
        Ok(Self { counts, timeline, counting, pods })
    }

    /// Waits until `reached` holds of the counts, and returns when that first was so.
    pub(super) async fn until(&self, what: &str, reached: impl Fn(&Counts) -> bool) -> Result<Instant> {
        let mut counts = self.counts.clone();
        let found = timeout(WITHIN, counts.wait_for(|(_, counts)| reached(counts))).await;
        let now = self.counts.borrow().1;
        let found = found.with_context(|| format!("not so after {WITHIN:?}: {what}; there are {now:?}"))?;
        let latest = found.context("the watches ended")?.0;
        let timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let first = timeline.iter().find(|(_, counts)| reached(counts));
        Ok(first.map_or(latest, |(at, _)| *at))
    }

    /// Waits until nothing of a set is there.
    pub(super) async fn until_empty(&self) -> Result<Instant> {
        self.until("nothing is left", |counts| counts.objects() == 0).await
    }

    /// The pods that are there.
    pub(super) fn pods(&self) -> Vec<Arc<SlimPod>> {
        self.pods.all()
    }

    /// The counts since the last call.
    pub(super) fn take_timeline(&self) -> Timeline {
        std::mem::take(&mut *self.timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Watches<'a> {
    clients: &'a Clients,
    ready: &'a Ready,
    metrics: &'a Metrics,
}

impl Watches<'_> {
    fn kind<K>(&self) -> (caches::Cache<K>, BoxStream<'static, Delta<K>>)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let api = Api::namespaced(self.clients.watches.clone(), NAMESPACE);
        let ready = self.ready.register(K::plural(&()));
        let (cache, changes) =
            caches::start_informer(api, watcher::Config::default(), ready, (None, None), self.metrics);
        (cache, changes.boxed())
    }
}

/// What one object contributes to the counts: its uid, and nothing once it is gone.
type Bit = (String, Option<Counts>);

fn bits<K: Resource + Send + Sync + 'static>(
    changes: BoxStream<'static, Delta<K>>,
    count: fn(&K, &mut Counts),
) -> BoxStream<'static, Bit> {
    let bit = move |delta: Delta<K>| {
        let uid = delta.object().and_then(|object| object.uid()).unwrap_or_default();
        let counts = delta.new.map(|object| {
            let mut counts = Counts::default();
            count(&object, &mut counts);
            counts
        });
        (uid, counts)
    };
    changes.map(bit).boxed()
}

async fn count(
    mut changes: SelectAll<BoxStream<'static, Bit>>,
    counts: watch::Sender<(Instant, Counts)>,
    timeline: Arc<Mutex<Timeline>>,
) {
    let mut seen: BTreeMap<String, Counts> = BTreeMap::new();
    let mut sum = Counts::default();
    while let Some((uid, bit)) = changes.next().await {
        let before = match bit {
            Some(bit) => seen.insert(uid, bit),
            None => seen.remove(&uid),
        };
        let after = changed(sum, before.unwrap_or_default(), bit.unwrap_or_default());
        if after != sum {
            sum = after;
            let now = (Instant::now(), sum);
            timeline.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            counts.send_replace(now);
        }
    }
}

fn changed(sum: Counts, before: Counts, after: Counts) -> Counts {
    let change = |sum: u32, before: u32, after: u32| (sum + after).saturating_sub(before);
    Counts {
        sets: change(sum.sets, before.sets, after.sets),
        sets_available: change(sum.sets_available, before.sets_available, after.sets_available),
        services: change(sum.services, before.services, after.services),
        gangs: change(sum.gangs, before.gangs, after.gangs),
        gangs_running: change(sum.gangs_running, before.gangs_running, after.gangs_running),
        cliques: change(sum.cliques, before.cliques, after.cliques),
        cliques_ready: change(sum.cliques_ready, before.cliques_ready, after.cliques_ready),
        pods: change(sum.pods, before.pods, after.pods),
        pods_ready: change(sum.pods_ready, before.pods_ready, after.pods_ready),
    }
}

fn is_available(set: &PodCliqueSet) -> bool {
    let Some(status) = &set.status else { return false };
    let says_so =
        status.conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True");
    says_so && status.observed_generation == set.metadata.generation && status.available_replicas == set.spec.replicas
}

#[cfg(test)]
mod tests {
    use super::{Counts, changed};

    #[test]
    fn a_change_of_one_object_is_a_change_of_the_sum() {
        let there = Counts { pods: 1, ..Counts::default() };
        let ready = Counts { pods_ready: 1, ..there };
        let sum = changed(changed(Counts::default(), Counts::default(), there), Counts::default(), there);
        let sum = changed(sum, there, ready);
        assert_eq!(sum, Counts { pods: 2, pods_ready: 1, ..Counts::default() });
        assert_eq!(changed(sum, ready, Counts::default()), there);
        assert_eq!(sum.objects(), 2);
    }
}
