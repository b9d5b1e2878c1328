//! Owners with a deletion that keeps their dependents (`kubectl delete --cascade=orphan`). The API server records that in the
//! finalizer `orphan`. Kubernetes' garbage collector removes the finalizer when it has released all dependents, so the finalizer of
//! the last observed version proves nothing: a cache may not yet show that the dependents were released.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grove_api_types::deletion::orphans_dependents;
use grove_runtime::caches::Delta;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::state_metrics::StateMetrics;

/// How long a deleted owner is remembered. A reconcile that ends after the deletion of its owner deletes dependents a second time.
const LIFETIME_AFTER_DELETION: Duration = Duration::from_mins(10);

/// The UIDs of the owners that had the finalizer `orphan` in any observed version. A clone shares them.
///
/// An owner is remembered until some time after its deletion: the next deletion of any owner removes it. Such deletions are rare, so
/// there are few entries.
#[derive(Clone, Debug, Default)]
pub struct OrphanDeletions {
    /// For each UID the time of its deletion, if it is deleted.
    deleted_at_by_uid: Arc<Mutex<BTreeMap<String, Option<Instant>>>>,
}

impl OrphanDeletions {
    /// Records a delta of an owner. A cache calls it as its observer, so that it precedes every reconcile of this version.
    pub fn record<K: Resource>(&self, delta: &Delta<K>) {
        let Some(owner) = delta.object() else { return };
        let orphans = [&delta.old, &delta.new].into_iter().flatten().any(|owner| orphans_dependents(&**owner));
        let mut deleted_at_by_uid = self.deleted_at_by_uid.lock();
        // Nearly always there are no entries.
        if deleted_at_by_uid.is_empty() && !orphans {
            return;
        }
        let uid = owner.uid().unwrap_or_default();
        if orphans || delta.is_delete() {
            deleted_at_by_uid.retain(|_, at| at.is_none_or(|at| at.elapsed() < LIFETIME_AFTER_DELETION));
        }
        if orphans {
            deleted_at_by_uid.entry(uid.clone()).or_default();
        }
        if delta.is_delete()
            && let Some(deleted_at) = deleted_at_by_uid.get_mut(&uid)
        {
            *deleted_at = Some(Instant::now());
        }
    }

    /// The number of owners.
    pub fn len(&self) -> usize {
        self.deleted_at_by_uid.lock().len()
    }

    /// Whether there are no owners.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the number of owners to the metric of a controller.
    pub fn add_state_metrics(&self, metrics: &StateMetrics, controller: &'static str) {
        let deletions = self.clone();
        metrics.add(controller, "orphan_deletions", move || deletions.len());
    }

    /// Whether the deletion of the owner keeps its dependents: it has the finalizer `orphan`, or had it earlier.
    pub fn contains<K: Resource>(&self, owner: &K) -> bool {
        orphans_dependents(owner)
            || owner.meta().uid.as_ref().is_some_and(|uid| self.deleted_at_by_uid.lock().contains_key(uid))
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::metrics::Metrics;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn owner(uid: &str, finalizers: &[&str]) -> Arc<ConfigMap> {
        let mut owner = ConfigMap::default();
        owner.metadata.uid = Some(uid.into());
        owner.metadata.finalizers = Some(finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect());
        Arc::new(owner)
    }

    fn changed(old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) -> Delta<ConfigMap> {
        Delta { old: Some(Arc::clone(old)), new: Some(Arc::clone(new)) }
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_remembered_after_its_finalizer_was_removed_and_after_its_deletion() {
        let deletions = OrphanDeletions::default();
        let (before, during, after) =
            (owner("u", &["example.com/hold"]), owner("u", &["example.com/hold", "orphan"]), owner("u", &[]));
        assert!(!deletions.contains(&*before));
        deletions.record(&changed(&before, &during));
        deletions.record(&changed(&during, &after));
        assert!(deletions.contains(&*after));
        deletions.record(&Delta { old: Some(Arc::clone(&after)), new: None });
        assert!(deletions.contains(&*after), "the dependents of the deleted owner stay");
    }

    #[tokio::test(start_paused = true)]
    async fn the_deletion_of_any_owner_removes_expired_entries() {
        let deletions = OrphanDeletions::default();
        deletions.record(&Delta { old: Some(owner("u", &["orphan"])), new: None });
        tokio::time::advance(LIFETIME_AFTER_DELETION).await;
        deletions.record(&changed(&owner("other", &[]), &owner("other", &["example.com/hold"])));
        assert_eq!(deletions.len(), 1);
        deletions.record(&Delta { old: Some(owner("other", &[])), new: None });
        assert!(deletions.is_empty());
    }

    #[test]
    fn the_number_of_owners_is_a_metric() {
        let metrics = Metrics::new().unwrap();
        let deletions = OrphanDeletions::default();
        deletions.add_state_metrics(&StateMetrics::register(metrics.registry()).unwrap(), "c");
        deletions.record(&Delta { old: None, new: Some(owner("u", &["orphan"])) });
        let line = r#"grove_state_entries{controller="c",map="orphan_deletions"} 1"#;
        assert!(metrics.render().unwrap().contains(line));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_is_forgotten_some_time_after_its_deletion() {
        let deletions = OrphanDeletions::default();
        let (first, second) = (owner("first", &["orphan"]), owner("second", &["orphan"]));
        deletions.record(&Delta { old: None, new: Some(Arc::clone(&first)) });
        tokio::time::advance(LIFETIME_AFTER_DELETION * 2).await;
        deletions.record(&Delta { old: None, new: Some(Arc::clone(&second)) });
        assert_eq!(deletions.deleted_at_by_uid.lock().len(), 2, "an owner with the finalizer is not forgotten");
        deletions.record(&Delta { old: Some(first), new: None });
        tokio::time::advance(LIFETIME_AFTER_DELETION).await;
        deletions.record(&Delta { old: None, new: Some(second) });
        assert_eq!(deletions.deleted_at_by_uid.lock().keys().collect::<Vec<_>>(), ["second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_without_the_finalizer_is_not_remembered() {
        let deletions = OrphanDeletions::default();
        let foreground = owner("u", &["foregroundDeletion"]);
        deletions.record(&Delta { old: None, new: Some(Arc::clone(&foreground)) });
        deletions.record(&Delta { old: Some(foreground), new: None });
        assert!(deletions.deleted_at_by_uid.lock().is_empty());
    }
}
