//! Counts the objects of the benchmark's namespace, from watches of the benchmark's own, with the time of each change.

use super::pod_group::PodGroup;
use super::workload::{NAMESPACE, NEW_IMAGE, Workload};
use anyhow::{Context, Result};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangPhase};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::live_objects::{self, Kind, ObjectChange, is_available, is_ready};
use grove_dev_harness::wait;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// Bounds a hang. A phase never takes as long.
const PHASE_TIMEOUT: Duration = Duration::from_mins(15);

/// How many objects there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sets: u32,
    /// Sets with the condition Available and all replicas available, in a status of their current generation.
    pub(super) sets_available: u32,
    pub(super) services: u32,
    pub(super) gangs: u32,
    /// Gangs whose status has the phase Running.
    pub(super) gangs_running: u32,
    /// The `PodGroup`s of the gangs, also terminating ones.
    pub(super) pod_groups: u32,
    pub(super) cliques: u32,
    /// Cliques whose status counts all pods as ready.
    pub(super) cliques_ready: u32,
    pub(super) pods: u32,
    /// Pods that are Ready and not terminating.
    pub(super) pods_ready: u32,
    /// Those of them that have the image of an update.
    pub(super) pods_updated: u32,
}

impl Counts {
    pub(super) fn objects(&self) -> u32 {
        self.sets + self.services + self.gangs + self.pod_groups + self.cliques + self.pods
    }
}

/// Each change of the counts, with its time.
pub(super) type Timeline = Vec<(Instant, Counts)>;

