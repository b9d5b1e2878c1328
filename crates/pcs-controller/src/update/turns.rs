//! When a replica of a set or of a scaling group gets the current template. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::expansion::{GroupReplica, Revision, SetReplica};
use grove_api_types::hash::is_of_this_version;
use grove_api_types::names::{PodCliqueSetName, RevisionName};
use grove_api_types::rolling_update::{Availability, Bounds, Unit, next_units};
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetStatus};
use grove_controller::children::DesiredChild;
use grove_controller::plan::Waiting;
use grove_controller::predicates;
use grove_runtime::caches::Delta;
use kube::Resource;

/// A replica in an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaState {
    /// Its index.
    pub(crate) index: i32,
    /// The hash of the earlier revision that its objects name, if it is not built from the current one.
    pub(crate) earlier: Option<String>,
    /// How much it serves.
    pub(crate) availability: Availability,
}

/// The replicas that keep an earlier revision now, with its hash. With `OnDelete`, none does: the user replaces the pods. While the set is paused,
/// and of the replicas below `partition`, all do.
///
/// No replica has its turn before the status shows that the update has begun. Otherwise a change back to the former template could look like no
/// update, or like one that has ended.
pub(crate) fn earlier_revisions(
    set: &PodCliqueSet,
    states: &[ReplicaState],
    (bounds, partition): (Bounds, i32),
    has_begun: bool,
) -> BTreeMap<i32, String> {
    if set.spec.is_updated_on_delete() {
        return BTreeMap::new();
    }
    let may_begin = has_begun && !set.spec.rolling_update().paused;
    let unit = |state: &ReplicaState| {
        let ReplicaState { index, earlier, availability } = state;
        Unit { index: *index, is_outdated: earlier.is_some(), availability: *availability }
    };
    // A replica below the partition that is being updated counts until it is available.
    let counts = |state: &&ReplicaState| state.index >= partition || state.earlier.is_none();
    let units: Vec<_> = states.iter().filter(counts).map(unit).collect();
    let turns: BTreeSet<_> = if may_begin { next_units(&units, bounds).into_iter().collect() } else { BTreeSet::new() };
    let waiting = states.iter().filter(|state| !turns.contains(&state.index));
    waiting.filter_map(|state| Some((state.index, state.earlier.clone()?))).collect()
}

/// Whether the status of the set shows that Grove is replacing its pods by those of the template with this hash.
pub(crate) fn is_open(set: &PodCliqueSet, hash: &str) -> bool {
    let Some(status) = set.status.as_ref().filter(|_| !set.spec.is_updated_on_delete()) else { return false };
    status.current_generation_hash.as_deref() == Some(hash) && status.is_updating()
}

/// Whether a set begins or ends an update.
pub(crate) fn has_changed(delta: &Delta<PodCliqueSet>) -> bool {
    let state = |set: &Option<Arc<PodCliqueSet>>| {
        let status = set.as_ref()?.status.as_ref()?;
        Some((status.current_generation_hash.clone(), status.is_updating()))
    };
    state(&delta.old) != state(&delta.new)
}

/// Whether a child of a set or group was changed or deleted, or its update has ended: then it may be the turn of the next replica.
pub(crate) fn child_needs_reconcile<K: Resource>(delta: &Delta<K>, is_updating: fn(&K) -> bool) -> bool {
    predicates::needs_reconcile(delta) || ends_update(delta, is_updating)
}

/// Whether the update of a child has just ended.
fn ends_update<K>(delta: &Delta<K>, is_updating: fn(&K) -> bool) -> bool {
    let is_updating = |child: &Option<Arc<K>>| child.as_deref().is_some_and(is_updating);
    is_updating(&delta.old) && delta.new.is_some() && !is_updating(&delta.new)
}

/// Whether the template has changed since the status was written. A hash of another version says nothing about the template.
pub(super) fn has_other_template(status: &PodCliqueSetStatus, hash: &str) -> bool {
    let current = status.current_generation_hash.as_deref();
    current.is_some_and(|current| current != hash && is_of_this_version(current))
}

