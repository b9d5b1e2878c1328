//! The watch events about the sets, domains and pods of a namespace in the order of their resource versions, and two invariants that hold
//! after each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::GROVE_FINALIZER;
use crate::namespace::Namespace;

/// A created, changed or deleted object.
#[derive(Clone)]
enum Object {
    Set(Box<PodCliqueSet>),
    Domain(Box<ComputeDomain>),
    Pod(Box<Pod>),
}

#[derive(Clone)]
struct Change {
    version: u64,
    is_deleted: bool,
    object: Object,
}

/// Records the events of a namespace until the value is dropped.
pub struct DomainHistory {
    changes: Arc<Mutex<Vec<Change>>>,
    tasks: [JoinHandle<()>; 3],
}

impl Drop for DomainHistory {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl DomainHistory {
    /// Starts to record.
    pub fn start(ns: &Namespace) -> Self {
        let changes = Arc::<Mutex<Vec<Change>>>::default();
        let tasks = [
            record(ns, &changes, |set| Object::Set(Box::new(set))),
            record(ns, &changes, |domain| Object::Domain(Box::new(domain))),
            record(ns, &changes, |pod| Object::Pod(Box::new(pod))),
        ];
        Self { changes, tasks }
    }

    /// Checks the invariants after each event so far, and returns the number of pods with the claim of a domain.
    ///
    /// # Panics
    /// If a pod had the claim of a domain that did not exist or that its set did not control, or Grove's finalizer was removed from a domain
    /// whose replica was desired and had a live pod.
    pub fn check(&self) -> usize {
        let mut changes = self.changes.lock().clone();
        changes.sort_by_key(|change| change.version);
        let (mut state, mut checked) = (State::default(), 0);
        for change in changes {
            checked += usize::from(state.apply(change));
        }
        checked
    }
}

fn record<K>(ns: &Namespace, changes: &Arc<Mutex<Vec<Change>>>, wrap: fn(K) -> Object) -> JoinHandle<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api = Api::<K>::namespaced(ns.client.clone(), &ns.name);
    let changes = Arc::clone(changes);
    tokio::spawn(async move {
        let mut events = Box::pin(watcher(api, Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            let (object, is_deleted) = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
                Ok(Event::Delete(object)) => (object, true),
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            };
            let version = object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default();
            changes.lock().push(Change { version, is_deleted, object: wrap(object) });
        }
    })
}

#[derive(Default)]
struct State {
    sets: BTreeMap<String, PodCliqueSet>,
    domains: BTreeMap<String, ComputeDomain>,
    pods: BTreeMap<String, Pod>,
}

impl State {
    /// Returns whether the change created a pod with the claim of a domain.
    fn apply(&mut self, Change { version: _, is_deleted, object }: Change) -> bool {
        match object {
            Object::Set(set) => {
                replace(&mut self.sets, *set, is_deleted);
                false
            }
            Object::Domain(domain) => {
                let before = self.domains.get(&domain.name_any());
                let is_removal = before.is_some_and(is_protected) && (is_deleted || !is_protected(&domain));
                if let Some(before) = before.filter(|_| is_removal) {
                    let user = self.live_pod_of(before);
                    assert!(user.is_none(), "{} lost its finalizer while {user:?} used it", before.name_any());
                }
                replace(&mut self.domains, *domain, is_deleted);
                false
            }
            Object::Pod(pod) => {
                let is_new = !is_deleted && !self.pods.contains_key(&pod.name_any());
                let template = claim_template(&pod).filter(|_| is_new);
                let has_claim = template.is_some();
                if let Some(template) = template {
                    let set = pod.labels().get(PART_OF).and_then(|set| self.sets.get(set));
                    let domain = self.domains.get(&template);
                    let is_of_set = set.zip(domain).is_some_and(|(set, domain)| is_controlled_by(domain, set));
                    assert!(is_of_set, "{} has the claim of {template}, which is {domain:?}", pod.name_any());
                }
                replace(&mut self.pods, *pod, is_deleted);
                has_claim
            }
        }
    }

    /// A live pod of the replica of the domain, if its set desires the replica.
    fn live_pod_of(&self, domain: &ComputeDomain) -> Option<String> {
        let (set, replica) = (domain.labels().get(PART_OF)?, domain.labels().get(SET_REPLICA)?);
        let object = self.sets.get(set).filter(|set| !is_terminating(*set) && is_controlled_by(domain, *set))?;
        let is_desired = replica.parse::<i32>().is_ok_and(|index| index < object.spec.replicas);
        let is_user = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_live = !is_terminating(*pod) && !matches!(phase, Some("Succeeded" | "Failed"));
            is_live && pod.labels().get(PART_OF) == Some(set) && pod.labels().get(SET_REPLICA) == Some(replica)
        };
        self.pods.values().filter(|_| is_desired).find(is_user).map(ResourceExt::name_any)
    }
}

fn replace<K: Resource>(objects: &mut BTreeMap<String, K>, object: K, is_deleted: bool) {
    if is_deleted {
        objects.remove(&object.name_any());
    } else {
        objects.insert(object.name_any(), object);
    }
}

fn is_protected(domain: &ComputeDomain) -> bool {
    domain.finalizers().iter().any(|finalizer| finalizer == GROVE_FINALIZER)
}

fn claim_template(pod: &Pod) -> Option<String> {
    let claims = pod.spec.as_ref()?.resource_claims.as_ref()?;
    let claim = claims.iter().find(|claim| claim.name == "mnnvl-claim")?;
    claim.resource_claim_template_name.clone()
}
