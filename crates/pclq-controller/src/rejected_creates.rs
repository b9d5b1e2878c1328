//! The cliques whose pods the API server rejected, by namespace. They are retried when a pod of their namespace is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::v1alpha1::PodClique;
use grove_controller::executor::ExecutionResult;
use grove_controller::slim::SlimPod;
use grove_runtime::api_error::ApiError;
use grove_runtime::caches::Delta;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

/// The names of the cliques that lack pods because creates were rejected. All clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectedCreates {
    by_namespace: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

impl RejectedCreates {
    /// Records whether creates of the clique were rejected. A reconcile without creates changes nothing.
    pub(crate) fn record(&self, clique: &PodClique, result: &ExecutionResult) {
        let creates = || result.steps.iter().filter(|step| step.verb == "create");
        if creates().any(|step| step.result.as_ref().is_err_and(is_admission_rejection)) {
            let mut all = self.by_namespace.lock();
            all.entry(clique.namespace().unwrap_or_default()).or_default().insert(clique.name_any());
        } else if creates().next().is_some() {
            self.forget(clique);
        }
    }

    /// Drops the clique.
    pub(crate) fn forget(&self, clique: &PodClique) {
        let namespace = clique.namespace().unwrap_or_default();
        let mut all = self.by_namespace.lock();
        let Some(names) = all.get_mut(&namespace) else { return };
        names.remove(&clique.name_any());
        if names.is_empty() {
            all.remove(&namespace);
        }
    }

    /// Whether creates of the clique were rejected in the last reconcile that sent any.
    pub(crate) fn contains(&self, clique: &PodClique) -> bool {
        self.by_namespace
            .lock()
            .get(&clique.namespace().unwrap_or_default())
            .is_some_and(|names| names.contains(&clique.name_any()))
    }

    /// The cliques to retry after the delta: if a pod was deleted, those of its namespace, because the delete may release
    /// quota.
    pub(crate) fn to_retry(&self, delta: &Delta<SlimPod>) -> Vec<ObjectRef<PodClique>> {
        let deleted = delta.old.as_ref().filter(|_| delta.is_delete());
        let Some(namespace) = deleted.and_then(|pod| pod.namespace()) else { return Vec::new() };
        let all = self.by_namespace.lock();
        let names = all.get(&namespace).into_iter().flatten();
        names.map(|name| ObjectRef::new(name).within(&namespace)).collect()
    }
}

/// Whether quota, admission or validation rejected the create, rather than a name conflict or a failed request.
fn is_admission_rejection(failure: &ApiError) -> bool {
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

    fn creates(results: &[Result<(), ApiError>]) -> ExecutionResult {
        let step = |result: &Result<(), ApiError>| {
            let target = Target::of(&clique("ns", "pod"));
            StepResult { stage: "pods", verb: "create", target, result: result.clone() }
        };
        ExecutionResult { steps: results.iter().map(step).collect() }
    }

    fn deleted_pod(namespace: &str) -> Delta<SlimPod> {
        let pod = json!({ "metadata": { "name": "p", "namespace": namespace }, "spec": {}, "status": {} });
        Delta { old: Some(Arc::new(serde_json::from_value(pod).unwrap())), new: None }
    }

    fn rejection(code: u16) -> Result<(), ApiError> {
        Err(ApiError::new(code, "Rejected", "no"))
    }

    #[test]
    fn a_deleted_pod_retries_the_rejected_cliques_of_its_namespace() {
        let rejected = RejectedCreates::default();
        rejected.record(&clique("ns", "a"), &creates(&[Ok(()), rejection(403)]));
        rejected.record(&clique("other", "b"), &creates(&[rejection(422)]));
        assert_eq!(rejected.to_retry(&deleted_pod("ns")), [ObjectRef::new("a").within("ns")]);
        let created = Delta { old: None, new: deleted_pod("ns").old };
        assert_eq!(rejected.to_retry(&created), []);
        assert!(rejected.contains(&clique("ns", "a")) && !rejected.contains(&clique("ns", "b")));
    }

    #[test]
    fn a_successful_create_or_a_deletion_of_the_clique_ends_the_rejection() {
        let (rejected, a) = (RejectedCreates::default(), clique("ns", "a"));
        for end in [
            |rejected: &RejectedCreates, a: &PodClique| rejected.record(a, &creates(&[Ok(())])),
            RejectedCreates::forget,
        ] {
            rejected.record(&a, &creates(&[rejection(403)]));
            rejected.record(&a, &ExecutionResult::default());
            assert!(rejected.contains(&a), "a reconcile without creates changes nothing");
            end(&rejected, &a);
            assert!(!rejected.contains(&a));
            assert_eq!(rejected.to_retry(&deleted_pod("ns")), []);
        }
    }

    #[test]
    fn a_name_conflict_and_an_unavailable_server_are_no_rejections() {
        let (rejected, a) = (RejectedCreates::default(), clique("ns", "a"));
        for code in [0, 409, 500, 503] {
            rejected.record(&a, &creates(&[rejection(code)]));
            assert!(!rejected.contains(&a), "{code}");
        }
    }
}
