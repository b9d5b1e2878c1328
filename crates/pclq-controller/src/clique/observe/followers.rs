//! Which cliques wait for which base gang: an index of the cliques of scaled gangs, kept up to date by their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// Namespace and name of a base gang.
type Base = (String, String);

/// The cliques of scaled gangs, by the base gang that goes before them. All clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Followers {
    by_base: Arc<Mutex<BTreeMap<Base, BTreeSet<String>>>>,
}

impl Followers {
    /// Takes note of a change of a clique, and tells the cliques that it matters to: those that wait for the gang of a
    /// clique whose pods were scheduled, or no longer are.
    pub(crate) fn take(&self, delta: &Delta<PodClique>) -> Vec<ObjectRef<PodClique>> {
        self.note(delta);
        let scheduled = |clique: &Option<Arc<PodClique>>| clique.as_deref().map(scheduled);
        if scheduled(&delta.old) == scheduled(&delta.new) {
            return Vec::new();
        }
        let clique = delta.object();
        let gang =
            clique.and_then(|clique| Some((clique.namespace()?, clique.labels().get(labels::POD_GANG)?.clone())));
        gang.map(|(namespace, gang)| self.of(&namespace, &gang)).unwrap_or_default()
    }

    /// The cliques that wait for that gang.
    pub(crate) fn of(&self, namespace: &str, gang: &str) -> Vec<ObjectRef<PodClique>> {
        let by_base = self.lock();
        let names = by_base.get(&(namespace.to_owned(), gang.to_owned())).into_iter().flatten();
        names.map(|name| ObjectRef::new(name).within(namespace)).collect()
    }

    fn note(&self, delta: &Delta<PodClique>) {
        let (before, after) = (delta.old.as_deref().and_then(base), delta.new.as_deref().and_then(base));
        if before == after {
            return;
        }
        let mut by_base = self.lock();
        if let (Some(base), Some(clique)) = (before, &delta.old) {
            let followers = by_base.entry(base.clone()).or_default();
            followers.remove(&clique.name_any());
            if followers.is_empty() {
                by_base.remove(&base);
            }
        }
        if let (Some(base), Some(clique)) = (after, &delta.new) {
            by_base.entry(base).or_default().insert(clique.name_any());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Base, BTreeSet<String>>> {
        self.by_base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn base(clique: &PodClique) -> Option<Base> {
    Some((clique.namespace()?, clique.labels().get(labels::BASE_POD_GANG)?.clone()))
}

/// What a base gang's being scheduled depends on.
fn scheduled(clique: &PodClique) -> i32 {
    clique.status.as_ref().map_or(0, |status| status.scheduled_replicas)
}
