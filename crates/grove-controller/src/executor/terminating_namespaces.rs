//! Owners in terminating namespaces. The API server rejects every create there. It deletes the pods of the namespace first, and the
//! owner later, so that the owner would try to replace each deleted pod.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an owner is remembered. A namespace never stops terminating, except that an administrator restores the API server from
/// a backup. So a timer enqueues the owner after this time, and its plan has creates again.
const LIFETIME: Duration = Duration::from_mins(10);

/// The owners in terminating namespaces, by UID. A clone shares them.
#[derive(Clone, Debug, Default)]
pub(super) struct TerminatingNamespaces {
    known_until_by_owner_uid: Arc<Mutex<BTreeMap<String, Instant>>>,
}

impl TerminatingNamespaces {
    /// The state of the namespace before the execution of a plan for `owner`.
    pub(super) fn state<K: Resource>(&self, owner: &K) -> NamespaceState {
        NamespaceState { is_terminating: self.remaining(owner).is_some().into() }
    }

    /// How long the owner is remembered from now on; `None` if it is not remembered.
    pub(super) fn remaining<K: Resource>(&self, owner: &K) -> Option<Duration> {
        let uid = owner.uid().unwrap_or_default();
        let known_until = self.known_until_by_owner_uid.lock().get(&uid).copied()?;
        Some(known_until.saturating_duration_since(Instant::now())).filter(|remaining| !remaining.is_zero())
    }

    /// Remembers the state of the namespace after the execution of a plan for `owner`.
    pub(super) fn record<K: Resource>(&self, owner: &K, state: &NamespaceState) {
        if state.is_terminating() {
            let now = Instant::now();
            let mut known_until_by_owner_uid = self.known_until_by_owner_uid.lock();
            known_until_by_owner_uid.retain(|_, until| *until > now);
            known_until_by_owner_uid.entry(owner.uid().unwrap_or_default()).or_insert(now + LIFETIME);
        }
    }

    /// Drops the entry of a deleted owner, and the expired entries.
    pub(super) fn forget<K: Resource>(&self, owner: &K) {
        let mut known_until_by_owner_uid = self.known_until_by_owner_uid.lock();
        // Nearly always there are no entries.
        if known_until_by_owner_uid.is_empty() {
            return;
        }
        known_until_by_owner_uid.remove(&owner.uid().unwrap_or_default());
        let now = Instant::now();
        known_until_by_owner_uid.retain(|_, until| *until > now);
    }

    /// The number of remembered owners.
    pub(super) fn len(&self) -> usize {
        self.known_until_by_owner_uid.lock().len()
    }
}

/// The namespace of a plan, as far as the responses to its creates show it.
#[derive(Debug)]
pub(super) struct NamespaceState {
    is_terminating: AtomicBool,
}

impl NamespaceState {
    /// Whether the API server rejects all creates.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_terminating.load(Ordering::Relaxed)
    }

    /// Records that the API server rejected a create because of the namespace.
    pub(super) fn set_terminating(&self) {
        self.is_terminating.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn owner(uid: &str) -> ConfigMap {
        let mut owner = ConfigMap::default();
        owner.metadata.uid = Some(uid.into());
        owner
    }

    fn is_terminating(namespaces: &TerminatingNamespaces, uid: &str) -> bool {
        namespaces.state(&owner(uid)).is_terminating()
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_remembered_until_its_deletion_or_for_a_limited_time() {
        let namespaces = TerminatingNamespaces::default();
        for uid in ["a", "b"] {
            let state = namespaces.state(&owner(uid));
            state.set_terminating();
            namespaces.record(&owner(uid), &state);
        }
        assert!(is_terminating(&namespaces, "a") && is_terminating(&namespaces, "b"));
        namespaces.forget(&owner("a"));
        assert!(!is_terminating(&namespaces, "a") && is_terminating(&namespaces, "b"));
        tokio::time::advance(LIFETIME / 2).await;
        namespaces.record(&owner("b"), &namespaces.state(&owner("b")));
        tokio::time::advance(LIFETIME / 2).await;
        assert!(!is_terminating(&namespaces, "b"), "plans without creates do not extend the time");
    }

    #[tokio::test(start_paused = true)]
    async fn the_deletion_of_any_owner_removes_expired_entries() {
        let namespaces = TerminatingNamespaces::default();
        let state = namespaces.state(&owner("a"));
        state.set_terminating();
        namespaces.record(&owner("a"), &state);
        namespaces.forget(&owner("other"));
        assert_eq!(namespaces.len(), 1);
        tokio::time::advance(LIFETIME).await;
        namespaces.forget(&owner("other"));
        assert_eq!(namespaces.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_in_an_active_namespace_is_not_remembered() {
        let namespaces = TerminatingNamespaces::default();
        namespaces.record(&owner("a"), &namespaces.state(&owner("a")));
        assert!(namespaces.known_until_by_owner_uid.lock().is_empty());
    }
}
