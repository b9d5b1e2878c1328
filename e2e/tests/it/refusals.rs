//! What the cluster refuses, pods or what is made for them: whoever lacks it says why in the cluster's words, nothing is
//! flooded, and what is not refused goes on. When there is leave again, it goes on by itself.

use e2e::{Namespace, World, in_namespace, sets};
use grove_api_types::core::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
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
        told && (available.status == "True" || available.reason == "Refused")
    })
}

fn is_well(world: &World, clique: &str, indices: &[i32]) -> bool {
    let status = world.cliques.get(clique).and_then(|clique| clique.status.as_ref());
    let quiet = |message: &str| !message.contains("refused");
    world.ready_indices(clique) == indices
        && status.is_some_and(|status| status.last_errors.is_empty())
        && available(world, clique).is_some_and(|available| available.status == "True" && quiet(&available.message))
}

/// A quota of so many pods, which the cluster knows of when this returns.
async fn quota(ns: &Namespace, pods: u32) {
    quota_of(ns, "pods", pods).await;
}

/// A quota of so many of something. One that is made before Kubernetes has learned of a new kind is never counted, and made
/// anew.
async fn quota_of(ns: &Namespace, what: &str, count: u32) {
    let hard = format!("{{metadata: {{name: small}}, spec: {{hard: {{{what}: {count}}}}}}}");
    loop {
        ns.create_yaml::<ResourceQuota>(&hard).await;
        if is_counted(ns).await {
            return;
        }
        ns.remove::<ResourceQuota>("small").await;
    }
}

async fn is_counted(ns: &Namespace) -> bool {
    let known = |quota: Option<&ResourceQuota>| {
        quota.and_then(|quota| quota.status.as_ref()?.used.as_ref()).is_some_and(|used| !used.is_empty())
    };
    let counted = await_condition(ns.api::<ResourceQuota>(), "small", known);
    tokio::time::timeout(std::time::Duration::from_secs(5), counted).await.is_ok()
}

/// The announcements that pods of the clique were refused.
async fn announcements(ns: &Namespace, clique: &str) -> Vec<Event> {
    warnings(ns, clique, "PodCreateFailed").await
}

/// The events about an object for this reason.
async fn warnings(ns: &Namespace, name: &str, reason: &str) -> Vec<Event> {
    let events = Api::<Event>::namespaced(ns.client.clone(), &ns.name);
    let mut events = events.list(&ListParams::default()).await.expect("the events").items;
    events.retain(|event| {
        event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(name)
            && event.reason.as_deref() == Some(reason)
    });
    events
}

