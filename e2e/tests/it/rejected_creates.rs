//! What the cluster refuses, pods or what is made for them: whoever lacks it says why in the cluster's words, nothing is
//! flooded, and what is not refused goes on. When there is leave again, it goes on by itself.

use std::time::Duration;

use e2e::{Namespace, World, announced, in_namespace, sets, taken_up};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;

fn available<'a>(world: &'a World, clique: &str) -> Option<&'a Condition> {
    let status = world.cliques.get(clique)?.status.as_ref()?;
    status.conditions.iter().find(|condition| condition.type_ == "Available")
}

/// Whether the clique says that pods were refused, in these words.
fn refused(world: &World, clique: &str, words: &[&str]) -> bool {
    available(world, clique).is_some_and(|available| {
        let told = words.iter().all(|words| available.message.contains(words));
        told && (available.status == "True" || available.reason == "FailedCreate")
    })
}

fn is_well(world: &World, clique: &str, indices: &[i32]) -> bool {
    let status = world.cliques.get(clique).and_then(|clique| clique.status.as_ref());
    let quiet = |message: &str| !message.contains("refused");
    world.ready_indices(clique) == indices
        && status.is_some_and(|status| status.last_errors.is_empty())
        && available(world, clique).is_some_and(|available| available.status == "True" && quiet(&available.message))
}

/// What is counted, in the words of quotas, and one of it.
const PODS: (&str, &str) = ("pods", POD);
const GANGS: (&str, &str) = (
    "count/podgangs.scheduler.grove.io",
    "{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, metadata: {name: probe}, spec: {podgroups: []}}",
);
const CLIQUES: (&str, &str) = (
    "count/podcliques.grove.io",
    "{apiVersion: grove.io/v1alpha1, kind: PodClique, metadata: {name: probe},
      spec: {roleName: a, replicas: 1, podSpec: {containers: [{name: c, image: i}]}}}",
);
const POD: &str = "
    {apiVersion: v1, kind: Pod, metadata: {name: probe},
      spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 100m}}}]}}";

/// One that was not counted by then was made too early.
const COUNTED_BY: Duration = Duration::from_secs(15);

/// A quota of so many of something, by which the API server goes when this returns. It allows nothing at first: that is
/// refused to whoever asks only then.
async fn quota(ns: &Namespace, (what, one): (&str, &str), count: u32) {
    counted(ns, what).await;
    taken_up::judgement(ns, one, Some(&limited(what, 0))).await;
    resized(ns, what, count).await;
    taken_up::judgement(ns, one, None).await;
}

/// What the API server says of this quota to whoever asks for more.
fn limited(what: &str, count: u32) -> String {
    format!("limited: {what}={count}")
}

async fn resized(ns: &Namespace, what: &str, count: u32) {
    ns.patch::<ResourceQuota>("small", json!({ "spec": { "hard": { what: count.to_string() } } })).await;
}

/// One that is made before Kubernetes has learned of a new kind is never counted, and made anew.
async fn counted(ns: &Namespace, what: &str) {
    let nothing = format!("{{metadata: {{name: small}}, spec: {{hard: {{{what}: 0}}}}}}");
    let known = |quota: Option<&ResourceQuota>| {
        quota.and_then(|quota| quota.status.as_ref()?.used.as_ref()).is_some_and(|used| !used.is_empty())
    };
    loop {
        ns.create_yaml::<ResourceQuota>(&nothing).await;
        let counted = await_condition(ns.api::<ResourceQuota>(), "small", known);
        if tokio::time::timeout(COUNTED_BY, counted).await.is_ok() {
            return;
        }
        ns.remove::<ResourceQuota>("small").await;
    }
}

/// How often an object was announced for this reason before it was for that one. None of the announcements tells of several.
async fn announced_before(ns: &Namespace, name: &str, reason: &str, last: &str) -> usize {
    let mut events = announced::until(ns, name, last).await;
    events.retain(|event| announced::is_about(event, name, reason));
    assert!(events.iter().all(|event| event.series.is_none()), "{events:#?}");
    events.len()
}

