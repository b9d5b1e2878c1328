//! The writes of this process on which the next plan of a clique depends, besides the expectations: the names of its pods, and the last
//! create of an attempt with a rejection. If they are lost, for example by a restart, the next
//! reconcile repeats a write without effect.

use std::collections::{BTreeMap, BTreeSet};

use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::group_kind::group_kind_of;
use grove_controller::plan::{Plan, Target};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::api_error::ApiError;
use parking_lot::Mutex;

/// The writes for one clique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CliqueWrites {
    /// The name of the last create at each index, until the cache has the pod. If the response was lost, the pod may exist, so
    /// the next create at the index has the same name.
    pub(crate) created_names: BTreeMap<i32, String>,
    /// Pod names that belong to an object that the clique does not control.
    pub(crate) conflicting_names: BTreeSet<String>,
    /// The index of the last create that was sent, if the API server rejected a create of the same plan.
    pub(crate) last_create: Option<i32>,
}

/// The writes for all cliques, by uid.
#[derive(Debug, Default)]
pub(crate) struct WriteHistory(Mutex<BTreeMap<String, CliqueWrites>>);

impl WriteHistory {
    /// The writes for a clique, without the names of pods that are among `known_pods`. The name of a pending create stays:
    /// the known pod of that name is a predecessor from a stale cache.
    pub(crate) fn of_clique<'a>(
        &self,
        clique_uid: &str,
        known_pods: impl Iterator<Item = &'a SlimPod>,
        pending_creates: &PendingCreates,
    ) -> CliqueWrites {
        let mut all = self.0.lock();
        let Some(writes) = all.get_mut(clique_uid) else { return CliqueWrites::default() };
        if !writes.created_names.is_empty() {
            let known: BTreeSet<_> = known_pods.filter_map(|pod| pod.metadata.name.as_deref()).collect();
            writes.created_names.retain(|_, name| is_pending(pending_creates, name) || !known.contains(name.as_str()));
        }
        writes.clone()
    }

    /// Records the names of the pods to create, before the plan is executed. Expectations cannot replace them: they drop a create
    /// without a response.
    pub(crate) fn record_created_names(&self, clique_uid: &str, plan: &Plan) {
        let mut all = self.0.lock();
        for (index, target) in plan.indexed_creates() {
            all.entry(clique_uid.to_owned()).or_default().created_names.insert(index, target.name.clone());
        }
    }

    /// Records the names that conflict with other objects.
    pub(crate) fn record_conflicts(&self, clique_uid: &str, result: &ExecutionResult) {
        let conflicts = result.failed_steps().filter(|(_, error)| error.reason == ApiError::NAME_CONFLICT);
        let mut all = self.0.lock();
        for (step, _) in conflicts {
            all.entry(clique_uid.to_owned()).or_default().conflicting_names.insert(step.target.name.clone());
        }
    }

    /// Records the index of the last create that was sent, if the API server rejected a create. The next retry continues behind it.
    pub(crate) fn record_last_create(&self, clique_uid: &str, plan: &Plan, result: &ExecutionResult) {
        let creates = || result.steps.iter().filter(|step| step.verb == "create");
        let Some(last) = creates().next_back() else { return };
        let is_last = |(_, target): &(i32, &Target)| target.name == last.target.name;
        let has_rejection = creates().any(|step| step.result.is_err());
        let last_create = if has_rejection { plan.indexed_creates().find(is_last) } else { None };
        if let Some(writes) = self.0.lock().get_mut(clique_uid) {
            writes.last_create = last_create.map(|(index, _)| index);
        }
    }

    /// The number of recorded names and indices.
    pub(crate) fn len(&self) -> usize {
        let count = |writes: &CliqueWrites| {
            let CliqueWrites { created_names, conflicting_names, last_create } = writes;
            created_names.len() + conflicting_names.len() + usize::from(last_create.is_some())
        };
        self.0.lock().values().map(count).sum()
    }

    /// Drops the writes for a deleted clique.
    pub(crate) fn forget(&self, clique_uid: &str) {
        self.0.lock().remove(clique_uid);
    }
}

/// Whether the pod was created under this name and its watch event is pending.
pub(crate) fn is_pending(pending_creates: &PendingCreates, name: &str) -> bool {
    pending_creates.contains(&group_kind_of::<SlimPod>(), name)
}

#[cfg(test)]
impl From<BTreeMap<String, CliqueWrites>> for WriteHistory {
    fn from(by_uid: BTreeMap<String, CliqueWrites>) -> Self {
        Self(Mutex::new(by_uid))
    }
}