#[tokio::test]
async fn a_quota_lets_in_what_fits_and_the_rest_when_it_is_raised() {
    in_namespace("e2e-refused-quota", async |ns| {
        quota(ns, 4).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("all that fits is there, and somebody says why there is no more", |world| {
            let cliques = ["llm-0-frontend", "llm-0-prefill", "llm-0-decode"];
            let words = ["to create 1 Pod", "exceeded quota: small", "limited: pods=4"];
            world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count() == 4
                && cliques.iter().filter(|clique| refused(world, clique, &words)).count() == 1
        })
        .await;
        ns.patch::<ResourceQuota>("small", json!({ "spec": { "hard": { "pods": "5" } } })).await;
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
async fn what_one_clique_gives_up_another_gets_and_it_was_announced_once() {
    in_namespace("e2e-refused-room", async |ns| {
        quota(ns, 5).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
        ns.until("the set serves", |world| world.is_available("llm") && world.pods.len() == 5).await;
        ns.scale::<PodClique>("llm-0-decode", 4).await;
        let words = ["2 to be created", "exceeded quota: small"];
        ns.until("two are refused", |world| refused(world, "llm-0-decode", &words)).await;
        // Each pod that goes makes room for one, of whichever clique asks first.
        for _ in 0..3 {
            let world = ns.until("five are ready", |world| ready(world) == 5 && world.pods.len() == 5).await;
            let pod = world.live_pods().next().map(ResourceExt::name_any).expect("a pod");
            ns.remove::<Pod>(&pod).await;
            ns.until("it is gone", |world| !world.pods.contains_key(&pod)).await;
        }
        ns.until("five are ready again", |world| ready(world) == 5).await;
        let announced = announcements(ns, "llm-0-decode").await;
        assert!(announced.len() == 1 && announced[0].series.is_none(), "{announced:#?}");
    })
    .await;
}

fn ready(world: &World) -> usize {
    world.live_pods().filter(|pod| e2e::world::is_ready(pod)).count()
}

#[tokio::test]
async fn a_limit_range_refuses_one_clique_and_the_others_serve() {
    in_namespace("e2e-refused-limits", async |ns| {
        let limits = "{metadata: {name: small}, spec: {limits: [{type: Container, max: {cpu: 50m}}]}}";
        ns.create_yaml::<LimitRange>(limits).await;
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
async fn pod_security_refuses_in_its_own_words() {
    in_namespace("e2e-refused-security", async |ns| {
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(ns.client.clone());
        let enforce =
            |level: &str| json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": level } } });
        let patch = kube::api::Patch::Merge(enforce("restricted"));
        namespaces.patch(&ns.name, &kube::api::PatchParams::default(), &patch).await.expect("the label is set");
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
    conditions.iter().any(|c| c.type_ == "Available" && c.status == "False" && c.reason == "Refused" && said(c))
}

fn serves(world: &World, replicas: usize) -> bool {
    let errors = world.sets.get("llm").and_then(|set| set.status.as_ref()).map(|status| status.last_errors.len());
    world.is_available("llm") && errors == Some(0) && world.pods.len() == replicas * 5 && ready(world) == replicas * 5
}

#[tokio::test]
async fn a_replica_that_is_refused_its_gang_holds_up_no_other() {
    in_namespace("e2e-refused-gangs", async |ns| {
        quota_of(ns, "count/podgangs.scheduler.grove.io", 2).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 3)).await;
        let words = ["to create PodGang llm-", "exceeded quota: small", "raise the quota or free some of it"];
        ns.until("two replicas are there, and the set says why there is no third", |world| {
            world.gangs.len() == 2 && world.cliques.len() == 6 && ready(world) == 10 && set_refused(world, &words)
        })
        .await;
        let told = warnings(ns, "llm", "PodGangCreateOrUpdateFailed").await;
        assert_eq!(told.len(), 1, "{told:#?}");
        ns.patch::<ResourceQuota>("small", json!({ "spec": { "hard": { "count/podgangs.scheduler.grove.io": "3" } } }))
            .await;
        ns.until("the third follows", |world| serves(world, 3)).await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_clique_does_not_keep_the_rest_from_making_room_for_it() {
    in_namespace("e2e-refused-cliques", async |ns| {
        quota_of(ns, "count/podcliques.grove.io", 6).await;
        ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 2)).await;
        ns.until("the set serves", |world| serves(world, 2)).await;
        let known = |quota: Option<&ResourceQuota>| {
            let hard = quota.and_then(|quota| quota.status.as_ref()?.hard.as_ref()?.get("count/podcliques.grove.io"));
            hard.is_some_and(|hard| hard.0 == "4")
        };
        ns.patch::<ResourceQuota>("small", json!({ "spec": { "hard": { "count/podcliques.grove.io": "4" } } })).await;
        await_condition(ns.api::<ResourceQuota>(), "small", known).await.expect("the quota is smaller");
        ns.remove::<PodClique>("llm-0-decode").await;
        let words = ["to create PodClique llm-0-decode", "exceeded quota: small"];
        ns.until("the set says what it lacks", |world| set_refused(world, &words)).await;
        ns.scale::<PodCliqueSet>("llm", 1).await;
        ns.until("what went made room", |world| serves(world, 1)).await;
    })
    .await;
}
