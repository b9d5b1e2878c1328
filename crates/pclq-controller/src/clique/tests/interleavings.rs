//! An index never has two live pods, even if the cache is stale, and for each order in which pods are deleted.
//!
//! The test explores all interleavings, up to a depth, of the events in a real cluster: the API server stores a pod, a pod fails,
//! is terminating or is deleted, the cache receives one watch event, or the reconciler plans from the cache and executes its
//! plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api_types::v1alpha1::PodClique;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Create, Delete, Plan, Step};
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;
use serde_json::json;

use super::{ProcessMemory, check_invariants, plan, snapshot};
use crate::write_history::CliqueWrites;

const DEPTH: u32 = 14;

/// The events of the cluster.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The reconciler runs with the current cache.
    Reconcile,
    /// The cache receives the next watch event.
    Watch,
    /// A user deletes the oldest live pod, which begins to terminate.
    Terminate,
    /// The oldest live pod fails.
    Fail,
    /// The API server deletes the oldest terminating pod.
    DeleteOldest,
    /// The API server deletes the newest terminating pod.
    DeleteNewest,
}

const EVENTS: [Event; 6] =
    [Event::Reconcile, Event::Watch, Event::Terminate, Event::Fail, Event::DeleteOldest, Event::DeleteNewest];

/// A watch event: the pod, and whether it was deleted.
type WatchEvent = (SlimPod, bool);

/// A change of the expectations. They cannot be cloned, so each reconcile repeats all changes on new expectations.
#[derive(Clone)]
enum MemoryEvent {
    Executed(Arc<Plan>, Arc<ExecutionResult>),
    Deleted(Arc<SlimPod>),
}

#[derive(Clone, Default)]
struct Cluster {
    stored: Vec<SlimPod>,
    created: u32,
    pending_events: Vec<WatchEvent>,
    cached: BTreeMap<String, SlimPod>,
    tombstones: BTreeMap<i32, SlimPod>,
    history: Vec<MemoryEvent>,
    own_writes: CliqueWrites,
}

impl Cluster {
    /// Performs the event; returns whether it changed anything.
    fn perform(&mut self, event: Event) -> bool {
        match event {
            Event::Reconcile => self.reconcile(),
            Event::Watch => self.watch(),
            Event::Terminate => self.oldest(SlimPod::is_live).is_some_and(|at| self.terminate(at)),
            Event::Fail => self.oldest(SlimPod::is_live).is_some_and(|at| {
                self.stored[at].status.phase = Some("Failed".into());
                self.notify(at, false)
            }),
            Event::DeleteOldest => self.oldest(SlimPod::is_terminating).is_some_and(|at| self.delete(at)),
            Event::DeleteNewest => {
                let newest = self.stored.iter().rposition(SlimPod::is_terminating);
                newest.is_some_and(|at| self.delete(at))
            }
        }
    }

    fn oldest(&self, is: fn(&SlimPod) -> bool) -> Option<usize> {
        self.stored.iter().position(is)
    }

    fn terminate(&mut self, at: usize) -> bool {
        let terminating = snapshot("{pods: [{name: x, terminating: true}]}");
        self.stored[at].metadata.deletion_timestamp = terminating.pods[0].metadata.deletion_timestamp.clone();
        self.notify(at, false)
    }

    fn delete(&mut self, at: usize) -> bool {
        self.notify(at, true);
        self.stored.remove(at);
        true
    }

    fn notify(&mut self, at: usize, is_deleted: bool) -> bool {
        self.pending_events.push((self.stored[at].clone(), is_deleted));
        true
    }

    fn watch(&mut self) -> bool {
        if self.pending_events.is_empty() {
            return false;
        }
        let (pod, is_deleted) = self.pending_events.remove(0);
        if is_deleted {
            self.history.push(MemoryEvent::Deleted(Arc::new(pod.clone())));
            self.cached.remove(&pod.name_any());
            self.tombstones.extend(crate::pod::index(&pod).map(|index| (index, pod)));
        } else {
            self.cached.insert(pod.name_any(), pod);
        }
        true
    }

