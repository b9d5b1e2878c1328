//! The watch events about the sets, domains and pods of a namespace, and invariants that hold after each of them.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use parking_lot::Mutex;

use super::{GROVE_FINALIZER, claim_template};
use crate::binding_log::is_bound;
use crate::namespace::Namespace;
use crate::watch_history::{Change, WatchHistory, replace};

/// A created, changed or deleted object.
#[derive(Clone)]
enum Object {
    Set(Box<PodCliqueSet>),
    Domain(Box<ComputeDomain>),
    Pod(Box<Pod>),
}

/// Records the events of a namespace until the value is dropped.
pub struct DomainHistory {
    history: WatchHistory<Object>,
    deleted_by_user: Mutex<BTreeSet<String>>,
}

impl DomainHistory {
    /// Starts to record.
    pub async fn start(ns: &Namespace) -> Self {
        let history = WatchHistory::default().record(ns, Object::Set).await;
        let history = history.record(ns, Object::Domain).await.record(ns, Object::Pod).await;
        Self { history, deleted_by_user: Mutex::default() }
    }

    /// The test deletes this domain itself.
    pub fn expect_deletion(&self, domain: &str) {
        self.deleted_by_user.lock().insert(domain.to_owned());
    }

    /// Checks the invariants after each event, and returns the number of pods with the claim of a domain.
    ///
    /// # Panics
    /// - If a domain that the test did not delete got a deletion timestamp while a pod with its claim had not ended.
    /// - If the finalizer of Grove was removed from a domain of a set that needed it, while a pod with its claim was bound to a node and had
    ///   not ended.
    /// - If a pod of a set was bound to a node with the claim of a domain that did not exist or that the set did not control.
    pub async fn check(&self) -> usize {
        let (mut state, mut checked) =
            (State { deleted_by_user: self.deleted_by_user.lock().clone(), ..State::default() }, 0);
        for change in self.history.changes().await {
            checked += usize::from(state.apply(change));
        }
        checked
    }
}

#[derive(Default)]
struct State {
    deleted_by_user: BTreeSet<String>,
    sets: BTreeMap<String, PodCliqueSet>,
    domains: BTreeMap<String, ComputeDomain>,
    pods: BTreeMap<String, Pod>,
}

impl State {
    /// Returns whether the change bound a pod with the claim of a domain.
    fn apply(&mut self, Change { is_deleted, object, .. }: Change<Object>) -> bool {
        match object {
            Object::Set(set) => {
                replace(&mut self.sets, *set, is_deleted);
                false
            }
            Object::Domain(domain) => {
                self.check_domain(&domain, is_deleted);
                replace(&mut self.domains, *domain, is_deleted);
                false
            }
            Object::Pod(pod) => {
                let was_bound = self.pods.get(&pod.name_any()).is_some_and(is_bound);
                let template = claim_template(&pod).filter(|_| !is_deleted && !was_bound && is_bound(&pod));
                let is_checked = template.is_some();
                if let Some(template) = template {
                    self.check_bound_pod(&pod, &template);
                }
                replace(&mut self.pods, *pod, is_deleted);
                is_checked
            }
        }
    }

    fn check_domain(&self, domain: &ComputeDomain, is_deleted: bool) {
        let name = domain.name_any();
        let Some(before) = self.domains.get(&name) else { return };
        let users = || self.pods.values().filter(|pod| uses(pod, domain));
        if is_terminating(domain) && !is_terminating(before) && !self.deleted_by_user.contains(&name) {
            let user = users().next().map(ResourceExt::name_any);
            assert!(user.is_none(), "{name} was deleted while {user:?} used it");
        }
        let is_released = is_protected(before) && (is_deleted || !is_protected(domain));
        if is_released && self.sets.values().any(|set| is_needed(domain, set)) {
            let user = users().find(|pod| is_bound(pod)).map(ResourceExt::name_any);
            assert!(user.is_none(), "{name} lost its finalizer while {user:?} used it");
        }
    }

    /// A deleted set still controls its domains until the garbage collector has removed the reference.
    fn check_bound_pod(&self, pod: &Pod, template: &str) {
        let set = pod.labels().get(PART_OF).and_then(|name| self.sets.get(name));
        let Some(set) = set.filter(|set| !is_terminating(*set)) else { return };
        let domain = self.domains.get(template);
        let is_of_set = domain.is_some_and(|domain| is_controlled_by(domain, set));
        assert!(is_of_set, "{} has the claim of {template}, which is {domain:?}", pod.name_any());
    }
}

/// Whether the set controls the domain, and wants its replica.
fn is_needed(domain: &ComputeDomain, set: &PodCliqueSet) -> bool {
    let replica = domain.labels().get(SET_REPLICA).and_then(|replica| replica.parse::<i32>().ok());
    !is_terminating(set) && is_controlled_by(domain, set) && replica.is_some_and(|replica| replica < set.spec.replicas)
}

/// Whether the pod has the claim of the domain, and has not ended.
fn uses(pod: &Pod, domain: &ComputeDomain) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
    !has_ended && claim_template(pod).is_some_and(|template| template == domain.claim_template())
}

fn is_protected(domain: &ComputeDomain) -> bool {
    domain.finalizers().iter().any(|finalizer| finalizer == GROVE_FINALIZER)
}