/// Watches the benchmark's namespace until it is dropped.
pub(super) struct ObjectCounts {
    workload: Workload,
    counts: watch::Receiver<(Instant, Counts)>,
    timeline: Arc<Mutex<Timeline>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for ObjectCounts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ObjectCounts {
    /// Starts the watches, and returns when the counts contain all existing objects. The API server serves `PodGroup`s if the
    /// workload has them.
    pub(super) async fn start(client: &Client, workload: Workload) -> Self {
        let mut kinds = SelectAll::from_iter([
            contributions(client, |pod: &Pod| {
                let serves = is_ready(pod) && !is_terminating(pod);
                let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                let is_new = containers.any(|container| container.image.as_deref() == Some(NEW_IMAGE));
                Counts {
                    pods: 1,
                    pods_ready: u32::from(serves),
                    pods_updated: u32::from(serves && is_new),
                    ..Counts::default()
                }
            }),
            contributions(client, |clique: &PodClique| {
                let ready = clique.status.as_ref().map(|status| status.ready_replicas);
                Counts {
                    cliques: 1,
                    cliques_ready: u32::from(ready == Some(clique.spec.replicas)),
                    ..Counts::default()
                }
            }),
            contributions(client, |gang: &PodGang| {
                let phase = gang.status.as_ref().map(|status| status.phase);
                Counts { gangs: 1, gangs_running: u32::from(phase == Some(PodGangPhase::Running)), ..Counts::default() }
            }),
            contributions(client, |_: &Service| Counts { services: 1, ..Counts::default() }),
            contributions(client, |set: &PodCliqueSet| Counts {
                sets: 1,
                sets_available: u32::from(is_available(set)),
                ..Counts::default()
            }),
        ]);
        if workload.has_pod_groups() {
            kinds.push(contributions(client, |_: &PodGroup| Counts { pod_groups: 1, ..Counts::default() }));
        }
        let unlisted = kinds.len();
        let (sender, counts) = watch::channel((Instant::now(), Counts::default()));
        let (listed, mut lists) = watch::channel(0);
        let timeline = Arc::default();
        let task = tokio::spawn(count(kinds, sender, Arc::clone(&timeline), listed));
        // The sender outlives this call, so the wait ends only with the lists.
        _ = lists.wait_for(|lists| *lists == unlisted).await;
        Self { workload, counts, timeline, task }
    }

    /// Waits until `reached` is true, and returns the time at which it became true.
    pub(super) async fn wait_for(&self, what: &str, reached: impl Fn(&Counts) -> bool) -> Result<Instant> {
        let mut counts = self.counts.clone();
        let found = timeout(PHASE_TIMEOUT, counts.wait_for(|(_, counts)| reached(counts))).await;
        let now = self.counts.borrow().1;
        let found = found.with_context(|| format!("not reached after {PHASE_TIMEOUT:?}: {what}; counts: {now:?}"))?;
        let latest = found.context("the watches ended")?.0;
        let timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let first = timeline.iter().find(|(_, counts)| reached(counts));
        Ok(first.map_or(latest, |(at, _)| *at))
    }

    /// Waits until there are only the objects of this many replicas.
    pub(super) async fn wait_until_surplus_is_deleted(&self, replicas: u32) -> Result<Instant> {
        let pod_groups = if self.workload.has_pod_groups() { replicas } else { 0 };
        let pods = replicas * self.workload.pods_per_replica();
        let is_exact = |counts: &Counts| {
            let [services, gangs, cliques] = [counts.services, counts.gangs, counts.cliques];
            counts.pods == pods && counts.pod_groups == pod_groups && [services, gangs, cliques] == [replicas; 3]
        };
        self.wait_for("all surplus objects are deleted", is_exact).await
    }

    /// Waits until the namespace has no object of a set.
    pub(super) async fn wait_until_empty(&self) -> Result<Instant> {
        self.wait_for("all objects are deleted", |counts| counts.objects() == 0).await
    }

    /// The changes since the last call.
    pub(super) fn take_timeline(&self) -> Timeline {
        std::mem::take(&mut *self.timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits until no object of this kind exists. [`ObjectCounts`] waits for the kinds that it counts.
pub(super) async fn wait_until_none<K>(api: &Api<K>) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let listed =
        wait::poll(Duration::from_millis(100), async || match api.list_metadata(&ListParams::default()).await {
            Ok(objects) => objects.items.is_empty().then_some(Ok(())),
            Err(error) => Some(Err(error)),
        });
    Ok(listed.await?)
}

/// The contributions of the objects of one watch event to the counts, by kind and name; `None` for a deleted object.
struct Contributions {
    /// Whether this is the initial list of the kind.
    is_initial: bool,
    objects: Vec<(String, Option<Counts>)>,
}

fn contributions<K: Kind>(client: &Client, count: fn(&K) -> Counts) -> BoxStream<'static, Contributions> {
    let contribution = move |ObjectChange { name, object }: ObjectChange<K>| {
        (format!("{}/{name}", K::kind(&())), object.as_ref().map(count))
    };
    let mut is_initial = true;
    let items = live_objects::changes::<K>(client, NAMESPACE).map(move |changes| Contributions {
        is_initial: std::mem::take(&mut is_initial),
        objects: changes.into_iter().map(contribution).collect(),
    });
    items.boxed()
}

/// Adds up the contributions. `listed` counts the kinds whose initial list has arrived.
async fn count(
    mut kinds: SelectAll<BoxStream<'static, Contributions>>,
    counts: watch::Sender<(Instant, Counts)>,
    timeline: Arc<Mutex<Timeline>>,
    listed: watch::Sender<usize>,
) {
    let mut known: BTreeMap<String, Counts> = BTreeMap::new();
    let mut sum = Counts::default();
    while let Some(Contributions { is_initial, objects }) = kinds.next().await {
        let before = sum;
        for (key, contribution) in objects {
            let old = match contribution {
                Some(new) => known.insert(key, new),
                None => known.remove(&key),
            };
            sum = replaced(sum, old.unwrap_or_default(), contribution.unwrap_or_default());
        }
        if sum != before {
            let now = (Instant::now(), sum);
            timeline.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            counts.send_replace(now);
        }
        if is_initial {
            listed.send_modify(|listed| *listed += 1);
        }
    }
}

/// The sum after the contribution of one object changed from `old` to `new`.
fn replaced(sum: Counts, old: Counts, new: Counts) -> Counts {
    let change = |sum: u32, old: u32, new: u32| (sum + new).saturating_sub(old);
    Counts {
        sets: change(sum.sets, old.sets, new.sets),
        sets_available: change(sum.sets_available, old.sets_available, new.sets_available),
        services: change(sum.services, old.services, new.services),
        gangs: change(sum.gangs, old.gangs, new.gangs),
        gangs_running: change(sum.gangs_running, old.gangs_running, new.gangs_running),
        pod_groups: change(sum.pod_groups, old.pod_groups, new.pod_groups),
        cliques: change(sum.cliques, old.cliques, new.cliques),
        cliques_ready: change(sum.cliques_ready, old.cliques_ready, new.cliques_ready),
        pods: change(sum.pods, old.pods, new.pods),
        pods_ready: change(sum.pods_ready, old.pods_ready, new.pods_ready),
        pods_updated: change(sum.pods_updated, old.pods_updated, new.pods_updated),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, replaced};

    #[test]
    fn a_change_of_one_object_changes_the_sum() {
        let created = Counts { pods: 1, ..Counts::default() };
        let ready = Counts { pods_ready: 1, ..created };
        let sum = replaced(replaced(Counts::default(), Counts::default(), created), Counts::default(), created);
        let sum = replaced(sum, created, ready);
        assert_eq!(sum, Counts { pods: 2, pods_ready: 1, ..Counts::default() });
        assert_eq!(replaced(sum, ready, Counts::default()), created);
        assert_eq!(sum.objects(), 2);
    }
}
