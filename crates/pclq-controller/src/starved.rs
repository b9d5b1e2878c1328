//! Which cliques the cluster refused pods, by namespace: those that may go on when other pods of it are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grove_api_types::v1alpha1::PodClique;
use grove_controller::executor::ExecutionResult;
use grove_controller::slim::SlimPod;
use grove_runtime::api_error::ApiError;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// The cliques that lack pods because creates of theirs were refused. All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Starved {
    by_namespace: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

impl Starved {
    /// Takes note of what came of the plan for a clique.
    pub fn note(&self, clique: &PodClique, done: &ExecutionResult) {
        let creates = || done.steps.iter().filter(|outcome| outcome.verb == "create");
        if creates().any(|outcome| outcome.result.as_ref().is_err_and(is_for_lack_of_leave)) {
            let mut all = self.lock();
            all.entry(clique.namespace().unwrap_or_default()).or_default().insert(clique.name_any());
        } else if creates().next().is_some() {
            self.forget(clique);
        }
    }

    /// Drops what is known of the clique.
    pub fn forget(&self, clique: &PodClique) {
        let namespace = clique.namespace().unwrap_or_default();
        let mut all = self.lock();
        let Some(names) = all.get_mut(&namespace) else { return };
        names.remove(&clique.name_any());
        if names.is_empty() {
            all.remove(&namespace);
        }
    }

    /// Whether the clique was refused pods the last time.
    pub fn holds(&self, clique: &PodClique) -> bool {
        self.lock().get(&clique.namespace().unwrap_or_default()).is_some_and(|names| names.contains(&clique.name_any()))
    }

    /// The cliques for which there may be room now: those of the namespace that a pod has left.
    pub fn relieved(&self, delta: &Delta<SlimPod>) -> Vec<ObjectRef<PodClique>> {
        let gone = delta.old.as_ref().filter(|_| delta.is_delete());
        let Some(namespace) = gone.and_then(|pod| pod.namespace()) else { return Vec::new() };
        let all = self.lock();
        let names = all.get(&namespace).into_iter().flatten();
        names.map(|name| ObjectRef::new(name).within(&namespace)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        // No code panics while it holds the lock.
        self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it was for the cluster's rules and not for the name or the way there.
fn is_for_lack_of_leave(failure: &ApiError) -> bool {
    matches!(failure.code, 403 | 422)
}

#[cfg(test)]
mod tests {
    use grove_controller::executor::StepResult;
    use grove_controller::plan::Target;
    use serde_json::json;

    use super::*;

    fn clique(namespace: &str, name: &str) -> PodClique {
        let metadata = json!({ "namespace": namespace, "name": name });
        let object = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata,
            "spec": { "roleName": "r", "replicas": 1, "podSpec": { "containers": [] } } });
        serde_json::from_value(object).unwrap()
    }

    fn created(results: &[Result<(), ApiError>]) -> ExecutionResult {
        let outcome = |result: &Result<(), ApiError>| {
            let target = Target::of(&clique("ns", "pod"));
            StepResult { stage: "pods", verb: "create", target, result: result.clone() }
        };
        ExecutionResult { steps: results.iter().map(outcome).collect() }
    }

    fn pod_gone(namespace: &str) -> Delta<SlimPod> {
        let pod = json!({ "metadata": { "name": "p", "namespace": namespace }, "spec": {}, "status": {} });
        Delta { old: Some(Arc::new(serde_json::from_value(pod).unwrap())), new: None }
    }

    fn refused(code: u16) -> Result<(), ApiError> {
        Err(ApiError::new(code, "Refused", "no"))
    }

    #[test]
    fn who_was_refused_is_relieved_by_a_pod_that_goes_in_its_namespace() {
        let starved = Starved::default();
        starved.note(&clique("ns", "a"), &created(&[Ok(()), refused(403)]));
        starved.note(&clique("other", "b"), &created(&[refused(422)]));
        assert_eq!(starved.relieved(&pod_gone("ns")), [ObjectRef::new("a").within("ns")]);
        let came = Delta { old: None, new: pod_gone("ns").old };
        assert_eq!(starved.relieved(&came), []);
        assert!(starved.holds(&clique("ns", "a")) && !starved.holds(&clique("ns", "b")));
    }

    #[test]
    fn who_got_its_pods_or_is_gone_is_not_starved() {
        let (starved, a) = (Starved::default(), clique("ns", "a"));
        for over in [|starved: &Starved, a: &PodClique| starved.note(a, &created(&[Ok(())])), Starved::forget] {
            starved.note(&a, &created(&[refused(403)]));
            starved.note(&a, &ExecutionResult::default());
            assert!(starved.holds(&a), "nothing was asked for, so nothing is known anew");
            over(&starved, &a);
            assert!(!starved.holds(&a));
            assert_eq!(starved.relieved(&pod_gone("ns")), []);
        }
    }

    #[test]
    fn a_taken_name_and_a_silent_server_starve_nobody() {
        let (starved, a) = (Starved::default(), clique("ns", "a"));
        for code in [0, 409, 500, 503] {
            starved.note(&a, &created(&[refused(code)]));
            assert!(!starved.holds(&a), "{code}");
        }
    }
}
