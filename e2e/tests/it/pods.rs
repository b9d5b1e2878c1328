//! Changes of pods, and the status that their clique and their set report.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, fixtures, in_namespace, namespace_state::is_ready, snapshot};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

const CLIQUE: &str = "llm-0-decode";

const ALL_READY: &str = "
    2 pods, 2 scheduled, 2 ready
    Available=True MinimumReplicasAvailable: 2 of 2 pods ready
    MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 2
    PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
    set: Available=True MinimumReplicasAvailable: 1 of 1 replicas are available";

const RUNNING_NOT_READY: &str = "
    2 pods, 2 scheduled, 0 ready
    Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 not ready
    MinAvailableBreached=True InsufficientReadyPods: Insufficient ready or starting pods. expected at least: 1, found: 0
    PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
    set: Available=False MinimumReplicasUnavailable: 0 of 1 replicas are available";

#[tokio::test]
async fn scheduled_pods_that_do_not_start_are_no_min_available_breach() {
    in_namespace("e2e-pods-pending", async |ns| {
        create_with_behaviour(ns, "pending").await;
        let state = wait_for_status(
            ns,
            "
            2 pods, 2 scheduled, 0 ready
            Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 not ready
            MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 2
            PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
            set: Available=False MinimumReplicasUnavailable: 0 of 1 replicas are available",
        )
        .await;
        recover(ns, &state).await;
        wait_for_status(ns, ALL_READY).await;
    })
    .await;
}

#[tokio::test]
async fn running_pods_that_are_not_ready_are_a_min_available_breach_and_are_not_replaced() {
    in_namespace("e2e-pods-unready", async |ns| {
        create_with_behaviour(ns, "unready").await;
        let state = wait_for_status(ns, RUNNING_NOT_READY).await;
        recover(ns, &state).await;
        let after = wait_for_status(ns, ALL_READY).await;
        assert_eq!(uids(&after), uids(&state));
    })
    .await;
}

#[tokio::test]
async fn crashing_pods_are_a_min_available_breach_until_they_are_ready() {
    in_namespace("e2e-pods-crash", async |ns| {
        create_with_behaviour(ns, "crash").await;
        let state = wait_for_status(ns, RUNNING_NOT_READY).await;
        recover(ns, &state).await;
        let after = wait_for_status(ns, ALL_READY).await;
        assert_eq!(uids(&after), uids(&state));
        let restarts = after.active_pods().filter_map(restarts).collect::<Vec<_>>();
        assert_eq!(restarts.iter().filter(|restarts| **restarts > 0).count(), 2, "{restarts:?}");
    })
    .await;
}

