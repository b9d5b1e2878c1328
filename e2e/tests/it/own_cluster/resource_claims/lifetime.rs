//! Objects with claims return while the pods of their predecessors terminate. Finalizers delay the end of these pods until the test has seen
//! that the objects wait.

use grove_dev_harness::audit_log::Event;

use super::*;

/// More writes of claims than a set and two replaced pods need.
const MAX_WRITES: usize = 60;
const TERMINATING: &str = "ResourceClaimTerminating";

fn terminating(state: &NamespaceState) -> usize {
    state.pods.values().filter(|pod| is_terminating(*pod)).count()
}

fn active<'s>(state: &'s NamespaceState, set: &'s str) -> impl Iterator<Item = &'s Pod> {
    state.pods_of(set).filter(|pod| !is_terminating(*pod))
}

/// A set, a scaling group and a clique are scaled in, and out again at once.
pub(super) async fn replicas_and_pods_return_while_pods_terminate(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-return").await;
    let before = create_two_replicas(&fixture).await;
    let names = names_of_claims("llm", &[(2, 2), (2, 2)]);
    let claims = fixture.wait_for_claims("llm", &names).await;
    scale(&fixture, 1).await;
    fixture.ns.wait_for("the pods of the removed replicas are terminating", |state| terminating(state) == 6).await;
    scale(&fixture, 2).await;
    owners_wait_for_terminating_claims(&fixture).await;
    fixture.ns.remove_finalizers(before.pods_of("llm")).await;
    let after = fixture.wait_for_active_pods("llm", 2 * PODS).await;
    let claims_after = fixture.wait_for_claims("llm", &names).await;
    only_claims_of_retained_replicas_stay(&names, &claims, &claims_after);
    assert_eq!(retained_pods(&before, &after), ["llm-0-front/0", "llm-0-g-0-work/0"]);
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// Creates the set with two replicas. Their pods are terminating until the test removes their finalizers.
async fn create_two_replicas(fixture: &Fixture) -> NamespaceState {
    fixture.create_set("llm", &set("llm")).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 2).await;
    let state = fixture.ns.wait_for_ready_pods("llm", 2 * PODS).await;
    fixture.ns.add_finalizers(state.pods_of("llm")).await;
    state
}

async fn owners_wait_for_terminating_claims(fixture: &Fixture) {
    for (owner, claim) in [("llm", "llm-1-net"), ("llm-0-g", "llm-0-g-1-net"), ("llm-0-front", "llm-0-front-1-net")] {
        fixture.ns.wait_for_condition(owner, CONDITION, TERMINATING, claim).await;
    }
}

/// The pods that are active in both states.
fn retained_pods(before: &NamespaceState, after: &NamespaceState) -> Vec<String> {
    let (pods, pods_after) = (pod_uids(active(before, "llm")), pod_uids(active(after, "llm")));
    pods.into_iter().filter(|(key, uid)| pods_after.get(key) == Some(uid)).map(|(key, _)| key).collect()
}

fn only_claims_of_retained_replicas_stay(names: &[String], before: &[ResourceClaim], after: &[ResourceClaim]) {
    let stays = |name: &str| name == "llm-all-gpus" || (name.starts_with("llm-0-") && !name.contains("-1-"));
    for name in names {
        let is_same = uid_of(before, name) == uid_of(after, name);
        assert_eq!(is_same, stays(name), "{name}");
    }
}

async fn scale(fixture: &Fixture, replicas: i32) {
    fixture.ns.scale::<PodCliqueSet>("llm", replicas).await;
    fixture.ns.scale::<PodCliqueScalingGroup>("llm-0-g", replicas).await;
    fixture.ns.scale::<PodClique>("llm-0-front", replicas).await;
}

/// No node has the devices, so no pod is scheduled, and no finalizer of Kubernetes protects the claims. The claim of an index is deleted after
/// its pod. The other claims may be deleted before the pods of their deleted owner or replica, which are deleted, too.
pub(super) async fn unallocated_claims_follow_their_owners(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-unallocated").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm").replace("count: 1", "count: 1000")).await;
    let claims = wait_for_pending_pods(&fixture, &[(2, 2)]).await;
    assert!(claims.iter().all(|claim| claim.finalizers().is_empty()), "{claims:?}");
    fixture.ns.scale::<PodClique>("llm-0-front", 1).await;
    wait_for_pending_pods(&fixture, &[(1, 2)]).await;
    fixture.check_lifetime().await;
    for replicas in [1, 2, 1, 2] {
        scale(&fixture, replicas).await;
        let sizes = vec![(replicas, replicas); usize::try_from(replicas).expect("a small number")];
        wait_for_pending_pods(&fixture, &sizes).await;
    }
    fixture.ns.delete_object::<PodClique>("llm-0-front").await;
    fixture.delete_last_set("llm").await;
}

async fn wait_for_pending_pods(fixture: &Fixture, sizes: &[(i32, i32)]) -> Vec<ResourceClaim> {
    fixture.ns.wait_for("the pods exist", |state| state.pods_of("llm").count() == pod_count(sizes)).await;
    fixture.wait_for_claims("llm", &names_of_claims("llm", sizes)).await
}