    fn reconcile(&mut self) -> bool {
        let mut observed = snapshot("{replicas: 1, gang: []}");
        observed.pods = self.cached.values().cloned().map(Arc::new).collect();
        observed.tombstones = self.tombstones.values().cloned().map(Arc::new).collect();
        let memory = self.memory(&observed.clique);
        memory.observe(&mut observed, 1);
        let plan = plan(&observed);
        check_invariants(&observed, &plan);
        let before = (self.stored.len(), self.pending_events.len());
        let mut done = ExecutionResult::default();
        for step in plan.steps() {
            let mut target = step.target().clone();
            match step {
                Step::Create(create) => target.uid = self.create(create),
                Step::Delete(Delete { target, .. }) => {
                    let is_it = |pod: &SlimPod| pod.metadata.uid == target.uid && !pod.is_terminating();
                    self.stored.iter().position(is_it).map(|at| self.terminate(at));
                }
                Step::Patch(_) | Step::Adopt(_) => {}
            }
            done.steps.push(StepResult::new("pods", step.verb(), target, Ok(())));
        }
        memory.record(&observed.clique, 1, &plan, &done);
        self.own_writes = memory.write_history.of_clique("clique-uid", std::iter::empty(), &observed.pending_creates);
        if !plan.is_empty() {
            self.history.push(MemoryEvent::Executed(Arc::new(plan), Arc::new(done)));
        }
        before != (self.stored.len(), self.pending_events.len())
    }

    /// The in-memory state about the writes of the process.
    fn memory(&self, clique: &PodClique) -> ProcessMemory {
        let write_history = BTreeMap::from([("clique-uid".to_owned(), self.own_writes.clone())]).into();
        let memory = ProcessMemory { write_history, ..ProcessMemory::default() };
        for event in &self.history {
            match event {
                MemoryEvent::Executed(plan, done) => {
                    memory.creates.expectations.expect_creations(clique, plan, |_| 1);
                    memory.creates.expectations.record_results(clique, done);
                }
                MemoryEvent::Deleted(pod) => memory.creates.expectations.drop_deleted(&**pod),
            }
        }
        memory
    }

    /// The API server answers with the existing pod of that name, or with a new one.
    fn create(&mut self, Create { target, object }: &Create) -> Option<String> {
        if let Some(there) = self.stored.iter().find(|pod| pod.name_any() == target.name) {
            return there.uid();
        }
        let mut pod: SlimPod = serde_json::from_value(json!({ "metadata": object.value()["metadata"] })).unwrap();
        self.created += 1;
        // All pods have the same age and unordered uids, so neither shows which pod is the latest.
        pod.metadata.uid = Some(format!("uid-{}", (self.created * 7) % 10));
        self.stored.push(pod);
        self.notify(self.stored.len() - 1, false);
        self.stored.last().and_then(ResourceExt::uid)
    }
}

/// Explores every sequence of events from this state; a sequence ends if an event changes nothing.
fn explore(cluster: &Cluster, depth: u32, events: &mut Vec<Event>, explored: &mut u32) {
    let live: Vec<_> = cluster.stored.iter().filter(|pod| pod.is_live()).map(ResourceExt::name_any).collect();
    assert!(live.len() <= 1, "{live:?} at one index after {events:?}");
    *explored += 1;
    if depth == 0 {
        return;
    }
    for event in EVENTS {
        let mut next = cluster.clone();
        if next.perform(event) {
            events.push(event);
            explore(&next, depth - 1, events, explored);
            events.pop();
        }
    }
}

#[test]
fn no_order_of_events_creates_two_live_pods_of_one_index() {
    let mut explored = 0;
    explore(&Cluster::default(), DEPTH, &mut vec![], &mut explored);
    assert!(explored > 10_000, "only {explored} states were observed");
}

#[test]
fn the_clique_converges_to_one_pod_after_any_events() {
    let mut cluster = Cluster::default();
    for round in 0..60_usize {
        cluster.perform(EVENTS[(round * 5 + round / 7) % EVENTS.len()]);
    }
    while cluster.watch() || cluster.perform(Event::DeleteOldest) || cluster.reconcile() {}
    assert_eq!(cluster.stored.iter().filter(|pod| pod.is_live()).count(), 1);
    assert_eq!(cluster.stored.len(), 1);
}
