//! The cliques of scaled gangs, indexed by their base gang. Their pods are gated until the base gang is scheduled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

/// Namespace and name of a base gang.
type BaseGangKey = (String, String);

/// The index. All clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DependentsIndex {
    by_base_gang: Arc<Mutex<BTreeMap<BaseGangKey, BTreeSet<String>>>>,
}

impl DependentsIndex {
    /// Updates the index, and returns the cliques to reconcile: if the number of scheduled pods of the clique changed, the
    /// cliques that depend on its gang.
    pub(crate) fn update(&self, delta: &Delta<PodClique>) -> Vec<ObjectRef<PodClique>> {
        self.reindex(delta);
        let scheduled = |clique: &Option<Arc<PodClique>>| clique.as_deref().map(scheduled_replicas);
        if scheduled(&delta.old) == scheduled(&delta.new) {
            return Vec::new();
        }
        let clique = delta.object();
        let gang =
            clique.and_then(|clique| Some((clique.namespace()?, clique.labels().get(labels::POD_GANG)?.clone())));
        gang.map(|(namespace, gang)| self.dependents_of(&namespace, &gang)).unwrap_or_default()
    }

    /// The cliques that depend on the gang.
    pub(crate) fn dependents_of(&self, namespace: &str, gang: &str) -> Vec<ObjectRef<PodClique>> {
        let by_base_gang = self.by_base_gang.lock();
        let names = by_base_gang.get(&(namespace.to_owned(), gang.to_owned())).into_iter().flatten();
        names.map(|name| ObjectRef::new(name).within(namespace)).collect()
    }

    fn reindex(&self, delta: &Delta<PodClique>) {
        let (old, new) = (delta.old.as_deref().and_then(base_gang), delta.new.as_deref().and_then(base_gang));
        if old == new {
            return;
        }
        let mut by_base_gang = self.by_base_gang.lock();
        if let (Some(key), Some(clique)) = (old, &delta.old) {
            let dependents = by_base_gang.entry(key.clone()).or_default();
            dependents.remove(&clique.name_any());
            if dependents.is_empty() {
                by_base_gang.remove(&key);
            }
        }
        if let (Some(key), Some(clique)) = (new, &delta.new) {
            by_base_gang.entry(key).or_default().insert(clique.name_any());
        }
    }
}

fn base_gang(clique: &PodClique) -> Option<BaseGangKey> {
    Some((clique.namespace()?, clique.labels().get(labels::BASE_POD_GANG)?.clone()))
}

fn scheduled_replicas(clique: &PodClique) -> i32 {
    clique.status.as_ref().map_or(0, |status| status.scheduled_replicas)
}