/// The replacement of a deleted pod does not wait for the end of that pod.
pub(super) async fn a_replaced_pod_uses_the_claim_of_its_index(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-replacement").await;
    let before = fixture.create_set("llm", &set("llm")).await;
    let names = names_of_claims("llm", &[(2, 2)]);
    let claims = fixture.wait_for_claims("llm", &names).await;
    let first = before.pods_of("llm").find(|pod| pod_key(pod) == "llm-0-front/0").expect("the pod");
    let deleted = first.name_any();
    fixture.ns.add_finalizers([first]).await;
    fixture.ns.delete_object::<Pod>(&deleted).await;
    let is_replaced = |state: &NamespaceState| {
        let ready = active(state, "llm").filter(|pod| is_ready(pod)).count();
        state.pods.get(&deleted).is_some_and(is_terminating) && ready == PODS
    };
    let after = fixture.ns.wait_for("the pod is replaced while it is terminating", is_replaced).await;
    assert_eq!(claims_by_pod(active(&after, "llm")), claims_by_pod(active(&before, "llm")));
    assert_eq!(uids(&fixture.wait_for_claims("llm", &names).await), uids(&claims));
    assert_allocated(&fixture.wait_for_claims("llm", &names).await, active(&after, "llm"), 1);
    fixture.ns.remove_finalizers([first]).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// While an ended pod is reserved for a claim that others use, kube-controller-manager writes the status of the claim more than a hundred times
/// a second. So an ended pod is deleted at once, and its replacement is created when it is due: ten seconds after the creation of the pod.
pub(super) async fn an_ended_pod_is_deleted_before_its_replacement_is_due(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-ended").await;
    let before = fixture.create_set("llm", &set("llm")).await;
    let names = names_of_claims("llm", &[(2, 2)]);
    let (claims, log) = (fixture.wait_for_claims("llm", &names).await, fixture.log.from_now());
    // The replacement of the first pod may be due at once, but that of the second one is not.
    let first = end_a_pod(&fixture, &before).await;
    let after = end_a_pod(&fixture, &first).await;
    assert_eq!(claims_by_pod(active(&after, "llm")), claims_by_pod(active(&before, "llm")));
    assert_eq!(uids(&fixture.wait_for_claims("llm", &names).await), uids(&claims));
    let is_of_claim = |event: &Event| {
        let object = event.object_ref.as_ref();
        object.is_some_and(|object| object.resource == "resourceclaims" && object.namespace == fixture.ns.name)
    };
    let writes = log.events().iter().filter(|event| event.is_write() && is_of_claim(event)).count();
    assert!(writes < MAX_WRITES, "{writes} writes of claims");
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// Ends the pod with the index 0 of the clique, and waits until it is deleted and replaced.
async fn end_a_pod(fixture: &Fixture, state: &NamespaceState) -> NamespaceState {
    let pod = active(state, "llm").find(|pod| pod_key(pod) == "llm-0-front/0").expect("the pod");
    let name = pod.name_any();
    let ended = Patch::Merge(json!({ "status": { "phase": "Failed", "reason": "Evicted" } }));
    fixture.ns.api::<Pod>().patch_status(&name, &PatchParams::default(), &ended).await.expect("the pod ends");
    let is_replaced = |state: &NamespaceState| {
        !state.pods.contains_key(&name) && active(state, "llm").filter(|pod| is_ready(pod)).count() == PODS
    };
    fixture.ns.wait_for("the ended pod is replaced", is_replaced).await
}

/// One clique of a gang is deleted, and then all of them. The other cliques do not wait.
pub(super) async fn deleted_cliques_wait_for_new_claims(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-cliques").await;
    tokio::join!(a_deleted_clique_waits(&fixture), all_cliques_of_a_gang_wait(&fixture));
    for set in ["one", "all"] {
        fixture.ns.delete_object::<PodCliqueSet>(set).await;
    }
    fixture.wait_until_nothing_is_left().await;
    fixture.check_lifetime().await;
}

async fn a_deleted_clique_waits(fixture: &Fixture) {
    let before = fixture.create_set("one", &set("one")).await;
    fixture.ns.add_finalizers(before.pods_of("one")).await;
    let names = names_of_claims("one", &[(2, 2)]);
    let claims = fixture.wait_for_claims("one", &names).await;
    fixture.ns.delete_object::<PodClique>("one-0-front").await;
    let waiting = fixture.ns.wait_for_condition("one-0-front", CONDITION, TERMINATING, "one-0-front-all-gpus").await;
    let ready: Vec<_> = active(&waiting, "one").filter(|pod| is_ready(pod)).map(pod_key).collect();
    assert_eq!(ready.len(), 2, "the pods of the scaling group stay: {ready:?}");
    fixture.ns.remove_finalizers(before.pods_of("one")).await;
    fixture.wait_for_active_pods("one", PODS).await;
    only_the_claims_of_the_clique_are_new(fixture, "one", &claims).await;
}

async fn all_cliques_of_a_gang_wait(fixture: &Fixture) {
    let before = fixture.create_set("all", &set("all")).await;
    fixture.ns.add_finalizers(before.pods_of("all")).await;
    let claims = fixture.wait_for_claims("all", &names_of_claims("all", &[(2, 2)])).await;
    for clique in ["all-0-front", "all-0-g-0-work"] {
        fixture.ns.delete_object::<PodClique>(clique).await;
    }
    fixture.ns.wait_for_condition("all-0-front", CONDITION, TERMINATING, "all-0-front-all-gpus").await;
    fixture.ns.remove_finalizers(before.pods_of("all")).await;
    fixture.wait_for_active_pods("all", PODS).await;
    only_the_claims_of_the_clique_are_new(fixture, "all", &claims).await;
}

async fn only_the_claims_of_the_clique_are_new(fixture: &Fixture, set: &str, claims: &[ResourceClaim]) {
    let names = names_of_claims(set, &[(2, 2)]);
    let after = fixture.wait_for_claims(set, &names).await;
    for name in names {
        assert_eq!(uid_of(claims, &name) == uid_of(&after, &name), !name.contains("-front-"), "{name}");
    }
}
