//! The watch events about the sets, domains and pods of a namespace in the order of their resource versions, and two invariants that hold
//! after each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::GROVE_FINALIZER;
use crate::namespace::Namespace;
use crate::poll::poll_until;

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
    client: Client,
    namespace: String,
    changes: Arc<Mutex<Vec<Change>>>,
    tasks: [JoinHandle<()>; 3],
}

impl Drop for DomainHistory {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl DomainHistory {
    /// Starts to record. It returns after the three watches have listed their objects: a later list would give an object the version of its
    /// latest change instead of that of its create.
    ///
    /// # Panics
    /// If a watch ends before that.
    pub async fn start(ns: &Namespace) -> Self {
        let changes = Arc::<Mutex<Vec<Change>>>::default();
        let (sets, set_task) = record(ns, &changes, |set| Object::Set(Box::new(set)));
        let (domains, domain_task) = record(ns, &changes, |domain| Object::Domain(Box::new(domain)));
        let (pods, pod_task) = record(ns, &changes, |pod| Object::Pod(Box::new(pod)));
        for listed in [sets, domains, pods] {
            listed.await.expect("the watch lists its objects");
        }
        Self {
            client: ns.client.clone(),
            namespace: ns.name.clone(),
            changes,
            tasks: [set_task, domain_task, pod_task],
        }
    }

    /// Waits until the recorded events lead to the objects that exist, checks the invariants after each event, and returns the number of pods
    /// with the claim of a domain.
    ///
    /// # Panics
    /// If a pod of a live set got the claim of a domain that did not exist or that the set did not control. Also if Grove's finalizer was
    /// removed from a domain while the set desired the replica of the domain, and the replica had a live pod.
    pub async fn check(&self) -> usize {
        let recorded = poll_until(async || {
            let existing = self.existing_versions().await.ok()?;
            let changes = self.changes.lock();
            (recorded_versions(&changes) == existing).then(|| changes.clone())
        });
        let mut changes = recorded.await;
        changes.sort_by_key(|change| change.version);
        let (mut state, mut checked) = (State::default(), 0);
        for change in changes {
            checked += usize::from(state.apply(change));
        }
        checked
    }

    /// The resource versions of the objects that exist now.
    async fn existing_versions(&self) -> kube::Result<BTreeSet<u64>> {
        let sets = versions::<PodCliqueSet>(&self.client, &self.namespace).await?;
        let domains = versions::<ComputeDomain>(&self.client, &self.namespace).await?;
        let pods = versions::<Pod>(&self.client, &self.namespace).await?;
        Ok(sets.into_iter().chain(domains).chain(pods).collect())
    }
}

async fn versions<K>(client: &Client, namespace: &str) -> kube::Result<Vec<u64>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let objects = Api::<K>::namespaced(client.clone(), namespace).list_metadata(&ListParams::default()).await?;
    Ok(objects.items.iter().map(version).collect())
}

/// The resource versions of the objects that exist after these changes. The changes of one kind are in their order.
fn recorded_versions(changes: &[Change]) -> BTreeSet<u64> {
    let mut versions = BTreeMap::new();
    for Change { version, is_deleted, object } in changes {
        let key = match object {
            Object::Set(set) => ("set", set.name_any()),
            Object::Domain(domain) => ("domain", domain.name_any()),
            Object::Pod(pod) => ("pod", pod.name_any()),
        };
        if *is_deleted {
            versions.remove(&key);
        } else {
            versions.insert(key, *version);
        }
    }
    versions.into_values().collect()
}

fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Records the changes of one kind, and sends when the first list is complete.
fn record<K>(
    ns: &Namespace,
    changes: &Arc<Mutex<Vec<Change>>>,
    wrap: fn(K) -> Object,
) -> (oneshot::Receiver<()>, JoinHandle<()>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api = Api::<K>::namespaced(ns.client.clone(), &ns.name);
    let changes = Arc::clone(changes);
    let (listed, is_listed) = oneshot::channel();
    let mut listed = Some(listed);
    let task = tokio::spawn(async move {
        let mut events = Box::pin(watcher(api, Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            let (object, is_deleted) = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
                Ok(Event::Delete(object)) => (object, true),
                Ok(Event::InitDone) => {
                    if let Some(listed) = listed.take() {
                        listed.send(()).expect("the caller waits");
                    }
                    continue;
                }
                Ok(Event::Init) | Err(_) => continue,
            };
            changes.lock().push(Change { version: version(&object), is_deleted, object: wrap(object) });
        }
    });
    (is_listed, task)
}

#[derive(Default)]
struct State {
    sets: BTreeMap<String, PodCliqueSet>,
    /// The last states, also of deleted objects: garbage collection deletes the cliques of a deleted set later, and pods of them may be created
    /// until then.
    latest_sets: BTreeMap<String, PodCliqueSet>,
    latest_domains: BTreeMap<String, ComputeDomain>,
    domains: BTreeMap<String, ComputeDomain>,
    pods: BTreeMap<String, Pod>,
}

impl State {
    /// Returns whether the change created a pod with the claim of a domain.
    fn apply(&mut self, Change { version: _, is_deleted, object }: Change) -> bool {
        match object {
            Object::Set(set) => {
                self.latest_sets.insert(set.name_any(), (*set).clone());
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
                self.latest_domains.insert(domain.name_any(), (*domain).clone());
                replace(&mut self.domains, *domain, is_deleted);
                false
            }
            Object::Pod(pod) => {
                let is_new = !is_deleted && !self.pods.contains_key(&pod.name_any());
                let template = claim_template(&pod).filter(|_| is_new);
                let has_claim = template.is_some();
                if let Some(template) = template {
                    let name = pod.labels().get(PART_OF).cloned().unwrap_or_default();
                    let is_active = self.sets.get(&name).is_some_and(|set| !is_terminating(set));
                    let domains = if is_active { &self.domains } else { &self.latest_domains };
                    let (set, domain) = (self.latest_sets.get(&name), domains.get(&template));
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
