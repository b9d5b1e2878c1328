//! Deletions of sets, claims and cliques.

use e2e::propagation::wait_for_garbage_collection;
use futures::future::join_all;

use super::*;

/// In the background, in the foreground, and with orphans. The pods take 30 s to terminate.
pub(super) async fn deletions_of_a_set_leave_no_claim(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-deleted-sets").await;
    let gang =
        "{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, metadata: {name: probe}, spec: {podgroups: []}}";
    wait_for_garbage_collection(&fixture.ns, gang).await;
    let policies = [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphans", DeleteParams::orphan()),
    ];
    for (name, _) in &policies {
        fixture.create_set(name, &slow_set(name)).await;
    }
    let sets = fixture.ns.api::<PodCliqueSet>();
    for (name, params) in &policies {
        sets.delete(name, params).await.expect("the set is deleted");
    }
    the_orphans_are_used_by_a_new_set(&fixture).await;
    for set in ["background", "foreground"] {
        fixture.wait_for_claims::<&str>(set, &[]).await;
    }
    fixture.delete_last_set("orphans").await;
    fixture.check_lifetime().await;
}

/// The claims and the pods of the deleted set stay, and a new set of the same name takes them over.
async fn the_orphans_are_used_by_a_new_set(fixture: &Fixture) {
    let names = names_of_claims("orphans", &[(2, 2)]);
    fixture.ns.wait_for("the set is deleted", |state| !state.sets.contains_key("orphans")).await;
    fixture.wait_for_claim("orphans-all-gpus", |claim| claim.owner_references().is_empty()).await;
    let before = fixture.wait_for_claims("orphans", &names).await;
    let pods = fixture.create_set("orphans", &slow_set("orphans")).await;
    fixture.wait_for_claim("orphans-all-gpus", |claim| controller_of(&claim.metadata).is_some()).await;
    assert_eq!(uids(&fixture.wait_for_claims("orphans", &names).await), uids(&before));
    assert_allocated(&before, pods.pods_of("orphans"), 1);
    the_orphans_of_a_clique_are_used_by_the_next_one(fixture, &before).await;
    a_new_pod_of_an_adopted_clique_uses_the_claims(fixture).await;
}

/// The annotation of the clique gets the UID of the new set.
async fn a_new_pod_of_an_adopted_clique_uses_the_claims(fixture: &Fixture) {
    let has_uid = |state: &NamespaceState| {
        let set = state.sets["orphans"].uid().expect("a UID");
        state.cliques["orphans-0-g-0-work"].annotations()[RESOURCE_CLAIMS].contains(&set)
    };
    let state = fixture.ns.wait_for("the clique has the UID of the new set", has_uid).await;
    let pod = state.pods_of("orphans").find(|pod| pod_key(pod) == "orphans-0-g-0-work/0").expect("a pod");
    fixture.ns.delete_object::<Pod>(&pod.name_any()).await;
    let is_new = |other: &Pod| pod_key(other) == pod_key(pod) && other.uid() != pod.uid() && is_ready(other);
    fixture.ns.wait_for("the pod is replaced", |state| state.pods_of("orphans").any(is_new)).await;
}

async fn the_orphans_of_a_clique_are_used_by_the_next_one(fixture: &Fixture, before: &[ResourceClaim]) {
    let clique = "orphans-0-front";
    let state = fixture.ns.wait_for_ready_pods("orphans", PODS).await;
    let (uid, pods) = (state.cliques[clique].uid(), pod_uids(state.pods_of("orphans")));
    let cliques = fixture.ns.api::<PodClique>();
    cliques.delete(clique, &DeleteParams::orphan()).await.expect("the clique is deleted");
    let is_new = |state: &NamespaceState| state.cliques.get(clique).is_some_and(|clique| clique.uid() != uid);
    let uid = fixture.ns.wait_for("the clique returns", is_new).await.cliques[clique].uid().expect("a UID");
    for claim in ["orphans-0-front-all-gpus", "orphans-0-front-1-net"] {
        let is_adopted = |claim: &ResourceClaim| controller_of(&claim.metadata).is_some_and(|owner| owner.uid == uid);
        let claim = fixture.wait_for_claim(claim, is_adopted).await;
        assert_eq!(claim.uid(), uid_of(before, &claim.name_any()));
    }
    assert_eq!(pod_uids(fixture.ns.wait_for_ready_pods("orphans", PODS).await.pods_of("orphans")), pods);
}

#[derive(Clone, Copy, Debug)]
enum Object {
    Set,
    Claims,
    Cliques,
}

/// Each order in which a user can delete a set, its claims and its cliques.
const ORDERS: [(&str, [Object; 3]); 6] = [
    ("set-claims-cliques", [Object::Set, Object::Claims, Object::Cliques]),
    ("set-cliques-claims", [Object::Set, Object::Cliques, Object::Claims]),
    ("claims-set-cliques", [Object::Claims, Object::Set, Object::Cliques]),
    ("claims-cliques-set", [Object::Claims, Object::Cliques, Object::Set]),
    ("cliques-set-claims", [Object::Cliques, Object::Set, Object::Claims]),
    ("cliques-claims-set", [Object::Cliques, Object::Claims, Object::Set]),
];

/// The deletions follow each other without a pause. A user deletes claims that are in use, so the rule about their lifetime does not apply.
pub(super) async fn deletions_in_each_order_leave_no_claim(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-orders").await;
    join_all(ORDERS.iter().map(|(name, objects)| {
        let fixture = &fixture;
        async move {
            fixture.create_set(name, &set(name)).await;
            for object in objects {
                delete(fixture, name, *object).await;
            }
        }
    }))
    .await;
    fixture.wait_until_nothing_is_left().await;
}

async fn delete(fixture: &Fixture, set: &str, object: Object) {
    let (params, ns) = (DeleteParams::default(), &fixture.ns);
    let of_set = ListParams::default().labels(&format!("app.kubernetes.io/part-of={set}"));
    let deleted = match object {
        Object::Set => ns.api::<PodCliqueSet>().delete(set, &params).await.map(drop),
        Object::Claims => fixture.claims.delete_collection(&params, &of_set).await.map(drop),
        Object::Cliques => ns.api::<PodClique>().delete_collection(&params, &of_set).await.map(drop),
    };
    deleted.unwrap_or_else(|error| panic!("{object:?} of {set}: {error}"));
}
