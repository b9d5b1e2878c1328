//! Creates that quotas and admission plugins reject: the owner reports the server's message, other objects are not blocked,
//! and creates are retried with a bounded rate until they succeed.

use e2e::{Namespace, NamespaceState, TestCluster, events, fixtures, in_namespace, propagation};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

fn available<'a>(state: &'a NamespaceState, clique: &str) -> Option<&'a Condition> {
    let status = state.cliques.get(clique)?.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == "Available")
}

/// Whether the clique reports rejected creates with these texts.
fn reports_rejection(state: &NamespaceState, clique: &str, texts: &[&str]) -> bool {
    available(state, clique).is_some_and(|available| {
        let has_texts = texts.iter().all(|text| available.message.contains(text));
        has_texts && (available.status == "True" || available.reason == "FailedCreate")
    })
}

fn is_healthy(state: &NamespaceState, clique: &str, indices: &[i32]) -> bool {
    let status = state.cliques.get(clique).and_then(|clique| clique.status.as_ref());
    let reports_no_rejection = |message: &str| !message.contains("the API server");
    state.ready_indices(clique) == indices
        && status.is_some_and(|status| status.last_errors.is_empty())
        && available(state, clique)
            .is_some_and(|available| available.status == "True" && reports_no_rejection(&available.message))
}

/// A resource of a quota, and an object that counts against it.
pub(super) const PODS: (&str, &str) = ("pods", POD);
const GANGS: (&str, &str) = (
    "count/podgangs.scheduler.grove.io",
    "{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, metadata: {name: probe}, spec: {podgroups: []}}",
);
pub(super) const CLIQUES: (&str, &str) = (
    "count/podcliques.grove.io",
    "{apiVersion: grove.io/v1alpha1, kind: PodClique, metadata: {name: probe},
      spec: {roleName: a, replicas: 1, podSpec: {containers: [{name: c, image: i}]}}}",
);
pub(super) const CLAIMS: (&str, &str) = (
    "count/resourceclaims.resource.k8s.io",
    "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: probe},
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}",
);
const POD: &str = "
    {apiVersion: v1, kind: Pod, metadata: {name: probe},
      spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 100m}}}]}}";

/// Creates a quota of `count` objects and waits until the API server enforces it. The quota first allows no object, because
/// only a rejection shows that it is enforced.
pub(super) async fn create_quota(ns: &Namespace, (resource, object): (&str, &str), count: u32) {
    create_empty_quota(ns, (resource, object)).await;
    resize_quota(ns, resource, count).await;
    propagation::wait_for_dry_run_create(ns, object, None).await;
}

/// Creates a quota that allows no object, and waits until the API server enforces it.
pub(super) async fn create_empty_quota(ns: &Namespace, (resource, object): (&str, &str)) {
    propagation::create_exhausted_quota(ns, (resource, 0), object).await;
}

async fn resize_quota(ns: &Namespace, resource: &str, count: u32) {
    ns.patch::<ResourceQuota>(propagation::QUOTA, json!({ "spec": { "hard": { resource: count.to_string() } } })).await;
}

/// The number of events about an object with this reason, published before an event with the reason `last`. Each is one
/// event without a series.
async fn count_events_before(ns: &Namespace, name: &str, reason: &str, last: &str) -> usize {
    let mut events = events::wait_for(ns, name, last).await;
    events.retain(|event| events::is_about(event, name, reason));
    assert!(events.iter().all(|event| event.series.is_none()), "{events:#?}");
    events.len()
}

#[tokio::test]
async fn pods_rejected_by_a_quota_are_created_when_the_quota_is_raised() {
    in_namespace("e2e-rejected-quota", async |ns| {
        create_quota(ns, PODS, 4).await;
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        ns.wait_for("four pods are ready, and one clique reports the rejection", |state| {
            let cliques = ["llm-0-frontend", "llm-0-prefill", "llm-0-decode"];
            let texts = ["the create of 1 Pod", "exceeded quota: small", "limited: pods=4"];
            state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count() == 4
                && cliques.iter().filter(|clique| reports_rejection(state, clique, &texts)).count() == 1
        })
        .await;
        resize_quota(ns, "pods", 5).await;
        ns.wait_for("the set is available, and no clique reports a rejection", |state| {
            state.is_available("llm")
                && is_healthy(state, "llm-0-frontend", &[0])
                && is_healthy(state, "llm-0-prefill", &[0, 1])
                && is_healthy(state, "llm-0-decode", &[0, 1])
        })
        .await;
    })
    .await;
}

/// The number of rejected creates that the clique reports.
fn rejected_creates(state: &NamespaceState, clique: &str) -> Option<usize> {
    let message = &available(state, clique)?.message;
    let (_, rest) = message.split_once("the create of ")?;
    rest.split_once(" Pod")?.0.parse().ok()
}

