//! Objects of users that block a claim, and users that edit and delete claims.

use serde_json::Value;

use super::*;

/// Kubernetes reserves a claim for at most this many consumers.
const MAX_CONSUMERS: usize = 256;

/// An owner at each level, and the name of one of its claims.
const FOREIGN: [(&str, &str); 3] =
    [("llm", "llm-0-net"), ("llm-0-g", "llm-0-g-1-net"), ("llm-0-front", "llm-0-front-all-gpus")];

pub(super) async fn foreign_claims_and_a_quota_block_only_their_cliques(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-foreign").await;
    create_set_with_foreign_claims(&fixture, &FOREIGN).await;
    // All pods use the claim of the set. Then the pods of one replica of the scaling group use no foreign claim.
    let [of_set, others @ ..] = FOREIGN.map(|(_, claim)| claim);
    delete_foreign_claim(&fixture, of_set).await;
    let is_ready = |state: &NamespaceState| state.pods_of("llm").any(is_ready);
    let state = fixture.ns.wait_for("a pod of the scaling group is ready", is_ready).await;
    assert_eq!(state.pods_of("llm").map(pod_key).collect::<Vec<_>>(), ["llm-0-g-0-work/0"], "{state}");
    for claim in others {
        delete_foreign_claim(&fixture, claim).await;
    }
    fixture.ns.wait_for_ready_pods("llm", PODS).await;
    a_quota_blocks_the_next_claims(&fixture).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// A user creates claims with the names of these claims of a set, and then the set.
async fn create_set_with_foreign_claims(fixture: &Fixture, claims: &[(&str, &str)]) {
    for (_, claim) in claims {
        let foreign = format!("{{metadata: {{name: {claim}}}, spec: {{devices: {{requests: [{}]}}}}}}", request(1));
        fixture.ns.create_yaml::<ResourceClaim>(&foreign).await;
    }
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm")).await;
    for (owner, claim) in claims {
        let state = fixture.ns.wait_for_condition(owner, CONDITION, "ResourceClaimNameConflict", claim).await;
        // One of the claims is that of the set, which all pods use.
        assert_eq!(state.pods_of("llm").count(), 0, "{state}");
    }
}

/// A user deletes claims of each level, while a service is stopped, if any. A foreign claim delays the pods, so that no pod uses the claims.
pub(super) async fn deleted_claims_without_pods_are_created_again(cluster: &TestCluster, stopped: Option<&str>) {
    let fixture = Fixture::create(cluster, &format!("e2e-claims-unused-{}", stopped.unwrap_or("none"))).await;
    let (_, foreign) = FOREIGN[0];
    create_set_with_foreign_claims(&fixture, &FOREIGN[..1]).await;
    let mut names = names_of_claims("llm", &[(2, 2)]);
    names.retain(|name| name != foreign);
    let before = fixture.wait_for_claims("llm", &names).await;
    let deletes = async {
        for name in &names {
            fixture.delete_claim(name).await;
        }
    };
    change(cluster, stopped, deletes).await;
    for name in &names {
        fixture.wait_for_claim(name, |claim| claim.uid() != uid_of(&before, name)).await;
    }
    delete_foreign_claim(&fixture, foreign).await;
    fixture.ns.wait_for_ready_pods("llm", PODS).await;
    fixture.delete_last_set("llm").await;
}

/// Grove changed nothing of the claim.
async fn delete_foreign_claim(fixture: &Fixture, name: &str) {
    let claim = fixture.wait_for_claim(name, |_| true).await;
    assert!(claim.owner_references().is_empty() && claim.labels().is_empty(), "{claim:?}");
    fixture.delete_claim(name).await;
}

/// A claim that the quota counts.
const FURTHER_CLAIM: &str =
    "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: further}, spec: {}}";

/// The quota is that of the existing claims.
async fn a_quota_blocks_the_next_claims(fixture: &Fixture) {
    let used = fixture.wait_for_claims("llm", &names_of_claims("llm", &[(2, 2)])).await.len();
    propagation::create_exhausted_quota(&fixture.ns, ("count/resourceclaims.resource.k8s.io", used), FURTHER_CLAIM)
        .await;
    fixture.ns.scale::<PodClique>("llm-0-front", 3).await;
    fixture.ns.scale::<PodCliqueScalingGroup>("llm-0-g", 3).await;
    for owner in ["llm-0-front", "llm-0-g"] {
        fixture.ns.wait_for_condition(owner, CONDITION, "ResourceClaimRejected", "exceeded quota: small").await;
        events::wait_for_note(&fixture.ns, owner, "ResourceClaimCreateFailed", "exceeded quota: small").await;
    }
    fixture.ns.wait_for_ready_pods("llm", PODS).await;
    fixture.ns.delete_object::<ResourceQuota>(propagation::QUOTA).await;
    fixture.ns.wait_for_ready_pods("llm", PODS + 2).await;
    fixture.wait_for_claims("llm", &names_of_claims("llm", &[(3, 3)])).await;
    // Later events about creates of one owner may be a series with the note of the first one.
    for (owner, claim) in [("llm", "llm-all-gpus"), ("llm-0-front", "llm-0-front-0-net"), ("llm-0-g", "llm-0-g-0-net")]
    {
        events::wait_for_note(&fixture.ns, owner, "ResourceClaimCreateSuccessful", claim).await;
    }
}

/// A claim of each level, with a label that names its index.
pub(super) const EDITED: [(&str, &str); 3] = [
    ("llm-0-net", "grove.io/podcliqueset-replica-index"),
    ("llm-0-g-1-net", "grove.io/podcliquescalinggroup-replica-index"),
    ("llm-0-front-1-net", "grove.io/podclique-pod-index"),
];

pub(super) async fn edit_labels(fixture: &Fixture, claim: &str, label: &str) {
    let labels = json!({ label: "7", "app.kubernetes.io/part-of": null });
    fixture.ns.patch::<ResourceClaim>(claim, json!({ "metadata": { "labels": labels } })).await;
}

pub(super) async fn remove_owner(fixture: &Fixture, claim: &str) {
    fixture.ns.patch::<ResourceClaim>(claim, json!({ "metadata": { "ownerReferences": null } })).await;
}

pub(super) async fn wait_until_restored(fixture: &Fixture, before: &[ResourceClaim], claim: &str) {
    let before = before.iter().find(|other| other.name_any() == claim).expect("the claim");
    let is_restored = |claim: &ResourceClaim| {
        claim.labels() == before.labels() && claim.owner_references() == before.owner_references()
    };
    let after = fixture.wait_for_claim(claim, is_restored).await;
    assert_eq!((after.uid(), json!(after.spec)), (before.uid(), json!(before.spec)), "{claim}");
}

pub(super) async fn edited_claims_are_restored(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-edits").await;
    fixture.create_set("llm", &set("llm")).await;
    let before = fixture.wait_for_claims("llm", &names_of_claims("llm", &[(2, 2)])).await;
    for (claim, label) in EDITED {
        edit_labels(&fixture, claim, label).await;
        wait_until_restored(&fixture, &before, claim).await;
        remove_owner(&fixture, claim).await;
        wait_until_restored(&fixture, &before, claim).await;
        // A label of a user stays.
        fixture.ns.patch::<ResourceClaim>(claim, json!({ "metadata": { "labels": { "team": "ml" } } })).await;
        edit_labels(&fixture, claim, label).await;
        fixture
            .wait_for_claim(claim, |claim| claim.labels().contains_key(PART_OF) && claim.labels()["team"] == "ml")
            .await;
    }
    edited_annotations_are_restored(&fixture).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// The annotation of a clique of the set, and of one of the scaling group.
async fn edited_annotations_are_restored(fixture: &Fixture) {
    let annotation = |state: &NamespaceState, clique: &str| {
        state.cliques.get(clique).and_then(|clique| clique.annotations().get(RESOURCE_CLAIMS).cloned())
    };
    let before = fixture.ns.wait_for_ready_pods("llm", PODS).await;
    for clique in ["llm-0-front", "llm-0-g-0-work"] {
        let expected = annotation(&before, clique).expect("the annotation");
        let edited = json!({ "metadata": { "annotations": { RESOURCE_CLAIMS: "{}" } } });
        let patched = fixture.ns.patch::<PodClique>(clique, edited).await;
        assert_eq!(patched.annotations()[RESOURCE_CLAIMS], "{}");
        fixture
            .ns
            .wait_for("the annotation is restored", |state| annotation(state, clique).as_ref() == Some(&expected))
            .await;
    }
}

/// A user deletes claims of each level, with and without pods that use them, while a service is stopped, if any.
pub(super) async fn deleted_claims_are_created_again(cluster: &TestCluster, stopped: Option<&str>) {
    let fixture = Fixture::create(cluster, &format!("e2e-claims-deleted-{}", stopped.unwrap_or("none"))).await;
    fixture.create_set("llm", &set("llm")).await;
    let names = names_of_claims("llm", &[(2, 2)]);
    let before = fixture.wait_for_claims("llm", &names).await;
    let deletes = async {
        for (claim, _) in EDITED {
            fixture.delete_claim(claim).await;
        }
    };
    change(cluster, stopped, deletes).await;
    for (owner, claim) in [("llm", "llm-0-net"), ("llm-0-g", "llm-0-g-1-net"), ("llm-0-front", "llm-0-front-1-net")] {
        fixture.ns.wait_for_condition(owner, CONDITION, "ResourceClaimTerminating", claim).await;
    }
    // The running pods stay. Without them, the claims are created again.
    replace_all_pods(&fixture).await;
    let after = fixture.wait_for_claims("llm", &names).await;
    for name in &names {
        let is_same = uid_of(&before, name) == uid_of(&after, name);
        assert_eq!(is_same, !EDITED.iter().any(|(claim, _)| claim == name), "{name}");
    }
    an_unused_claim_is_created_again(&fixture, &after, (cluster, stopped)).await;
    fixture.delete_last_set("llm").await;
}

async fn replace_all_pods(fixture: &Fixture) {
    let state = fixture.ns.wait_for_ready_pods("llm", PODS).await;
    for pod in state.pods.keys() {
        fixture.ns.delete_object::<Pod>(pod).await;
    }
    let old: BTreeSet<_> = state.pods.values().filter_map(ResourceExt::uid).collect();
    let is_new = |pod: &&Pod| is_ready(pod) && pod.uid().is_some_and(|uid| !old.contains(&uid));
    let are_new = |state: &NamespaceState| state.pods_of("llm").filter(is_new).count() == PODS;
    fixture.ns.wait_for("the pods are replaced", are_new).await;
}

/// A clique without pods needs no claim. The next pods need a new one.
async fn an_unused_claim_is_created_again(
    fixture: &Fixture,
    before: &[ResourceClaim],
    (cluster, stopped): (&TestCluster, Option<&str>),
) {
    let claim = "llm-0-front-all-gpus";
    fixture.ns.scale::<PodClique>("llm-0-front", 0).await;
    fixture.wait_for_claim(claim, |claim| claim.finalizers().is_empty()).await;
    let delete = async {
        fixture.delete_claim(claim).await;
        fixture.ns.scale::<PodClique>("llm-0-front", 2).await;
    };
    change(cluster, stopped, delete).await;
    fixture.ns.wait_for_ready_pods("llm", PODS).await;
    let after = fixture.wait_for_claim(claim, |_| true).await;
    assert_ne!(after.uid(), uid_of(before, claim));
}

/// The message is that of the scheduler. Other consumers than pods have reserved the claim, because 256 pods would take minutes.
pub(super) async fn more_pods_than_a_claim_permits_are_reported(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-consumers").await;
    fixture.create_set("llm", &set("llm")).await;
    let name = "llm-0-front-all-gpus";
    let reserved_for =
        |claim: &ResourceClaim| json!(claim.status)["reservedFor"].as_array().cloned().unwrap_or_default();
    let pods = reserved_for(&fixture.wait_for_claim(name, |claim| reserved_for(claim).len() == 2).await);
    let consumer = |number: usize| {
        let name = format!("c{number}");
        json!({ "apiGroup": "example.com", "resource": "consumers", "name": name, "uid": name })
    };
    let all: Vec<_> = pods.iter().cloned().chain((pods.len()..MAX_CONSUMERS).map(consumer)).collect();
    reserve(&fixture, name, &all).await;
    fixture.ns.scale::<PodClique>("llm-0-front", 3).await;
    let is_quoted = |state: &NamespaceState| {
        scheduler_message(state, "llm-0-front/2").is_some_and(|(pod, message)| {
            let text = format!("Pod {pod} is not scheduled: {message}");
            message.contains("at most 256 items")
                && state.has_condition("llm-0-front", CONDITION, "AllResourceClaimsExist", &text)
        })
    };
    fixture.ns.wait_for("the condition quotes the scheduler", is_quoted).await;
    reserve(&fixture, name, &pods).await;
    fixture.ns.wait_for_ready_pods("llm", PODS + 1).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// The name of the pod, and why the scheduler rejects it.
fn scheduler_message(state: &NamespaceState, key: &str) -> Option<(String, String)> {
    let pod = state.pods.values().find(|pod| pod_key(pod) == key)?;
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")?;
    Some((pod.name_any(), condition.message.clone()?))
}

async fn reserve(fixture: &Fixture, claim: &str, consumers: &[Value]) {
    let status = Patch::Merge(json!({ "status": { "reservedFor": consumers } }));
    fixture.claims.patch_status(claim, &PatchParams::default(), &status).await.expect("the claim is reserved");
}
