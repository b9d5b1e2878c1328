//! The lifetime of the claims per pod for random orders of events: scale-in and scale-out, scheduling, deletions of pods, and watch events
//! of pods and claims that arrive late and independently of each other.
//!
//! A pod is created only when its claim exists and stays, never with the claim of an index that was removed in between, and no claim
//! is deleted before the pods that refer to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use grove_api_types::names::PodCliqueName;
use grove_api_types::resource_claim::ResourceClaim;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::expectations::Expectations;
use grove_controller::plan::{Create, Delete, Plan, Step};
use grove_controller::slim_pod::SlimPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{NAME, ProcessMemory, snapshot};
use crate::claims::{self, RetiredClaims, pod_index_of_claim};
use crate::clique::{observed::Observed, plan};
use crate::pod::index;

const WALKS: u64 = 400;
const EVENTS_PER_WALK: usize = 60;
const ROW: &str = "{gang: [], claims: {own: [{t: gpus, per: true}]}}";

/// Objects of one kind: those of the API server, those of the cache, and the watch events in between.
struct Objects<K> {
    stored: Vec<K>,
    cached: BTreeMap<String, K>,
    events: VecDeque<(K, bool)>,
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        Self { stored: vec![], cached: BTreeMap::new(), events: VecDeque::new() }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Objects<K> {
    fn change(&mut self, at: usize, change: impl FnOnce(&mut K)) {
        change(&mut self.stored[at]);
        self.events.push_back((self.stored[at].clone(), false));
    }

    fn add(&mut self, object: K) {
        self.events.push_back((object.clone(), false));
        self.stored.push(object);
    }

    fn remove(&mut self, at: usize) {
        let object = self.stored.remove(at);
        self.events.push_back((object, true));
    }

    /// Delivers the next watch event; returns a deleted object.
    fn watch(&mut self) -> Option<K> {
        let (object, is_deleted) = self.events.pop_front()?;
        if is_deleted {
            self.cached.remove(&object.name_any());
            return Some(object);
        }
        self.cached.insert(object.name_any(), object);
        None
    }
}

struct Cluster {
    replicas: i32,
    pods: Objects<SlimPod>,
    claims: Objects<ResourceClaim>,
    /// The UID of the claim of each pod.
    claim_of_pod: BTreeMap<String, String>,
    /// The claims of indices that a reconcile has observed as removed.
    removed: BTreeSet<String>,
    tombstones: BTreeMap<i32, SlimPod>,
    memory: ProcessMemory,
    claim_creates: Expectations,
    retired: RetiredClaims,
    uids: u32,
}

fn is_terminating(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

fn terminate<K: Resource>(object: &mut K) {
    object.meta_mut().deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
}

impl Cluster {
    fn new() -> Self {
        Self {
            replicas: 2,
            pods: Objects::default(),
            claims: Objects::default(),
            claim_of_pod: BTreeMap::new(),
            removed: BTreeSet::new(),
            tombstones: BTreeMap::new(),
            memory: ProcessMemory::default(),
            claim_creates: Expectations::default(),
            retired: RetiredClaims::default(),
            uids: 0,
        }
    }

    fn perform(&mut self, event: u64) {
        match event {
            0 | 1 => self.reconcile(),
            2 | 3 => self.watch_pod(),
            4 | 5 => self.watch_claim(),
            6 => self.replicas = 1,
            7 => self.replicas = 2,
            8 => self.schedule(),
            9 => self.delete_live_pod(),
            10 => self.end_terminating_pod(),
            _ => self.release_claims(),
        }
    }

    fn watch_pod(&mut self) {
        if let Some(deleted) = self.pods.watch() {
            self.memory.creates.expectations.drop_deleted(&deleted);
            self.tombstones.extend(index(&deleted).map(|index| (index, deleted)));
        }
    }

    fn watch_claim(&mut self) {
        if let Some(deleted) = self.claims.watch() {
            self.claim_creates.drop_deleted(&deleted);
        }
    }

    /// The scheduler allocates the claim of the oldest pod without a node, and binds the pod.
    fn schedule(&mut self) {
        let Some(at) = self.pods.stored.iter().position(|pod| pod.spec.node_name.is_none()) else { return };
        let claim = self.claim_of_pod[&self.pods.stored[at].name_any()].clone();
        let claim = self.claims.stored.iter().position(|stored| stored.uid() == Some(claim.clone()));
        let Some(claim) = claim.filter(|claim| !is_terminating(&self.claims.stored[*claim])) else { return };
        let protection = Some(vec!["resource.kubernetes.io/delete-protection".to_owned()]);
        self.claims.change(claim, |claim| claim.metadata.finalizers = protection);
        self.pods.change(at, |pod| pod.spec.node_name = Some("n".to_owned()));
    }

    fn delete_live_pod(&mut self) {
        let live = self.pods.stored.iter().rposition(|pod| !is_terminating(pod));
        if let Some(at) = live {
            self.delete_pod(at);
        }
    }

    /// The API server deletes a pod without a node at once.
    fn delete_pod(&mut self, at: usize) {
        if self.pods.stored[at].spec.node_name.is_some() {
            self.pods.change(at, terminate);
        } else {
            self.pods.remove(at);
        }
    }

    fn end_terminating_pod(&mut self) {
        let ending = self.pods.stored.iter().position(is_terminating);
        if let Some(at) = ending {
            self.pods.remove(at);
        }
    }

    /// Kubernetes deallocates the claims that no pod uses, and deletes the terminating ones among them.
    fn release_claims(&mut self) {
        let unused =
            self.claims.stored.iter().position(|claim| {
                claim.is_allocated() && !self.is_used(claim.metadata.uid.as_deref().unwrap_or_default())
            });
        let Some(at) = unused else { return };
        if is_terminating(&self.claims.stored[at]) {
            self.claims.remove(at);
        } else {
            self.claims.change(at, |claim| claim.metadata.finalizers = None);
        }
    }

    fn is_used(&self, claim: &str) -> bool {
        self.pods.stored.iter().any(|pod| self.claim_of_pod[&pod.name_any()] == claim)
    }

    fn observe(&mut self) -> Observed {
        let mut observed = snapshot(ROW);
        observed.clique.spec.replicas = self.replicas;
        observed.pods = self.pods.cached.values().cloned().map(Arc::new).collect();
        observed.tombstones = self.tombstones.values().cloned().map(Arc::new).collect();
        self.memory.observe(&mut observed, 1);
        let cached = &self.claims.cached;
        let is_cached = |uid: &str| cached.values().any(|claim| claim.metadata.uid.as_deref() == Some(uid));
        observed.claims.pending_creates = self.claim_creates.pending(&observed.clique, |_, uid| is_cached(uid), |_| 1);
        observed.claims.children.extend(cached.values().cloned().map(Arc::new));
        let is_removed = |name: &str| index_of(name) >= self.replicas;
        let active = cached.values().filter(|claim| !is_terminating(*claim));
        let active = active.filter_map(|claim| claim.metadata.name.as_deref());
        let pending = observed.claims.pending_creates.children.iter().map(|child| child.name.as_str());
        let active = active.chain(pending).map(|name| (name, is_removed(name)));
        observed.claims.retired = self.retired.observe("clique-uid", active);
        let removed = self.claims.stored.iter().filter(|claim| is_removed(&claim.name_any()));
        self.removed.extend(removed.filter_map(ResourceExt::uid));
        observed
    }

    fn reconcile(&mut self) {
        let mut observed = self.observe();
        let claims = claims::plan(&observed, &observed.claims);
        let result = self.execute(&claims);
        self.claim_creates.expect_creations(&observed.clique, &claims, |_| 1);
        self.claim_creates.record_results(&observed.clique, &result);
        observed.claims.record_created(&result);
        let pods = plan::pods(&observed);
        let result = self.execute(&pods);
        self.memory.record(&observed.clique, 1, &pods, &result);
    }

    fn execute(&mut self, plan: &Plan) -> ExecutionResult {
        let mut done = ExecutionResult::default();
        for step in plan.steps() {
            let mut target = step.target().clone();
            match step {
                Step::Create(create) if target.resource.kind == "Pod" => target.uid = self.create_pod(create),
                Step::Create(create) => target.uid = self.create_claim(create),
                Step::Delete(delete) => self.delete(delete),
                Step::Patch(_) | Step::Adopt(_) => {}
            }
            done.steps.push(StepResult::new("s", step.verb(), target, Ok(())));
        }
        done
    }

    fn delete(&mut self, Delete { target, .. }: &Delete) {
        if target.resource.kind == "Pod" {
            let pod = self.pods.stored.iter().position(|pod| pod.uid() == target.uid && !is_terminating(pod));
            if let Some(at) = pod {
                self.delete_pod(at);
            }
            return;
        }
        let uid = target.uid.clone().expect("a uid");
        assert!(self.removed.contains(&uid), "{} belongs to an index that was never removed", target.name);
        let Some(at) = self.claims.stored.iter().position(|claim| claim.uid() == target.uid) else { return };
        if self.claims.stored[at].is_allocated() {
            self.claims.change(at, terminate);
        } else {
            assert!(!self.is_used(&uid), "{} is deleted before its pod", target.name);
            self.claims.remove(at);
        }
    }

    fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("u{}", self.uids)
    }

    fn create_claim(&mut self, Create { target, object }: &Create) -> Option<String> {
        if let Some(there) = self.claims.stored.iter().find(|claim| claim.name_any() == target.name) {
            return there.uid();
        }
        let mut claim: ResourceClaim = serde_json::from_value(object.value()).expect("a claim");
        claim.metadata.uid = Some(self.new_uid());
        self.claims.add(claim);
        self.claims.stored.last().and_then(ResourceExt::uid)
    }

    fn create_pod(&mut self, Create { target, object }: &Create) -> Option<String> {
        if let Some(there) = self.pods.stored.iter().find(|pod| pod.name_any() == target.name) {
            return there.uid();
        }
        let object = object.value();
        let name = object["spec"]["resourceClaims"][0]["resourceClaimName"].as_str().expect("a reference").to_owned();
        let claim = self.claims.stored.iter().find(|claim| claim.name_any() == name);
        let claim = claim.unwrap_or_else(|| panic!("{} refers to {name}, which does not exist", target.name));
        assert!(!is_terminating(claim), "{} refers to {name}, which is terminating", target.name);
        let uid = claim.uid().expect("a uid");
        assert!(!self.removed.contains(&uid), "{} refers to {name} of a removed index", target.name);
        self.claim_of_pod.insert(target.name.clone(), uid);
        let spec = json!({ "hostname": object["spec"]["hostname"] });
        let mut pod: SlimPod =
            serde_json::from_value(json!({ "metadata": object["metadata"], "spec": spec })).expect("a pod");
        pod.metadata.uid = Some(self.new_uid());
        self.pods.add(pod);
        self.pods.stored.last().and_then(ResourceExt::uid)
    }

    /// Performs all events that happen by themselves until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.reconcile();
            while !self.pods.events.is_empty() || !self.claims.events.is_empty() {
                self.watch_pod();
                self.watch_claim();
            }
            self.schedule();
            self.end_terminating_pod();
            self.release_claims();
        }
    }
}

fn index_of(claim: &str) -> i32 {
    pod_index_of_claim(&PodCliqueName::new(NAME), claim).expect("a claim of a pod")
}

/// A number below `limit` of a fixed sequence (a linear congruential generator).
fn next(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % limit
}

#[test]
fn no_order_of_events_deletes_a_used_claim_or_uses_one_that_ends() {
    for walk in 0..WALKS {
        let (mut cluster, mut state) = (Cluster::new(), walk);
        for _ in 0..EVENTS_PER_WALK {
            cluster.perform(next(&mut state, 12));
        }
        cluster.settle();
        let live: Vec<_> = cluster.pods.stored.iter().filter_map(index).collect();
        let claims: Vec<_> = cluster.claims.stored.iter().map(|claim| index_of(&claim.name_any())).collect();
        let sorted = |mut indices: Vec<i32>| {
            indices.sort_unstable();
            indices
        };
        let expected: Vec<_> = (0..cluster.replicas).collect();
        assert_eq!(sorted(live), expected, "walk {walk}");
        assert_eq!(sorted(claims), expected, "walk {walk}: no claim is missing and none is left behind");
    }
}