#[tokio::test]
async fn a_small_quota_rejects_few_creates_of_a_large_clique() {
    in_namespace("e2e-rejected-burst", async |ns| {
        create_quota(ns, PODS, 10).await;
        let set = fixtures::three_cliques("llm", 1).replacen(
            "replicas: 1\n        minAvailable",
            "replicas: 300\n        minAvailable",
            1,
        );
        assert!(set.contains("replicas: 300"), "{set}");
        let set = without_cliques(&set, &["prefill", "decode"]);
        ns.create_yaml::<PodCliqueSet>(&set).await;
        ns.wait_for("ten pods exist, and the clique reports the rejection", |state| {
            let rejected = rejected_creates(state, "llm-0-frontend");
            // Without slow start, 290 creates are rejected. The first batches have 8 and 16 creates, that of a retry has one.
            assert!(rejected.is_none_or(|rejected| rejected <= 16), "{rejected:?} creates were rejected");
            rejected.is_some()
                && state.pods.len() == 10
                && reports_rejection(state, "llm-0-frontend", &["290 to be created"])
        })
        .await;
        resize_quota(ns, "pods", 60).await;
        ns.wait_for("sixty pods exist", |state| state.pods.len() == 60).await;
    })
    .await;
}

/// The set without these cliques.
fn without_cliques(set: &str, removed: &[&str]) -> String {
    let mut set: Value = serde_saphyr::from_str(set).expect("YAML");
    let cliques = set["spec"]["template"]["cliques"].as_array_mut().expect("cliques");
    cliques.retain(|clique| removed.iter().all(|name| clique["name"] != *name));
    set.to_string()
}

#[tokio::test]
async fn rejected_creates_use_released_quota_and_the_failure_is_one_event() {
    in_namespace("e2e-rejected-released", async |ns| {
        create_quota(ns, PODS, 5).await;
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        ns.wait_for("the set is available", |state| state.is_available("llm") && state.pods.len() == 5).await;
        ns.scale::<PodClique>("llm-0-decode", 4).await;
        let texts = ["2 to be created", "exceeded quota: small"];
        ns.wait_for("two creates are rejected", |state| reports_rejection(state, "llm-0-decode", &texts)).await;
        // Each deleted pod releases quota for one create of any clique. Occasionally there is one more pod: after a delete
        // the quota controller recounts, and its cache may lack the last created pod.
        for _ in 0..3 {
            let state = ns.wait_for("five pods are ready", |state| ready_count(state) >= 5).await;
            let pod = state.active_pods().next().map(ResourceExt::name_any).expect("a pod");
            ns.delete_object::<Pod>(&pod).await;
            ns.wait_for("the pod is deleted", |state| !state.pods.contains_key(&pod)).await;
        }
        ns.wait_for("five pods are ready again", |state| ready_count(state) >= 5).await;
        // The event of the scale-in follows all earlier events.
        ns.scale::<PodClique>("llm-0-decode", 1).await;
        assert_eq!(count_events_before(ns, "llm-0-decode", "PodCreateFailed", "PodDeleteSuccessful").await, 1);
    })
    .await;
}

fn ready_count(state: &NamespaceState) -> usize {
    state.active_pods().filter(|pod| e2e::namespace_state::is_ready(pod)).count()
}