#[tokio::test]
async fn pods_rejected_by_a_quota_are_created_when_the_quota_is_raised() {
    in_namespace("e2e-refused-quota", async |ns| {
        quota(ns, PODS, 4).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("all that fits is there, and somebody says why there is no more", |world| {
            let cliques = ["llm-0-frontend", "llm-0-prefill", "llm-0-decode"];
            let words = ["to create 1 Pod", "exceeded quota: small", "limited: pods=4"];
            world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == 4
                && cliques.iter().filter(|clique| refused(world, clique, &words)).count() == 1
        })
        .await;
        resized(ns, "pods", 5).await;
        ns.until("the set serves, and nobody complains any more", |world| {
            world.is_available("llm")
                && is_well(world, "llm-0-frontend", &[0])
                && is_well(world, "llm-0-prefill", &[0, 1])
                && is_well(world, "llm-0-decode", &[0, 1])
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn rejected_creates_use_released_quota_and_the_failure_is_one_event() {
    in_namespace("e2e-refused-room", async |ns| {
        quota(ns, PODS, 5).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("the set serves", |world| world.is_available("llm") && world.pods.len() == 5).await;
        ns.scale::<PodClique>("llm-0-decode", 4).await;
        let words = ["2 to be created", "exceeded quota: small"];
        ns.until("two are refused", |world| refused(world, "llm-0-decode", &words)).await;
        // Each pod that goes makes room for one, of whichever clique asks first. Now and then there is one more: when a pod goes,
        // Kubernetes counts anew, and may not have heard yet of the last that it let in.
        for _ in 0..3 {
            let world = ns.until("five are ready", |world| ready(world) >= 5).await;
            let pod = world.live_pods().next().map(ResourceExt::name_any).expect("a pod");
            ns.remove::<Pod>(&pod).await;
            ns.until("it is gone", |world| !world.pods.contains_key(&pod)).await;
        }
        ns.until("five are ready again", |world| ready(world) >= 5).await;
        // What is announced of its end comes after all that was announced before.
        ns.scale::<PodClique>("llm-0-decode", 1).await;
        assert_eq!(announced_before(ns, "llm-0-decode", "PodCreateFailed", "PodDeleteSuccessful").await, 1);
    })
    .await;
}

fn ready(world: &World) -> usize {
    world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count()
}

#[tokio::test]
async fn a_limit_range_rejects_one_clique_and_the_others_become_ready() {
    in_namespace("e2e-refused-limits", async |ns| {
        let limits = "{metadata: {name: small}, spec: {limits: [{type: Container, max: {cpu: 50m}}]}}";
        ns.create_yaml::<LimitRange>(limits).await;
        taken_up::judgement(ns, POD, Some("maximum cpu usage per Container is 50m")).await;
        let set = sets::three_cliques("llm", 1).replacen("cpu: 10m", "cpu: 100m", 1);
        ns.create_yaml::<PodCliqueSet>(&set.replace("requests:", "limits:")).await;
        ns.until("the others serve, and the frontend says why it does not", |world| {
            is_well(world, "llm-0-prefill", &[0, 1])
                && is_well(world, "llm-0-decode", &[0, 1])
                && refused(world, "llm-0-frontend", &["maximum cpu usage per Container is 50m, but limit is 100m"])
        })
        .await;
        ns.remove::<LimitRange>("small").await;
        ns.until("the frontend serves, too", |world| {
            world.is_available("llm") && is_well(world, "llm-0-frontend", &[0])
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_pod_security_rejection_is_reported_with_its_message() {
    in_namespace("e2e-refused-security", async |ns| {
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(ns.client.clone());
        let enforce =
            |level: &str| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
        let patch = kube::api::Patch::Merge(enforce("restricted"));
        namespaces.patch(&ns.name, &kube::api::PatchParams::default(), &patch).await.expect("the label is set");
        taken_up::judgement(ns, POD, Some("violates PodSecurity")).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        let words =
            ["to create 2 Pods: violates PodSecurity \"restricted:latest\"", "allowPrivilegeEscalation != false"];
        let world = ns.until("the clique says it", |world| refused(world, "llm-0-decode", &words)).await;
        assert_eq!(world.pods.len(), 0);
        let errors = &world.cliques["llm-0-decode"].status.as_ref().expect("a status").last_errors;
        assert_eq!(errors.len(), 1, "{errors:?}");
        let patch = kube::api::Patch::Merge(enforce("baseline"));
        namespaces.patch(&ns.name, &kube::api::PatchParams::default(), &patch).await.expect("the label is set");
        ns.until("the set serves", |world| world.is_available("llm") && is_well(world, "llm-0-decode", &[0, 1])).await;
    })
    .await;
}

/// Whether the set says that this was refused, and what to do.
fn set_refused(world: &World, words: &[&str]) -> bool {
    let status = world.sets.get("llm").and_then(|set| set.status.as_ref());
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let said = |condition: &Condition| words.iter().all(|words| condition.message.contains(words));
    conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && c.reason == "FailedCreate" && said(c))
}

fn serves(world: &World, replicas: usize) -> bool {
    let errors = world.sets.get("llm").and_then(|set| set.status.as_ref()).map(|status| status.last_errors.len());
    world.is_available("llm") && errors == Some(0) && world.pods.len() == replicas * 5 && ready(world) == replicas * 5
}

#[tokio::test]
async fn a_rejected_pod_gang_blocks_only_its_replica() {
    in_namespace("e2e-refused-gangs", async |ns| {
        quota(ns, GANGS, 2).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 3)).await;
        let words = ["to create PodGang llm-", "exceeded quota: small", "raise the quota or free some of it"];
        ns.until("two replicas are there, and the set says why there is no third", |world| {
            world.gangs.len() == 2 && world.cliques.len() == 6 && ready(world) == 10 && set_refused(world, &words)
        })
        .await;
        resized(ns, GANGS.0, 3).await;
        ns.until("the third follows", |world| serves(world, 3)).await;
        // What is announced of its end comes after all that was announced before.
        ns.scale::<PodCliqueSet>("llm", 2).await;
        assert_eq!(announced_before(ns, "llm", "PodGangCreateOrUpdateFailed", "PodGangDeleteSuccessful").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_rejected_pod_clique_does_not_block_a_scale_in_that_releases_quota() {
    in_namespace("e2e-refused-cliques", async |ns| {
        quota(ns, CLIQUES, 6).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await;
        ns.until("the set serves", |world| serves(world, 2)).await;
        resized(ns, CLIQUES.0, 4).await;
        taken_up::judgement(ns, CLIQUES.1, Some(&limited(CLIQUES.0, 4))).await;
        ns.remove::<PodClique>("llm-0-decode").await;
        let words = ["to create PodClique llm-0-decode", "exceeded quota: small"];
        ns.until("the set says what it lacks", |world| set_refused(world, &words)).await;
        ns.scale::<PodCliqueSet>("llm", 1).await;
        ns.until("what went made room", |world| serves(world, 1)).await;
    })
    .await;
}
