//! Writes of this process that the caches may not contain yet, like client-go's `UIDTrackingControllerExpectations`. If they
//! are lost, for example by a restart, the next reconcile repeats a write without effect.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Create, Plan, Step};
use grove_controller::slim::SlimPod;
use grove_runtime::api_error::ApiError;
use parking_lot::Mutex;

/// A pod that was created and is not in the cache yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingCreate {
    /// Its name.
    pub(crate) name: String,
    /// Its uid after the API server has answered: its watch event is pending.
    pub(crate) uid: Option<String>,
    /// The number of relists of the pods when the create was sent.
    pub(crate) relists: u64,
}

impl PendingCreate {
    /// Whether the create is visible as `pod`. The uid decides, because a stale cache may still contain a predecessor of
    /// the same name.
    fn is_fulfilled_by(&self, pod: &SlimPod) -> bool {
        match &self.uid {
            Some(uid) => pod.metadata.uid.as_ref() == Some(uid),
            None => pod.metadata.name.as_ref() == Some(&self.name),
        }
    }
}

/// The expectations of one clique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CliqueExpectations {
    /// The last create at each index that is not in the cache yet.
    pub(crate) creates: BTreeMap<i32, PendingCreate>,
    /// Pod names that belong to an object that the clique does not control.
    pub(crate) conflicting_names: BTreeSet<String>,
    /// The resource version of the gang when its pod references were last written. While the cache has that version, it
    /// lacks the write.
    pub(crate) references_written_at: Option<String>,
}

/// The expectations of all cliques, by uid.
#[derive(Debug, Default)]
pub(crate) struct Expectations(Mutex<BTreeMap<String, CliqueExpectations>>);

impl Expectations {
    /// The expectations of a clique, without the creates that are visible in `known_pods`.
    pub(crate) fn get<'a>(
        &self,
        clique_uid: &str,
        known_pods: impl Iterator<Item = &'a SlimPod>,
        relists: u64,
    ) -> CliqueExpectations {
        let known_pods: Vec<_> = known_pods.collect();
        let mut all = self.0.lock();
        let Some(expectations) = all.get_mut(clique_uid) else { return CliqueExpectations::default() };
        expectations.creates.retain(|_, create| !known_pods.iter().any(|pod| create.is_fulfilled_by(pod)));
        // A relist may have swallowed the watch event, so the create is no longer known to be pending.
        for missed in expectations.creates.values_mut().filter(|create| create.relists != relists) {
            missed.uid = None;
        }
        expectations.clone()
    }

    /// Records the creates of the plan before they are sent.
    pub(crate) fn expect_creations(&self, clique_uid: &str, plan: &Plan, relists: u64) {
        for step in plan.steps() {
            let Step::Create(Create { target, object }) = step else { continue };
            let index =
                object.value()["metadata"]["labels"][labels::POD_INDEX].as_str().and_then(|index| index.parse().ok());
            let Some(index) = index else { continue };
            let mut all = self.0.lock();
            let create = all.entry(clique_uid.to_owned()).or_default().creates.entry(index).or_default();
            *create = PendingCreate { name: target.name.clone(), uid: None, relists };
        }
    }

    /// Records the uids of the created pods, and the names that conflict with other objects.
    pub(crate) fn record_results(&self, clique_uid: &str, result: &ExecutionResult) {
        for StepResult { stage: _, verb: _, target, result } in &result.steps {
            let mut all = self.0.lock();
            let Some(expectations) = all.get_mut(clique_uid) else { return };
            match result {
                Ok(()) => {
                    let mut creates = expectations.creates.values_mut();
                    if let Some(create) = creates.find(|create| create.name == target.name) {
                        create.uid.clone_from(&target.uid);
                    }
                }
                Err(failure) if failure.reason == ApiError::NAME_CONFLICT => {
                    expectations.conflicting_names.insert(target.name.clone());
                }
                Err(_) => {}
            }
        }
    }

    /// Records that the pod references were written into this version of the gang.
    pub(crate) fn record_references_written(&self, clique_uid: &str, gang_version: Option<String>) {
        self.0.lock().entry(clique_uid.to_owned()).or_default().references_written_at = gang_version;
    }

    /// Drops the expectations of a deleted clique.
    pub(crate) fn forget(&self, clique_uid: &str) {
        self.0.lock().remove(clique_uid);
    }
}

#[cfg(test)]
impl From<BTreeMap<String, CliqueExpectations>> for Expectations {
    fn from(by_uid: BTreeMap<String, CliqueExpectations>) -> Self {
        Self(Mutex::new(by_uid))
    }
}