#[tokio::test]
async fn a_limit_range_rejects_one_clique_and_the_others_become_ready() {
    in_namespace("e2e-rejected-limits", async |ns| {
        let limits = "{metadata: {name: small}, spec: {limits: [{type: Container, max: {cpu: 50m}}]}}";
        ns.create_yaml::<LimitRange>(limits).await;
        propagation::wait_for_dry_run_create(ns, POD, Some("maximum cpu usage per Container is 50m")).await;
        let set = fixtures::three_cliques("llm", 1).replacen("cpu: 10m", "cpu: 100m", 1);
        ns.create_yaml::<PodCliqueSet>(&set.replace("requests:", "limits:")).await;
        ns.wait_for("the other cliques are healthy, and the frontend reports the rejection", |state| {
            is_healthy(state, "llm-0-prefill", &[0, 1])
                && is_healthy(state, "llm-0-decode", &[0, 1])
                && reports_rejection(
                    state,
                    "llm-0-frontend",
                    &["maximum cpu usage per Container is 50m, but limit is 100m"],
                )
        })
        .await;
        ns.delete_object::<LimitRange>("small").await;
        ns.wait_for("the frontend is healthy, too", |state| {
            state.is_available("llm") && is_healthy(state, "llm-0-frontend", &[0])
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_security_rejection_is_reported_with_its_message() {
    in_namespace("e2e-rejected-security", async |ns| {
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(ns.client.clone());
        let enforce =
            |level: &str| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
        let patch = kube::api::Patch::Merge(enforce("restricted"));
        namespaces.patch(&ns.name, &kube::api::PatchParams::default(), &patch).await.expect("the label is set");
        propagation::wait_for_dry_run_create(ns, POD, Some("violates PodSecurity")).await;
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 1)).await;
        let texts =
            ["the create of 2 Pods: violates PodSecurity \"restricted:latest\"", "allowPrivilegeEscalation != false"];
        let state = ns
            .wait_for("the clique reports the rejection", |state| reports_rejection(state, "llm-0-decode", &texts))
            .await;
        assert_eq!(state.pods.len(), 0);
        let errors = &state.cliques["llm-0-decode"].status.as_ref().expect("a status").last_errors;
        assert_eq!(errors.len(), 1, "{errors:?}");
        let patch = kube::api::Patch::Merge(enforce("baseline"));
        namespaces.patch(&ns.name, &kube::api::PatchParams::default(), &patch).await.expect("the label is set");
        ns.wait_for("the set is available", |state| {
            state.is_available("llm") && is_healthy(state, "llm-0-decode", &[0, 1])
        })
        .await;
    })
    .await;
}

/// Whether the set reports a rejected create with these texts.
fn set_reports_rejection(state: &NamespaceState, texts: &[&str]) -> bool {
    let status = state.sets.get("llm").and_then(|set| set.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let has_texts = |condition: &Condition| texts.iter().all(|text| condition.message.contains(text));
    conditions
        .iter()
        .any(|c| c.type_ == "Available" && c.status == "False" && c.reason == "FailedCreate" && has_texts(c))
}

fn is_settled(state: &NamespaceState, replicas: usize) -> bool {
    let errors = state.sets.get("llm").and_then(|set| set.status.as_ref()).map(|status| status.last_errors.len());
    state.is_available("llm")
        && errors == Some(0)
        && state.pods.len() == replicas * 5
        && ready_count(state) == replicas * 5
}

#[tokio::test]
async fn a_rejected_pod_gang_blocks_only_its_replica() {
    in_namespace("e2e-rejected-gangs", async |ns| {
        create_quota(ns, GANGS, 2).await;
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 3)).await;
        let texts = ["the create of PodGang llm-", "exceeded quota: small", "raise the quota or release some of it"];
        ns.wait_for("two replicas are ready, and the set reports the rejected create of the third", |state| {
            state.gangs.len() == 2
                && state.cliques.len() == 6
                && ready_count(state) == 10
                && set_reports_rejection(state, &texts)
        })
        .await;
        resize_quota(ns, GANGS.0, 3).await;
        ns.wait_for("three replicas are ready", |state| is_settled(state, 3)).await;
        // The event of the scale-in follows all earlier events.
        ns.scale::<PodCliqueSet>("llm", 2).await;
        assert_eq!(count_events_before(ns, "llm", "PodGangCreateOrUpdateFailed", "PodGangDeleteSuccessful").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_rejected_pod_clique_does_not_block_a_scale_in_that_releases_quota() {
    in_namespace("e2e-rejected-cliques", async |ns| {
        create_quota(ns, CLIQUES, 6).await;
        ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("llm", 2)).await;
        ns.wait_for("the set is available", |state| is_settled(state, 2)).await;
        resize_quota(ns, CLIQUES.0, 4).await;
        propagation::wait_for_dry_run_create(ns, CLIQUES.1, Some("limited: count/podcliques.grove.io=4")).await;
        ns.delete_object::<PodClique>("llm-0-decode").await;
        let texts = ["the create of PodClique llm-0-decode", "exceeded quota: small"];
        ns.wait_for("the set reports the rejected create", |state| set_reports_rejection(state, &texts)).await;
        ns.scale::<PodCliqueSet>("llm", 1).await;
        ns.wait_for("the remaining replica is complete", |state| is_settled(state, 1)).await;
    })
    .await;
}

#[tokio::test]
async fn a_small_quota_rejects_few_creates_of_a_set_with_many_cliques() {
    const REPLICAS: usize = 120;
    in_namespace("e2e-rejected-many", async |ns| {
        create_quota(ns, CLIQUES, 10).await;
        let log = TestCluster::shared().audit_log().from_now();
        let set = fixtures::three_cliques("llm", 120);
        ns.create_yaml::<PodCliqueSet>(&without_cliques(&set, &["prefill", "decode"])).await;
        let texts = ["the create of PodClique llm-", "exceeded quota: small"];
        ns.wait_for("ten cliques exist, and the set reports the rejection", |state| {
            state.gangs.len() == REPLICAS && state.cliques.len() == 10 && set_reports_rejection(state, &texts)
        })
        .await;
        let creates = log.creates(&ns.name);
        let is_rejected = |create: &&String| create.starts_with("podcliques ") && create.contains("exceeded quota");
        let rejected = creates.iter().filter(is_rejected).count();
        // At most 32 creates are in flight when the first one is rejected, and each retry sends two. There are 110 further cliques.
        assert!((1..=64).contains(&rejected), "{rejected} creates were rejected:\n{}", creates.join("\n"));
        resize_quota(ns, CLIQUES.0, 120).await;
        ns.wait_for("all cliques are ready", |state| {
            state.is_available("llm") && state.cliques.len() == REPLICAS && ready_count(state) == REPLICAS
        })
        .await;
    })
    .await;
}
