//! However late the cache is, and in whatever order pods go: never two live pods at one index.
//!
//! Every interleaving, to a depth, of what a real cluster does: the API server stores, pods fail, are deleted, and
//! vanish; the cache catches up one event at a time; the reconciler plans from the cache and its plan is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Create, Delete, Step};
use grove_controller::slim::SlimPod;
use kube::ResourceExt;
use serde_json::json;

use super::{laws, world};
use crate::clique::observed;
use crate::clique::plan::plan;
use crate::memory::Memory;

const DEPTH: u32 = 14;

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The reconciler runs on what the cache has.
    Reconcile,
    /// The cache hears of the next change.
    CatchUp,
    /// Somebody deletes the oldest live pod; it takes its time to go.
    Terminate,
    /// The oldest live pod fails.
    Fail,
    /// The oldest terminating pod is gone.
    VanishOldest,
    /// The newest terminating pod is gone.
    VanishNewest,
}

const EVENTS: [Event; 6] =
    [Event::Reconcile, Event::CatchUp, Event::Terminate, Event::Fail, Event::VanishOldest, Event::VanishNewest];

/// A change that the cache will hear of: the pod as it is, or as it was when it went.
type Heard = (SlimPod, bool);

#[derive(Clone, Default)]
struct Cluster {
    stored: Vec<SlimPod>,
    created: u32,
    unheard: Vec<Heard>,
    cached: BTreeMap<String, SlimPod>,
    departed: BTreeMap<i32, SlimPod>,
    remembered: crate::memory::Recollection,
}

impl Cluster {
    /// Whether something happened.
    fn perform(&mut self, event: Event) -> bool {
        match event {
            Event::Reconcile => self.reconcile(),
            Event::CatchUp => self.catch_up(),
            Event::Terminate => self.oldest(SlimPod::is_live).is_some_and(|at| self.terminate(at)),
            Event::Fail => self.oldest(SlimPod::is_live).is_some_and(|at| {
                self.stored[at].status.phase = Some("Failed".into());
                self.tell(at, false)
            }),
            Event::VanishOldest => self.oldest(SlimPod::is_terminating).is_some_and(|at| self.vanish(at)),
            Event::VanishNewest => {
                let newest = self.stored.iter().rposition(SlimPod::is_terminating);
                newest.is_some_and(|at| self.vanish(at))
            }
        }
    }

    fn oldest(&self, is: fn(&SlimPod) -> bool) -> Option<usize> {
        self.stored.iter().position(is)
    }

    fn terminate(&mut self, at: usize) -> bool {
        let leaving = world("{pods: [{name: x, terminating: true}]}");
        self.stored[at].metadata.deletion_timestamp = leaving.pods[0].metadata.deletion_timestamp.clone();
        self.tell(at, false)
    }

    fn vanish(&mut self, at: usize) -> bool {
        self.tell(at, true);
        self.stored.remove(at);
        true
    }

    fn tell(&mut self, at: usize, gone: bool) -> bool {
        self.unheard.push((self.stored[at].clone(), gone));
        true
    }

    fn catch_up(&mut self) -> bool {
        if self.unheard.is_empty() {
            return false;
        }
        let (pod, gone) = self.unheard.remove(0);
        if gone {
            self.cached.remove(&pod.name_any());
            self.departed.extend(observed::index(&pod).map(|index| (index, pod)));
        } else {
            self.cached.insert(pod.name_any(), pod);
        }
        true
    }

    fn reconcile(&mut self) -> bool {
        let mut seen = world("{replicas: 1, gang: []}");
        seen.pods = self.cached.values().cloned().map(Arc::new).collect();
        seen.departed = self.departed.values().cloned().map(Arc::new).collect();
        let memory = Memory::from(BTreeMap::from([("clique-uid".to_owned(), self.remembered.clone())]));
        seen.remembered = memory.recall("clique-uid", seen.ever_seen(), 1);
        let plan = plan(&seen);
        laws(&seen, &plan);
        memory.keep_asked("clique-uid", &plan, 1);
        let before = (self.stored.len(), self.unheard.len());
        let mut done = ExecutionResult::default();
        for step in plan.steps() {
            let mut target = step.target().clone();
            match step {
                Step::Create(create) => target.uid = self.create(create),
                Step::Delete(Delete { target }) => {
                    let is_it = |pod: &SlimPod| pod.metadata.uid == target.uid && !pod.is_terminating();
                    self.stored.iter().position(is_it).map(|at| self.terminate(at));
                }
                Step::Patch(_) | Step::Adopt(_) => {}
            }
            done.steps.push(StepResult { stage: "pods", verb: step.verb(), target, result: Ok(()) });
        }
        memory.keep_answers("clique-uid", &done);
        self.remembered = memory.recall("clique-uid", std::iter::empty(), 1);
        before != (self.stored.len(), self.unheard.len())
    }

    /// The API server answers with the pod that is there, or with a new one.
    fn create(&mut self, Create { target, object }: &Create) -> Option<String> {
        if let Some(there) = self.stored.iter().find(|pod| pod.name_any() == target.name) {
            return there.uid();
        }
        let mut pod: SlimPod = serde_json::from_value(json!({ "metadata": object.value()["metadata"] })).unwrap();
        self.created += 1;
        // All in one second and with uids in no order: age does not tell which pod is the latest.
        pod.metadata.uid = Some(format!("uid-{}", (self.created * 7) % 10));
        self.stored.push(pod);
        self.tell(self.stored.len() - 1, false);
        self.stored.last().and_then(ResourceExt::uid)
    }
}

/// Plays every sequence of events from here; a sequence ends where nothing happens.
fn explore(cluster: &Cluster, depth: u32, story: &mut Vec<Event>, played: &mut u32) {
    let live: Vec<_> = cluster.stored.iter().filter(|pod| pod.is_live()).map(ResourceExt::name_any).collect();
    assert!(live.len() <= 1, "{live:?} at one index after {story:?}");
    *played += 1;
    if depth == 0 {
        return;
    }
    for event in EVENTS {
        let mut next = cluster.clone();
        if next.perform(event) {
            story.push(event);
            explore(&next, depth - 1, story, played);
            story.pop();
        }
    }
}

#[test]
fn no_order_of_events_makes_two_live_pods_of_one_index() {
    let mut played = 0;
    explore(&Cluster::default(), DEPTH, &mut vec![], &mut played);
    assert!(played > 10_000, "only {played} states were seen");
}

#[test]
fn whatever_happened_the_clique_comes_to_rest_with_its_pod() {
    let mut cluster = Cluster::default();
    for round in 0..60_usize {
        cluster.perform(EVENTS[(round * 5 + round / 7) % EVENTS.len()]);
    }
    while cluster.catch_up() || cluster.perform(Event::VanishOldest) || cluster.reconcile() {}
    assert_eq!(cluster.stored.iter().filter(|pod| pod.is_live()).count(), 1);
    assert_eq!(cluster.stored.len(), 1);
}
