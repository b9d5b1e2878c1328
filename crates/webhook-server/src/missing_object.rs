//! An object that a request refers to and that the caches do not contain: it does not exist, or its watch event is still
//! pending. One `kubectl apply` may create a topology and a set that refers to it, and an autoscaler may scale an object
//! right after its creation.

use std::time::Duration;

use grove_api_types::admission::{Rule, Violation};
use tokio::time::timeout;

use crate::cluster_facts::RuleCaches;

/// How long to wait for the watch event of the object.
const CACHE_TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of objects that a request can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferencedKind {
    Set,
    Group,
    Clique,
    /// A topology of either kind.
    Topology,
    Queue,
}

/// An object that the caches do not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingObject {
    kind: ReferencedKind,
    /// Empty for cluster-scoped kinds.
    namespace: String,
    name: String,
}

impl MissingObject {
    /// An object that a request scales. `resource` is the plural of its kind.
    pub(crate) fn scaled(resource: &str, namespace: &str, name: &str) -> Self {
        let kind = match resource {
            "podcliquesets" => ReferencedKind::Set,
            "podcliquescalinggroups" => ReferencedKind::Group,
            _ => ReferencedKind::Clique,
        };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The first missing object that a set refers to, if the set has no violation but those about missing objects.
    pub(crate) fn of_violations(violations: &[Violation], caches: &RuleCaches) -> Option<Self> {
        let mut first = None;
        for violation in violations {
            let object = Self::of_violation(violation).filter(|object| !object.is_cached(caches))?;
            first.get_or_insert(object);
        }
        first
    }

    fn of_violation(violation: &Violation) -> Option<Self> {
        let kind = if violation.rule == Rule::TopologyExists {
            ReferencedKind::Topology
        } else if violation.rule == Rule::QueueExists {
            ReferencedKind::Queue
        } else {
            return None;
        };
        // The value of the error is the name as JSON.
        let name = serde_json::from_str(&violation.error.value).ok()?;
        Some(Self { kind, namespace: String::new(), name })
    }

    fn is_cached(&self, caches: &RuleCaches) -> bool {
        let (namespace, name) = (self.namespace.as_str(), self.name.as_str());
        match self.kind {
            ReferencedKind::Set => caches.sets.contains(namespace, name),
            ReferencedKind::Group => caches.groups.contains(namespace, name),
            ReferencedKind::Clique => caches.cliques.contains(namespace, name),
            ReferencedKind::Topology => {
                caches.topologies.contains(namespace, name) || caches.bindings.contains(namespace, name)
            }
            ReferencedKind::Queue => caches.queues.as_ref().is_some_and(|queues| queues.contains(namespace, name)),
        }
    }

    /// Returns once the caches contain the object, or after [`CACHE_TIMEOUT`].
    pub(crate) async fn wait_until_cached(&self, caches: &RuleCaches) {
        let is_cached = || self.is_cached(caches);
        let watch_event = async {
            match self.kind {
                ReferencedKind::Set => caches.sets.wait_for(|_| is_cached()).await,
                ReferencedKind::Group => caches.groups.wait_for(|_| is_cached()).await,
                ReferencedKind::Clique => caches.cliques.wait_for(|_| is_cached()).await,
                ReferencedKind::Topology => tokio::select! {
                    () = caches.topologies.wait_for(|_| is_cached()) => {}
                    () = caches.bindings.wait_for(|_| is_cached()) => {}
                },
                ReferencedKind::Queue => {
                    if let Some(queues) = &caches.queues {
                        queues.wait_for(|_| is_cached()).await;
                    }
                }
            }
        };
        // Without the object, the caches of this moment decide.
        let _ = timeout(CACHE_TIMEOUT, watch_event).await;
    }
}