#[tokio::test]
async fn a_failed_pod_is_replaced() {
    in_namespace("e2e-pods-failed", async |ns| {
        is_replaced(ns, async |name| {
            let fail = json!({"metadata": {"annotations": {"test.grove.io/behaviour": "fail"}}});
            ns.patch::<Pod>(name, fail).await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_evicted_by_its_node_is_replaced() {
    in_namespace("e2e-pods-pressure", async |ns| {
        is_replaced(ns, async |name| {
            let message = "The node was low on resource: memory.";
            let status = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": message}});
            let patched = ns.api::<Pod>().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await;
            patched.expect("the pod's status is patched");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_evicted_through_the_api_is_replaced() {
    in_namespace("e2e-pods-evicted", async |ns| {
        is_replaced(ns, async |name| {
            ns.api::<Pod>().evict(name, &EvictParams::default()).await.expect("the pod is evicted");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_slowly_terminating_pod_releases_its_index_at_once() {
    in_namespace("e2e-pods-slow", async |ns| {
        create_with_behaviour(ns, "slow-stop").await;
        let state = wait_for_status(ns, ALL_READY).await;
        let old = at_index_0(&state).expect("the decode pod with index 0").clone();
        // A finalizer keeps the pod until the test removes it.
        ns.add_finalizers([&old]).await;
        ns.delete_object::<Pod>(&old.name_any()).await;
        let state = ns
            .wait_for("another pod with index 0 is ready while the old one terminates", |state| {
                let is_terminating = |pod: &Pod| pod.uid() == old.uid() && is_terminating(pod);
                state.pods.values().any(is_terminating) && at_index_0(state).is_some_and(is_ready)
            })
            .await;
        assert_eq!(state.ready_indices(CLIQUE), [0, 1]);
        wait_for_status(ns, ALL_READY).await;
        ns.remove_finalizers([&old]).await;
        ns.wait_for("the old pod is deleted, and all pods are ready", |state| {
            is_settled(state) && !uids(state).contains(&old.uid())
        })
        .await;
    })
    .await;
}

/// The creation times, in seconds, of the pods that had the index 0.
type CreationTimes = BTreeMap<String, i64>;

/// Takes long: the first two delays of the backoff are 10 and 20 s.
#[tokio::test]
async fn a_pod_that_always_fails_is_replaced_with_exponential_backoff() {
    in_namespace("e2e-pods-backoff", async |ns| {
        create_with_behaviour(ns, "fail").await;
        let created: RefCell<CreationTimes> = RefCell::default();
        let reported = Cell::new(false);
        ns.wait_for("three pods had the index 0, and the clique reported the reason", |state| {
            let at_index_0 = state.pods.values().filter(|pod| snapshot::hostname(pod) == "llm-0-decode-0");
            let times = at_index_0.filter_map(|pod| Some((pod.uid()?, pod.creation_timestamp()?.0.as_second())));
            created.borrow_mut().extend(times);
            let status = state.cliques.get(CLIQUE).and_then(|clique| clique.status.as_ref());
            let reasons = status.iter().flat_map(|status| &status.conditions).map(|condition| &condition.reason);
            reported.set(reported.get() || reasons.into_iter().any(|reason| reason == "PodReplacementBackoff"));
            created.borrow().len() >= 3 && reported.get()
        })
        .await;
        let mut times: Vec<_> = created.into_inner().into_values().collect();
        times.sort_unstable();
        // The times are whole seconds, so two times can differ by one second less than the delay.
        assert!(times[1] - times[0] >= 10 && times[2] - times[1] >= 19, "{times:?}");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_deletes_every_failed_pod_does_not_end_the_backoff() {
    in_namespace("e2e-pods-deleted-failed", async |ns| {
        create_with_behaviour(ns, "fail").await;
        let mut created: Vec<(Option<String>, i64)> = Vec::new();
        for _ in 0..3 {
            let is_next = |pod: &&Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                let is_new = created.iter().all(|(uid, _)| *uid != pod.uid());
                snapshot::hostname(pod) == "llm-0-decode-0" && phase == Some("Failed") && is_new
            };
            let what = "another pod with the index 0 failed";
            let state = ns.wait_for(what, |state| state.pods.values().any(|pod| is_next(&pod))).await;
            let failed = state.pods.values().find(is_next).expect("a failed pod");
            let time = failed.creation_timestamp().expect("a creation time").0.as_second();
            created.push((failed.uid(), time));
            // If the test is slow, Grove has already deleted the pod.
            drop(ns.api::<Pod>().delete(&failed.name_any(), &DeleteParams::default()).await);
        }
        // The times are whole seconds, so two times can differ by one second less than the delay.
        assert!(created.windows(2).any(|pair| pair[1].1 - pair[0].1 >= 9), "{created:?}");
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_cannot_be_deleted_does_not_block_other_pods() {
    in_namespace("e2e-pods-protected", async |ns| {
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        let state = ns.wait_for("the set is available and all pods are ready", is_settled).await;
        let pod_at = |state: &NamespaceState, host: &str| {
            state.active_pods().find(|pod| snapshot::hostname(pod) == host).cloned().expect("a pod")
        };
        let (first, protected) = (pod_at(&state, "llm-0-decode-0"), pod_at(&state, "llm-0-decode-1"));
        let policy = DeletePolicy::install(ns, &protected).await;
        ns.scale::<PodClique>(CLIQUE, 1).await;
        ns.wait_for("the clique reports the rejected delete", |state| {
            let status = state.cliques.get(CLIQUE).and_then(|clique| clique.status.as_ref());
            status.is_some_and(|status| status.last_errors.iter().any(|error| error.description.contains(PROTECTED)))
        })
        .await;
        ns.delete_object::<Pod>(&first.name_any()).await;
        let state = ns
            .wait_for("the first pod is replaced", |state| {
                let successor = state.active_pods().find(|pod| snapshot::hostname(pod) == "llm-0-decode-0");
                successor.is_some_and(|pod| pod.uid() != first.uid() && is_ready(pod))
            })
            .await;
        assert!(uids(&state).contains(&protected.uid()), "{state}");
        policy.remove().await;
        ns.wait_for("the clique has one pod", |state| state.ready_indices(CLIQUE) == [0] && uids(state).len() == 1)
            .await;
    })
    .await;
}

/// The message of the policy.
const PROTECTED: &str = "this pod is protected";

/// A policy that forbids to delete one pod.
struct DeletePolicy {
    client: Client,
    name: String,
}

impl DeletePolicy {
    async fn install(ns: &Namespace, pod: &Pod) -> Self {
        let (client, name) = (ns.client.clone(), format!("{}-protected", ns.name));
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"] });
        let expression = format!("request.name != '{}'", pod.name_any());
        let spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": expression, "message": PROTECTED }],
        });
        let policy = json!({ "metadata": { "name": name }, "spec": spec });
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).expect("a policy");
        let namespaces = json!({ "matchLabels": { "kubernetes.io/metadata.name": ns.name } });
        let binding = json!({ "metadata": { "name": name }, "spec": {
            "policyName": name, "validationActions": ["Deny"], "matchResources": { "namespaceSelector": namespaces },
        } });
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).expect("a binding");
        let params = PostParams::default();
        Api::all(client.clone()).create(&params, &policy).await.expect("the policy is created");
        Api::all(client.clone()).create(&params, &binding).await.expect("the binding is created");
        // The API server enforces a policy a moment after it was stored.
        let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
        poll_until(async || ns.api::<Pod>().delete(&pod.name_any(), &dry_run).await.err()).await;
        Self { client, name }
    }

    async fn remove(self) {
        let (client, params) = (self.client, DeleteParams::default());
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
        bindings.delete(&self.name, &params).await.expect("the binding is deleted");
        let policies = Api::<ValidatingAdmissionPolicy>::all(client);
        policies.delete(&self.name, &params).await.expect("the policy is deleted");
    }
}

/// After `disrupt`, another pod replaces the pod at its index. It waits for some seconds if the pod ended soon after its creation.
async fn is_replaced(ns: &Namespace, disrupt: impl AsyncFnOnce(&str)) {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
    let state = ns.wait_for("the set is available and all pods are ready", is_settled).await;
    let pod = at_index_0(&state).expect("the decode pod with index 0");
    disrupt(&pod.name_any()).await;
    let state =
        ns.wait_for("the pod is replaced", |state| is_settled(state) && !uids(state).contains(&pod.uid())).await;
    assert_eq!(state.ready_indices(CLIQUE), [0, 1]);
    wait_for_status(ns, ALL_READY).await;
}

/// Creates a set whose decode pods have this behaviour.
async fn create_with_behaviour(ns: &Namespace, behaviour: &str) {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques_with_behaviour("decode", behaviour, "llm", 1)).await;
}

/// Removes the behaviour from the pods.
async fn recover(ns: &Namespace, state: &NamespaceState) {
    for pod in state.active_pods().filter(|pod| pod.annotations().contains_key("test.grove.io/behaviour")) {
        ns.patch::<Pod>(&pod.name_any(), json!({"metadata": {"annotations": {"test.grove.io/behaviour": null}}})).await;
    }
}

/// Waits until the status of the clique and the condition Available of its set are exactly these lines: the counts of the
/// clique, its conditions, and the condition of the set.
async fn wait_for_status(ns: &Namespace, expected: &str) -> NamespaceState {
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    ns.wait_for(&expected.join("\n"), |state| status_lines(state).is_some_and(|lines| lines == expected)).await
}

fn status_lines(state: &NamespaceState) -> Option<Vec<String>> {
    let clique = state.cliques.get(CLIQUE)?.status.as_ref()?;
    let set = state.sets.get("llm")?.status.as_ref()?;
    let line = |condition: &Condition| {
        let Condition { type_, status, reason, message, .. } = condition;
        format!("{type_}={status} {reason}: {message}")
    };
    let (pods, scheduled, ready) = (clique.replicas?, clique.scheduled_replicas, clique.ready_replicas);
    let mut lines = vec![format!("{pods} pods, {scheduled} scheduled, {ready} ready")];
    lines.extend(clique.conditions.iter().map(line));
    let of_set = set.conditions.iter().find(|condition| condition.type_ == "Available")?;
    lines.push(format!("set: {}", line(of_set)));
    Some(lines)
}

fn is_settled(state: &NamespaceState) -> bool {
    state.is_available("llm") && state.pods.len() == 5 && state.active_pods().filter(|pod| is_ready(pod)).count() == 5
}

fn at_index_0(state: &NamespaceState) -> Option<&Pod> {
    let hostname = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    state.active_pods().find(|pod| hostname(pod).as_deref() == Some("llm-0-decode-0"))
}

/// The UIDs of the pods of the clique.
fn uids(state: &NamespaceState) -> Vec<Option<String>> {
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|clique| clique == CLIQUE);
    let mut uids: Vec<_> = state.pods.values().filter(of_clique).map(ResourceExt::uid).collect();
    uids.sort();
    uids
}

fn restarts(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    containers.iter().map(|container| container.restart_count).max()
}