/// A replica of a set or of a scaling group.
pub(crate) trait Replica: Clone {
    /// Its index.
    fn index(&self) -> i32;

    /// The same replica, built from another revision.
    fn built_from(self, revision: &Arc<Revision>) -> Self;
}

impl Replica for SetReplica {
    fn index(&self) -> i32 {
        self.index
    }

    fn built_from(self, revision: &Arc<Revision>) -> Self {
        Self::built_from(self, revision)
    }
}

impl Replica for GroupReplica {
    fn index(&self) -> i32 {
        self.index
    }

    fn built_from(self, revision: &Arc<Revision>) -> Self {
        Self::built_from(self, revision)
    }
}

/// What an update means for the replicas of a set or of a scaling group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Whether an update is in progress.
    pub(crate) is_open: bool,
    /// The replicas that have had their turn in this update: pclq-controller replaces their outdated pods. New replicas of a set are among them.
    pub(crate) given: BTreeSet<i32>,
    /// The replicas that keep an earlier revision until their turn.
    pub(crate) waiting: BTreeSet<i32>,
    /// Those whose revision does not exist, with the reason for the user: their objects stay as they are.
    pub(crate) unknown: BTreeMap<i32, Waiting>,
}

impl Turns {
    /// Builds the replicas from their earlier revisions: `earlier` has the hashes, and `revisions` those revisions that exist.
    pub(crate) fn build<'r, R: Replica + 'r>(
        &mut self,
        set: &PodCliqueSetName,
        (earlier, revisions): (&BTreeMap<i32, String>, &BTreeMap<String, Arc<Revision>>),
        replicas: impl IntoIterator<Item = &'r mut R>,
    ) {
        for replica in replicas {
            let Some(hash) = earlier.get(&replica.index()) else { continue };
            match revisions.get(hash) {
                Some(revision) => *replica = replica.clone().built_from(revision),
                None => self.add_unknown(replica.index(), set, hash),
            }
        }
    }

    /// Adds a replica whose revision with this hash does not exist.
    pub(crate) fn add_unknown(&mut self, replica: i32, set: &PodCliqueSetName, hash: &str) {
        let revision = RevisionName::of_set(set, hash);
        let message = format!(
            "replica {replica} stays as it is until its update, because ControllerRevision {revision} does not exist"
        );
        self.unknown.insert(replica, Waiting::new(available::REVISION_NOT_FOUND, message));
    }

    /// The child of the replica, which stays as it is if the revision is unknown.
    pub(crate) fn apply_to<'a, B>(&'a self, replica: i32, child: DesiredChild<'a, B>) -> DesiredChild<'a, B> {
        match self.unknown.get(&replica) {
            Some(waiting) => child.kept_as_it_is(|| waiting.clone()),
            None => child,
        }
    }
}

#[cfg(test)]
mod tests {
    use grove_api_types::v1alpha1::PodClique;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_end_of_the_update_of_a_child_is_its_own_delta() {
        let clique = |ended: Value| {
            let progress = json!({ "podCliqueSetGenerationHash": "g", "podTemplateHash": "p", "updateEndedAt": ended });
            let clique = json!({ "metadata": { "name": "a" }, "spec": { "podSpec": { "containers": [] } },
                "status": { "readyReplicas": 0, "updatedReplicas": 0, "scheduleGatedReplicas": 0, "scheduledReplicas": 0,
                    "updateProgress": progress } });
            Some(Arc::new(serde_json::from_value::<PodClique>(clique).unwrap()))
        };
        let (open, ended) = (|| clique(Value::Null), || clique(json!("2026-01-01T00:00:00Z")));
        assert!(ends_update(&Delta { old: open(), new: ended() }, PodClique::is_updating));
        assert!(!ends_update(&Delta { old: open(), new: open() }, PodClique::is_updating));
        assert!(!ends_update(&Delta { old: ended(), new: ended() }, PodClique::is_updating));
        assert!(
            !ends_update(&Delta { old: open(), new: None }, PodClique::is_updating),
            "a deletion has a trigger of its own"
        );
    }
}
