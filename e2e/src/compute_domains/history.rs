//! The watch events about the sets, domains and pods of a namespace, and two invariants that hold after each of them.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, SET_REPLICA};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::GROVE_FINALIZER;
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
pub struct DomainHistory(WatchHistory<Object>);

impl DomainHistory {
    /// Starts to record.
    pub async fn start(ns: &Namespace) -> Self {
        let history = WatchHistory::default().record(ns, Object::Set).await;
        Self(history.record(ns, Object::Domain).await.record(ns, Object::Pod).await)
    }

    /// Checks the invariants after each event, and returns the number of pods with the claim of a domain.
    ///
    /// # Panics
    /// If a pod of a live set got the claim of a domain that did not exist or that the set did not control. Also if Grove's finalizer was
    /// removed from a domain while the set desired the replica of the domain, and the replica had a live pod.
    pub async fn check(&self) -> usize {
        let (mut state, mut checked) = (State::default(), 0);
        for change in self.0.changes().await {
            checked += usize::from(state.apply(change));
        }
        checked
    }
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
    fn apply(&mut self, Change { is_deleted, object, .. }: Change<Object>) -> bool {
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

fn is_protected(domain: &ComputeDomain) -> bool {
    domain.finalizers().iter().any(|finalizer| finalizer == GROVE_FINALIZER)
}

fn claim_template(pod: &Pod) -> Option<String> {
    let claims = pod.spec.as_ref()?.resource_claims.as_ref()?;
    let claim = claims.iter().find(|claim| claim.name == "mnnvl-claim")?;
    claim.resource_claim_template_name.clone()
}
