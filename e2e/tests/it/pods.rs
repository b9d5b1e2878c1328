//! What becomes of pods, and what their clique and their set say about it.

use e2e::{Namespace, World, in_namespace, sets, world::is_ready};
use grove_api_types::deletion::is_terminating;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{EvictParams, Patch, PatchParams};
use serde_json::json;

const CLIQUE: &str = "llm-0-decode";

const ALL_IS_WELL: &str = "
    2 pods, 2 scheduled, 2 ready
    Available=True MinimumReplicasAvailable: 2 of 2 pods ready
    MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 2
    PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
    set: Available=True MinimumReplicasAvailable: 1 of 1 replicas are available";

const STARTED_AND_NOT_READY: &str = "
    2 pods, 2 scheduled, 0 ready
    Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 not ready
    MinAvailableBreached=True InsufficientReadyPods: Insufficient ready or starting pods. expected at least: 1, found: 0
    PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
    set: Available=False MinimumReplicasUnavailable: 0 of 1 replicas are available";

#[tokio::test]
async fn scheduled_pods_that_do_not_start_are_no_min_available_breach() {
    in_namespace("e2e-pods-pending", async |ns| {
        of_which_decode(ns, "pending").await;
        let world = until_said(
            ns,
            "
            2 pods, 2 scheduled, 0 ready
            Available=False MinimumReplicasUnavailable: 0 of 2 pods ready, 2 not ready
            MinAvailableBreached=False SufficientReadyPods: Either sufficient ready or starting pods found. expected at least: 1, found: 2
            PodCliqueScheduled=True SufficientScheduledPods: Sufficient scheduled pods found. expected at least: 1, found: 2
            set: Available=False MinimumReplicasUnavailable: 0 of 1 replicas are available",
        )
        .await;
        recover(ns, &world).await;
        until_said(ns, ALL_IS_WELL).await;
    })
    .await;
}

#[tokio::test]
async fn running_pods_that_are_not_ready_are_a_min_available_breach_and_are_not_replaced() {
    in_namespace("e2e-pods-unready", async |ns| {
        of_which_decode(ns, "unready").await;
        let world = until_said(ns, STARTED_AND_NOT_READY).await;
        recover(ns, &world).await;
        let after = until_said(ns, ALL_IS_WELL).await;
        assert_eq!(uids(&after), uids(&world));
    })
    .await;
}

#[tokio::test]
async fn crashing_pods_are_a_min_available_breach_until_they_are_ready() {
    in_namespace("e2e-pods-crash", async |ns| {
        of_which_decode(ns, "crash").await;
        let world = until_said(ns, STARTED_AND_NOT_READY).await;
        recover(ns, &world).await;
        let after = until_said(ns, ALL_IS_WELL).await;
        assert_eq!(uids(&after), uids(&world));
        let restarts = after.live_pods().filter_map(restarts).collect::<Vec<_>>();
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
        of_which_decode(ns, "slow-stop").await;
        let world = until_said(ns, ALL_IS_WELL).await;
        let old = at_index_0(&world).expect("the first decode pod").clone();
        // Held, so that it is there for as long as the test looks at it.
        let held = ns.patch::<Pod>(&old.name_any(), json!({"metadata": {"finalizers": ["test.grove.io/held"]}})).await;
        ns.remove::<Pod>(&held.name_any()).await;
        let world = ns
            .until("another pod is ready in its place while it stops", |world| {
                let stops = |pod: &Pod| pod.uid() == old.uid() && is_terminating(pod);
                world.pods.values().any(stops) && at_index_0(world).is_some_and(is_ready)
            })
            .await;
        assert_eq!(world.ready_indices(CLIQUE), [0, 1]);
        until_said(ns, ALL_IS_WELL).await;
        ns.patch::<Pod>(&old.name_any(), json!({"metadata": {"finalizers": null}})).await;
        ns.until("it has gone, and all is as before", |world| serves(world) && !uids(world).contains(&old.uid())).await;
    })
    .await;
}

/// Whatever `happens` to a pod, another takes its place and its index.
async fn is_replaced(ns: &Namespace, happens: impl AsyncFnOnce(&str)) {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("llm", 1)).await;
    let world = ns.until("the set serves", serves).await;
    let pod = at_index_0(&world).expect("the first decode pod");
    happens(&pod.name_any()).await;
    let world = ns.until("it is replaced", |world| serves(world) && !uids(world).contains(&pod.uid())).await;
    assert_eq!(world.ready_indices(CLIQUE), [0, 1]);
    until_said(ns, ALL_IS_WELL).await;
}

/// A set whose two decode pods behave like that.
async fn of_which_decode(ns: &Namespace, behaves: &str) {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques_of_which("decode", behaves, "llm", 1)).await;
}

/// Ends what is wrong with the pods.
async fn recover(ns: &Namespace, world: &World) {
    for pod in world.live_pods().filter(|pod| pod.annotations().contains_key("test.grove.io/behaviour")) {
        ns.patch::<Pod>(&pod.name_any(), json!({"metadata": {"annotations": {"test.grove.io/behaviour": null}}})).await;
    }
}

/// Waits until the clique and its set say exactly this: the clique's counts, and one line per condition.
async fn until_said(ns: &Namespace, expected: &str) -> World {
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    ns.until(&expected.join("\n"), |world| said(world).is_some_and(|said| said == expected)).await
}

fn said(world: &World) -> Option<Vec<String>> {
    let clique = world.cliques.get(CLIQUE)?.status.as_ref()?;
    let set = world.sets.get("llm")?.status.as_ref()?;
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

fn serves(world: &World) -> bool {
    world.is_available("llm") && world.pods.len() == 5 && world.live_pods().filter(|pod| is_ready(pod)).count() == 5
}

fn at_index_0(world: &World) -> Option<&Pod> {
    let hostname = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    world.live_pods().find(|pod| hostname(pod).as_deref() == Some("llm-0-decode-0"))
}

/// Of the pods of the clique.
fn uids(world: &World) -> Vec<Option<String>> {
    let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|clique| clique == CLIQUE);
    let mut uids: Vec<_> = world.pods.values().filter(of_clique).map(ResourceExt::uid).collect();
    uids.sort();
    uids
}

fn restarts(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    containers.iter().map(|container| container.restart_count).max()
}
