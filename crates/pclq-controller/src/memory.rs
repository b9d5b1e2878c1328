//! What this process remembers of its own creates: the names it asked for and has not seen yet, and the names that
//! foreign pods have. Losing it costs nothing but a retry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grove_api_types::labels;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::plan::{Create, Plan, Step};
use grove_controller::slim::SlimPod;
use grove_runtime::api_error::ApiError;

use crate::clique::plan::stage;

/// A pod that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its name.
    pub name: String,
    /// Its uid, once the API server answered: its event is on its way.
    pub uid: Option<String>,
    /// How often all pods had been read when it was asked for.
    pub lists: u64,
}

impl Asked {
    /// Whether the pod is the one asked for. An earlier pod of the same name is not: a cache that lags behind may show
    /// it when its successor, created in its absence, is there already.
    fn is(&self, pod: &SlimPod) -> bool {
        match &self.uid {
            Some(uid) => pod.metadata.uid.as_ref() == Some(uid),
            None => pod.metadata.name.as_ref() == Some(&self.name),
        }
    }
}

/// What is remembered, by the uid of the clique.
#[derive(Debug, Default)]
pub struct Memory(Mutex<BTreeMap<String, Recollection>>);

/// What is remembered of one clique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recollection {
    /// The pod last asked for at each index, if it has not appeared in the cache.
    pub asked: BTreeMap<i32, Asked>,
    /// Names that the API server refused because a foreign pod has them.
    pub refused: BTreeSet<String>,
    /// The version of its gang in which its references were last replaced. While no other version was seen, the cache does
    /// not have the new ones.
    pub told: Option<String>,
}

impl Memory {
    /// What is remembered of the clique, now that these pods of it were seen, and all pods were read so often.
    pub fn recall<'a>(&self, clique_uid: &str, seen: impl Iterator<Item = &'a SlimPod>, lists: u64) -> Recollection {
        let seen: Vec<_> = seen.collect();
        let mut all = self.lock();
        let Some(remembered) = all.get_mut(clique_uid) else { return Recollection::default() };
        remembered.asked.retain(|_, asked| !seen.iter().any(|pod| asked.is(pod)));
        // Whatever happened to pods before everything was read anew, no event tells.
        for missed in remembered.asked.values_mut().filter(|asked| asked.lists != lists) {
            missed.uid = None;
        }
        remembered.clone()
    }

    /// Remembers which pods the plan asks for.
    pub fn keep_asked(&self, clique_uid: &str, plan: &Plan, lists: u64) {
        for step in plan.steps() {
            let Step::Create(Create { target, object }) = step else { continue };
            let index =
                object.value()["metadata"]["labels"][labels::POD_INDEX].as_str().and_then(|index| index.parse().ok());
            let Some(index) = index else { continue };
            let mut all = self.lock();
            let asked = all.entry(clique_uid.to_owned()).or_default().asked.entry(index).or_default();
            *asked = Asked { name: target.name.clone(), uid: None, lists };
        }
    }

    /// Remembers which pods the API server answered with, and which names foreign pods were found to have.
    pub fn keep_answers(&self, clique_uid: &str, done: &ExecutionResult) {
        for StepResult { stage: _, verb: _, target, result } in &done.steps {
            let mut all = self.lock();
            let Some(Recollection { asked, refused, told: _ }) = all.get_mut(clique_uid) else { return };
            match result {
                Ok(()) => {
                    if let Some(asked) = asked.values_mut().find(|asked| asked.name == target.name) {
                        asked.uid.clone_from(&target.uid);
                    }
                }
                Err(failure) if failure.reason == ApiError::NAME_CONFLICT => {
                    refused.insert(target.name.clone());
                }
                Err(_) => {}
            }
        }
    }

    /// Remembers that the references in this version of the gang were replaced.
    pub fn keep_told(&self, clique_uid: &str, done: &ExecutionResult, gang_version: Option<String>) {
        if done.steps.iter().any(|outcome| outcome.stage == stage::REFERENCES && outcome.result.is_ok()) {
            self.lock().entry(clique_uid.to_owned()).or_default().told = gang_version;
        }
    }

    /// Drops what is known of a clique that is gone.
    pub fn forget(&self, clique_uid: &str) {
        self.lock().remove(clique_uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Recollection>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl From<BTreeMap<String, Recollection>> for Memory {
    fn from(remembered: BTreeMap<String, Recollection>) -> Self {
        Self(Mutex::new(remembered))
    }
}
